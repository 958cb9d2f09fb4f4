"""Identifies the repository in a remote's URL, for any protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")


def is_of(wanted: str, names: Iterable[str]) -> bool:
    """Return whether `wanted`, such as `acme/shop` or a URL, is one of the repositories with these `names`.

    A path of this machine does not name an owner, so only its last word is compared.
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
    """Return the part of a repository's name or URL that is the same for all protocols, such as `host/acme/shop`."""
    return "/".join(filter(None, host_and_path(name))).casefold()


def name_of(url: str) -> str | None:
    """Return the name of a repository in the URL of a remote, such as `acme/shop`.

    None for a path of this machine, which is no name for others.
    """
    host, path = host_and_path(url)
    return path if host and path and path.isprintable() and not set(" @") & set(path) else None


def host_and_path(name: str) -> tuple[str, str]:
    """Return the host in the name or URL of a repository, if there is one, and its path, such as `acme/shop`."""
    host, path = "", name.strip()
    if "://" in path:
        host, _, path = path.partition("://")[2].partition("/")
        host = host.rpartition("@")[2].partition(":")[0]
    elif found := _SCP.fullmatch(path):
        host, path = found[1], found[2]
    return host, path.strip("/").removesuffix(".git")
