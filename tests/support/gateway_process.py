"""Runs `planner gateway` in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

COMMAND = [sys.executable, "-c", "from worker.start import planner; planner()", "gateway"]


def started(url: str, *words: str, **more: str) -> subprocess.Popen[str]:
    """Start a gateway; it logs to its stderr."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    environment = {**kept, "PLANNER_REDIS_URL": url, **more}
    return subprocess.Popen([*COMMAND, *words], env=environment, stderr=subprocess.PIPE, text=True)


@contextmanager
def serving(url: str, *words: str, port: int = 0, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a gateway until the block ends; yield it and its address.

    It must exit with success, unless it was killed, and its log may contain no unexpected failure.
    """
    process = started(url, "--port", str(port), *words, **more)
    assert process.stderr
    lines: list[str] = []
    log = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
    try:
        said = json.loads(process.stderr.readline())
        assert said["event"] == "gateway listens", said
        log.start()
        yield process, f"127.0.0.1:{said['port']}"
        if process.poll() is None:
            process.terminate()
            assert process.wait(60) == 0
        log.join(60)
        assert [line for line in lines if "Traceback" in line or '"request failed"' in line] == []
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
