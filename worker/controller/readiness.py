"""What keeps this host, or the provider of its model, from a step: looked for before the work, and in what agents say.

Such a step is handed back with the reason; it has not failed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from worker.host.git import GitError

INTERPRETERS = re.compile(r"(?:python[0-9.]*|node|deno|bun|ruby|perl|php|(?:ba|z|da)?sh)")
# How providers of models, and the programs that ask them, say that nobody can work for now.
_PROVIDER = re.compile(
    r"\brate[ _-]?limit(?:ed|s? (?:exceeded|reached|hit)|[ _]error|[ _]exceeded)|\btoo many requests\b"
    r"|\boverloaded(?:_error)?\b|\b(?:usage|spending|session|weekly|5-hour) limit (?:reached|exceeded)"
    r"|insufficient_quota|\bquota exceeded|\bcredit balance is too low|\bauthentication_error\b"
    r"|\binvalid (?:x-)?api[ _-]key"
    r"|\b(?:session|login|token|credentials?|api key) (?:has |have |is )?expired|\bplease (?:run /login|log ?in)\b"
    r"|\bnot logged in\b|\bapi connection error\b|\bapi error: (?:401|403|429|5\d\d)\b"
    r"|\b(?:503 service unavailable|502 bad gateway|529)\b",
    re.IGNORECASE,
)
_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")


class CannotWork(Exception):
    """The step cannot be done here now; the message is the reason."""


class ProviderTrouble(CannotWork):
    """The provider of the agent's model is not there for us: too many requests, an expired login, an outage."""


class RemoteTrouble(CannotWork, GitError):
    """The remote of a repository does not answer, or refuses us."""


def agent_trouble(argv: Sequence[str]) -> str | None:
    """Say why the command `argv` of an agent cannot be started here, if that can be known."""
    if not argv:
        return None
    if not shutil.which(argv[0]):
        return f"{argv[0]}: there is no such program on PATH that may be run"
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    if INTERPRETERS.fullmatch(Path(argv[0]).name) and script.startswith("/") and not Path(script).exists():
        return f"{script}: there is no such file"
    return None


def provider_trouble(text: str) -> str | None:
    """Return the line of what a failed agent printed that tells of its provider's trouble."""
    return next((line.strip() for line in text.splitlines() if _PROVIDER.search(line)), None)


def is_of(wanted: str, names: Iterable[str]) -> bool:
    """Say whether `wanted`, such as `acme/shop` or a URL, is one of the repositories that `names` tell of.

    A path of this machine does not say whose a repository is: its last word is compared.
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
    """Reduce the name or URL of a repository to what is the same however it is reached, such as `host/acme/shop`."""
    return "/".join(filter(None, host_and_path(name))).casefold()


def host_and_path(name: str) -> tuple[str, str]:
    """Split the name or URL of a repository into its host, if it tells one, and its path, such as `acme/shop`."""
    host, path = "", name.strip()
    if "://" in path:
        host, _, path = path.partition("://")[2].partition("/")
        host = host.rpartition("@")[2].partition(":")[0]
    elif found := _SCP.fullmatch(path):
        host, path = found[1], found[2]
    return host, path.strip("/").removesuffix(".git")
