"""The paths that no step may touch, by name.

An operator may replace the list or add to it (PLANNER_FORBIDDEN_PATHS). It is asked once, when a goal's allowlist is
judged. From then on a plan keeps to its allowlist, whatever list workers are started with later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# A name of a file or a folder, `*` and `?` as in a shell, or several with `/` between; one that ends in `/` is a
# folder, so that a file may be called so. Upper and lower case are the same.
FORBIDDEN_NAMES = (
    "controller.py",  # the parts that govern the fleet itself
    "controller_adapter.py",
    "sandbox.py",
    "safety.py",
    "safety/",
    "governance",
    ".env",  # secrets, and what says where they are sent
    ".env.*",
    ".envrc",
    "secrets",
    "credentials*",
    ".ssh",
    ".aws",
    ".azure/",
    ".kube/",
    ".gnupg",
    ".docker/config.json",
    ".dockercfg",
    ".config/gcloud/",
    ".config/gh/",
    ".git-credentials",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".vault-token",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.key",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "-*",  # what a tool takes for an option
    "con",  # devices of Windows
    "prn",
    "aux",
    "nul",
    "com[1-9]",
    "lpt[1-9]",
    "__pycache__",  # what tools write
)
_ALWAYS = (".git", "git~1", ".hg", ".svn")  # hooks and configuration run code; `git~1` is .git on Windows

_IGNORED_ENDING = re.compile(r"(?::.*|[. ]+)$", re.S)  # Windows drops these: `.git.` and `.git::$DATA` are `.git`
_IGNORED = re.compile(r":|[. \n](?:/|$)")
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f]+(?:/[^/\\\x00-\x1f\x7f]+)*/?")


@dataclass(frozen=True, eq=False)
class Forbidden:
    """A list of forbidden names, ready to be asked; version control is always on it."""

    pattern: re.Pattern[str]
    names: tuple[str, ...] = ()

    def __contains__(self, folded: str) -> bool:
        """Return whether a normalised path with `/` between its parts has a forbidden name."""
        name = folded.casefold()
        if _IGNORED.search(name):
            name = "/".join(_IGNORED_ENDING.sub("", part) for part in name.split("/"))
        return self.pattern.search(name) is not None


def wrong_name(name: str) -> str | None:
    """Return why `name` cannot be forbidden; None where it can."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of a file or folder: write *.tfvars or deploy/, with no / before it"
    if set(name) <= {"*", "?", "/"}:
        return f"{name!r} would forbid every path"
    return None


@lru_cache(maxsize=64)
def forbid(names: tuple[str, ...]) -> Forbidden:
    """Make the list of these names."""
    alternatives = []
    for name in dict.fromkeys(each.casefold() for each in (*_ALWAYS, *names)):
        words = re.split(r"(\*|\?|\[[\w-]+\])", name.rstrip("/"))
        found = "".join(_SPECIAL.get(word, word if word.startswith("[") else re.escape(word)) for word in words)
        alternatives.append(found + ("/" if name.endswith("/") else "(?:/|$)"))
    return Forbidden(re.compile(rf"(?:^|/)(?:{'|'.join(alternatives)})"), (*_ALWAYS, *names))


_SPECIAL = {"*": "[^/]*", "?": "[^/]"}
FORBIDDEN = forbid(FORBIDDEN_NAMES)
JUDGED = forbid(())  # for paths of a goal whose allowlist was judged when the goal came in
