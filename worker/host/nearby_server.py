"""The files that `planner up` leaves for its user's other commands: addresses of server and gateway, and a key."""

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
    """Create the directory, or change an existing one, so that only its owner has access."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    data_dir.chmod(0o700)


def password(data_dir: Path) -> str:
    """Return the server's password: random and stored, so that a URL stays valid after restarts."""
    file = data_dir / PASSWORD
    if not file.exists():
        write(file, secrets.token_urlsafe(24))
    return file.read_text().strip()


def write(file: Path, text: str) -> None:
    """Replace a file, or create it, so that only its owner can read it."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    fresh.replace(file)


def url(data_dir: Path) -> str | None:
    """Return the URL of the running server; None if there is none, or if it belongs to another user."""
    text = _read(data_dir / URL)
    return text if text and FOUND.fullmatch(text) else None


def api_key(data_dir: Path, gateway_url: str) -> str | None:
    """Return the stored API key for the gateway at this URL; None if there is none, or if it is for another gateway."""
    return _read(data_dir / API_KEY) if _read(data_dir / GATEWAY_URL) == gateway_url else None


def _read(file: Path) -> str | None:
    """Return the content of a file; None if it cannot be read, or belongs neither to this user nor to root."""
    try:
        return file.read_text().strip() if file.stat().st_uid in (os.geteuid(), 0) else None
    except OSError:
        return None


def listen(port: int) -> socket.socket:
    """Return a socket that listens on localhost at `port`, or at a free port if `port` is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return socket.create_server(("127.0.0.1", 0))
