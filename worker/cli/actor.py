"""Who gives an order, where nobody says it."""

from __future__ import annotations

import getpass
import os


def own_name() -> str:
    """Name the account that runs this; one without a name, as containers may have, by its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
