"""Where `planner up` leaves what its user's other commands need: its server's address, its gateway's, and a key."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path

URL, PASSWORD = "url", "password"
GATEWAY_URL, API_KEY = "gateway_url", "api_key"  # of the gateway, with all rights
FOUND = re.compile(r"redis://planner:[\w-]+@127\.0\.0\.1:\d+/0")


def make_private(data_dir: Path) -> None:
    """Make the directory, readable for its owner alone; also one that is there already."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    data_dir.chmod(0o700)


def password(data_dir: Path) -> str:
    """Return the server's password: a random one that is kept, so that a URL stays good over restarts."""
    file = data_dir / PASSWORD
    if not file.exists():
        write(file, secrets.token_urlsafe(24))
    return file.read_text().strip()


def write(file: Path, text: str) -> None:
    """Replace a file that only its owner can read."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    fresh.replace(file)


def url(data_dir: Path) -> str | None:
    """Return the URL of the server that runs there; None where none does, or where it is another user's."""
    text = _read(data_dir / URL)
    return text if text and FOUND.fullmatch(text) else None


def api_key(data_dir: Path, gateway_url: str) -> str | None:
    """Return the key for the gateway that runs there, which nobody else is shown; None where it is another one."""
    return _read(data_dir / API_KEY) if _read(data_dir / GATEWAY_URL) == gateway_url else None


def _read(file: Path) -> str | None:
    """Read a file of this user's, or of root's."""
    try:
        return file.read_text().strip() if file.stat().st_uid in (os.geteuid(), 0) else None
    except OSError:
        return None


def listen(port: int) -> socket.socket:
    """Listen at a port of this machine alone; at another one where that is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return socket.create_server(("127.0.0.1", 0))
