"""The account and the host of this process: commands name them as their origin."""

from __future__ import annotations

import getpass
import os
import socket


def own_name() -> str:
    """Return the name of this account; its number if it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def host_name() -> str:
    """Return the name of this machine, as the origin of messages over Redis."""
    return f"redis from {socket.gethostname()}"
