"""Identifies the repository in a remote's URL, for any protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")


def is_of(wanted: str, names: Iterable[str]) -> bool:
    """Return whether `wanted`, such as `acme/shop` or a URL, is the same repository as one of `names`.

    For a name that is a path of this machine, only the last word is compared: a path contains no owner.
    """
    asked = place_of(wanted)
    for name in names:
        known = place_of(name)
        if known == asked or known.endswith(f"/{asked}"):
            return True
        if name.startswith(("/", "file:")) and known.rpartition("/")[2] == asked.rpartition("/")[2]:
            return True
    return False


def place_of(name: str) -> str:
    """Return host and path of a repository's name or URL, such as `host/acme/shop`: the same for all protocols."""
    return "/".join(filter(None, host_and_path(name))).casefold()


def name_of(url: str) -> str | None:
    """Return the name of a repository in the URL of a remote, such as `acme/shop`.

    Returns None for a path of this machine, because other machines do not know that path.
    """
    host, path = host_and_path(url)
    return path if host and path and path.isprintable() and not set(" @") & set(path) else None


def host_and_path(name: str) -> tuple[str, str]:
    """Return host and path of a repository's name or URL, such as `acme/shop`; the host is empty if there is none."""
    host, path = "", name.strip()
    if "://" in path:
        host, _, path = path.partition("://")[2].partition("/")
        host = host.rpartition("@")[2].partition(":")[0]
    elif found := _SCP.fullmatch(path):
        host, path = found[1], found[2]
    return host, path.strip("/").removesuffix(".git")
