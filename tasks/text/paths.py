"""Rules for a path in an allowlist: it is relative, literal, inside the repository, and not forbidden.

Allowlists are explicit, never inferred. Whole components of a normalized path are compared. Substrings would miss
`.ENV` and match `environment.py`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.text.sanitize import Treatment, sanitize
from tasks.text.unicode import is_visible

_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:")
# Nearly every path of a listing; its only possible fault is a forbidden name.
_PLAIN = re.compile(r"(?:(?!\.+/)[\w.@+=,()\[\]-]+/)*(?!\.+$)[\w.@+=,()\[\]-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a path is refused."""

    code: str
    message: str


TABOO = Fault("forbidden_path", "No step may touch this path.")


def clean(path: str) -> str:
    """Return a path without `./` and doubled slashes, so that equal paths are equal strings."""
    if "./" not in path and "//" not in path:
        return path
    return "/".join(part for i, part in enumerate(path.split("/")) if part != "." and (part or i == 0))


@lru_cache(maxsize=16384)
def fault(path: str, forbidden: Forbidden = FORBIDDEN) -> Fault | None:
    """Return why `path` may not be in an allowlist; None if it may."""
    if _PLAIN.fullmatch(path):
        return TABOO if path in forbidden else None
    if not is_visible(path):
        return Fault("control_character", "A path may hold no control or invisible characters.")
    # the path as a careless file system would read it
    folded = unicodedata.normalize("NFKC", path).replace("\\", "/").strip()
    if _ABSOLUTE.match(folded):
        return Fault("absolute_path", "A path must be relative to the repository.")
    if any(part.count(".") > 1 and not part.strip(". ") for part in folded.split("/")):
        return Fault("path_traversal", "A path may not climb with `..`.")
    if "\\" in path:
        return Fault("backslash", "Folders are separated by `/`.")
    if folded in ("", ".") or folded.endswith(("/", "/.")):
        return Fault("directory", "A path must name a file; `folder/**` means the files of a folder.")
    if is_glob(folded):
        return Fault("wildcard", "A step's files are literal; only a goal's allowlist may hold globs.")
    # only a name with spaces can address an agent: `ignore_previous_instructions.py` may be a test of injections
    if " " in path and sanitize(path, Treatment.FLAG).findings:
        return Fault("potential_injection", "This reads like an attack on the agent.")
    return TABOO if folded in forbidden else None


def is_glob(path: str) -> bool:
    """Return whether a path is a pattern.

    Brackets are literal, since file names of web frameworks have them.
    """
    return "*" in path or "?" in path
