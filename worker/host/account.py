"""Who runs this process, and where: what a command says of who gave it."""

from __future__ import annotations

import getpass
import os
import socket


def own_name() -> str:
    """Name the account that runs this; one without a name, as containers may have, by its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def host_name() -> str:
    """Name this machine, as what comes from it by Redis is told of."""
    return f"redis from {socket.gethostname()}"
