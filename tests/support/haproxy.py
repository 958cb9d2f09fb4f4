"""Debian's haproxy as docs/gateway.md has it, before gateways of this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.conftest import wait_until
from tests.support.certificate import write_certificate
from tests.support.documented import DOCS
from worker.host.embedded_server import free_port


@contextmanager
def haproxy(directory: Path, *gateways: str, tls: bool = False, look_ms: int = 200) -> Iterator[str]:
    """Run the proxy at a port of this machine; yields its URL. Without TLS it is all else that is documented."""
    documented = (DOCS / "gateway.md").read_text().partition("Behind Debian's haproxy:\n\n```\n")[2].partition("```")[0]
    assert documented.count("check\n") == 2
    port, servers = (
        free_port(),
        "".join(f"  server g{at} {each} check inter {look_ms}ms\n" for at, each in enumerate(gateways)),
    )
    config = re.sub(r"(  server .*\n)+", servers, documented)
    if tls:
        pem = directory / "planner.pem"
        pem.write_bytes(b"".join(each.read_bytes() for each in write_certificate(directory)))
        config = config.replace(":443 ssl crt /etc/haproxy/planner.pem", f"127.0.0.1:{port} ssl crt {pem}")
    else:
        config = config.replace(":443 ssl crt /etc/haproxy/planner.pem", f"127.0.0.1:{port}")
    (directory / "haproxy.cfg").write_text(config)
    process = subprocess.Popen(["haproxy", "-db", "-f", str(directory / "haproxy.cfg")], stderr=subprocess.DEVNULL)
    try:
        url = f"{'https' if tls else 'http'}://localhost:{port}"
        wait_until(lambda: _answers(url), what="the proxy answers")
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", verify=False).status_code == 200
    return False
