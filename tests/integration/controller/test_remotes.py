"""Repositories behind HTTPS with a token, and behind SSH with a key: git's own server side, on this machine."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificate import write_certificate
from tests.support.controlling import FIX, PLAN, PYTEST, Planner, Repo, bare
from worker.controller.repositories_file import RepositoriesFile

pytestmark = pytest.mark.outages

Start = Callable[..., None]
REF = f"refs/planner/{PLAN}"
TOKEN, READER = "s3cret/of:the=host", "one-that-may-only-read"
BACKEND = Path(subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip())


def header(token: str) -> str:
    return f"Basic {b64encode(f'x-access-token:{token}'.encode()).decode()}"


class Handler(BaseHTTPRequestHandler):
    """Git over HTTP, for whoever knows the token."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("Authorization")
        if given not in (header(TOKEN), header(READER)):
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            return
        if given == header(READER) and "receive-pack" in self.path:
            self._answer(403, {}, b"")
            return
        path, _, query = self.path.partition("?")
        said = {
            "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command,
            "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)), "REMOTE_USER": "somebody", "PATH": os.environ["PATH"],
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_ADDR": "127.0.0.1",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run([BACKEND / "git-http-backend"], input=body, env=said, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._answer(int(headers.pop("Status", "200").split()[0]), headers, content)

    def _answer(self, code: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(code)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def remote(repo: Repo) -> Repo:
    return bare(repo, "shop.git")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path)[0]


@pytest.fixture
def https(remote: Repo, certificate: Path) -> Iterator[str]:
    """Serve the remotes, and return the URL of the one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    handler = type("ItsHandler", (Handler,), {"root": remote.path.parent})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/{remote.path.name}"
        server.shutdown()
        thread.join()


def on_host(tmp_path: Path, **table: str) -> RepositoriesFile:
    lines = "".join(f'{name} = "{value}"\n' for name, value in table.items())
    (tmp_path / "repos.toml").write_text(f'[repositories."acme/shop"]\n{lines}')
    return RepositoriesFile.read(tmp_path / "repos.toml")


CHANGE: dict[str, Any] = {"intent": FIX, "allowed_files": ["calc.py"], "verify_tools": [PYTEST]}
CONTEXT = {"repo": "acme/shop", "base_sha": None}


def test_a_repository_behind_https_is_cloned_read_and_pushed_to_with_a_token(
    planner: Planner, repo: Repo, remote: Repo, https: str, certificate: Path, start: Start, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    old = remote.git("rev-parse", "main")
    remote.commit_on("main", "words.py", "# moved on\n")
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    planner.send("fix", **CHANGE, context={**CONTEXT, "base_sha": old})
    start(repositories=on_host(tmp_path, url=https, token_file="token"))

    assert planner.outcome("fix").success
    assert remote.git("diff", "--name-only", old, REF) == "calc.py"

    tokens = {READER: "The requested URL returned error: 403", "another": "takes no login, or not this one"}
    for number, (token, why) in enumerate(tokens.items()):
        (tmp_path / "token").write_text(token)  # it is read each time
        intent = f"write('calc.py', '# {number}')"
        planner.send(f"more-{number}", intent=intent, allowed_files=["calc.py"], context=CONTEXT)
        released = planner.outcome(f"more-{number}").released
        assert released
        assert why in released.reason
    told = b"".join(fields[b"data"] for _, fields in planner.entries()).decode()
    for token in (TOKEN, READER, "another"):
        assert header(token) not in told
    assert TOKEN not in told + caplog.text
    assert READER not in told + caplog.text


def test_a_certificate_that_nobody_vouches_for_is_refused(
    planner: Planner, https: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    planner.send("fix", **CHANGE, context=CONTEXT)
    start(repositories=on_host(tmp_path, url=https, token_file="token"))

    fix = planner.outcome("fix")

    assert fix.released
    assert "certificate" in fix.released.reason
    assert TOKEN not in fix.model_dump_json()


# What a server does with the words that git gives to ssh, without a network.
SSH = """#!{python}
import json, os, subprocess, sys
with open({told!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if "-G" in sys.argv:
    sys.exit(0)
sys.exit(subprocess.run(["sh", "-c", sys.argv[-1]], env={{"PATH": os.environ["PATH"]}}).returncode)
"""


def test_a_repository_behind_ssh_is_cloned_read_and_pushed_to_with_a_key(
    planner: Planner, remote: Repo, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, told, key = tmp_path / "programs", tmp_path / "told", tmp_path / "the host's key"
    programs.mkdir()
    (programs / "ssh").write_text(SSH.format(python=sys.executable, told=str(told)))
    (programs / "ssh").chmod(0o755)
    key.touch()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    old = remote.git("rev-parse", "main")
    commit = "commit refs/heads/main\ncommitter t <t@t> 0 +0000\ndata 0\n"
    later = f"{commit}from {old}\n\n" + f"{commit}\n" * 60  # beyond what is at hand of the past
    subprocess.run(["git", "fast-import", "--quiet"], cwd=remote.path, input=later, text=True, check=True)
    planner.send("fix", **CHANGE, context={**CONTEXT, "base_sha": old})
    start(repositories=on_host(tmp_path, url=f"git@git.example:{remote.path}", ssh_key=key.name, known_hosts=key.name))

    assert planner.outcome("fix").success
    assert remote.git("diff", "--name-only", old, REF) == "calc.py"
    assert str(key) in told.read_text()
    assert f'UserKnownHostsFile=\\"{key}\\" ' in told.read_text()
