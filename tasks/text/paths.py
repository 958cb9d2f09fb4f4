"""What a path of an allowlist must be: relative, literal, inside the repository, and not forbidden.

Allowlists are explicit, never inferred. Whole components of a normalised path are compared, not substrings: these miss
`.ENV` and hit `environment.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from schemas.envelope import FieldError
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.text.sanitize import Treatment, sanitize
from tasks.text.unicode import is_visible

MAX_GLOB_WORK = 250_000  # globs times files of the listing

_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a path is refused."""

    code: str
    message: str


TABOO = Fault("forbidden_path", "No step may touch this path.")


@dataclass(frozen=True, slots=True)
class Expanded:
    """The literal files of an allowlist in order, and what was wrong with its patterns."""

    files: tuple[str, ...]
    errors: tuple[FieldError, ...]


def clean(path: str) -> str:
    """Drop what means nothing, `./` and doubled slashes, so that equal paths are equal strings."""
    if "./" not in path and "//" not in path:
        return path
    return "/".join(part for i, part in enumerate(path.split("/")) if part != "." and (part or i == 0))


@lru_cache(maxsize=16384)
def fault(path: str, forbidden: Forbidden = FORBIDDEN) -> Fault | None:
    """Say why `path` may not stand in an allowlist; None where it may."""
    if not is_visible(path):
        return Fault("control_character", "A path may hold no control or invisible characters.")
    # what a careless file system would make of it
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
    # only a name with spaces speaks to an agent: `ignore_previous_instructions.py` may test that very thing
    if " " in path and sanitize(path, Treatment.FLAG).findings:
        return Fault("potential_injection", "This reads like an attack on the agent.")
    return TABOO if folded in forbidden else None


def is_glob(path: str) -> bool:
    """Tell whether a path is a pattern.

    Brackets are literal, since file names of web frameworks have them.
    """
    return "*" in path or "?" in path


def expand_globs(
    patterns: Sequence[str],
    listing: Sequence[str],
    forbidden: Forbidden = FORBIDDEN,
) -> Expanded:
    """Turn an allowlist into literal files; globs are expanded against `listing` (docs/wire.md).

    `*` stays within a folder, `**` goes across. What is wrong is said for each pattern; a glob never reaches a
    forbidden file.
    """
    files: dict[str, None] = {}
    errors: list[FieldError] = []
    globs = sum(map(is_glob, patterns))
    for index, pattern in enumerate(patterns):
        found = (
            _pattern_fault(pattern, len(listing), globs, forbidden) if is_glob(pattern) else fault(pattern, forbidden)
        )
        if found:
            errors.append(FieldError(pointer=f"/allowed_files/{index}", code=found.code, message=found.message))
        elif is_glob(pattern):
            parts = _parts_of(pattern)
            for path in map(clean, listing):
                if glob_matches(parts, path.split("/")) and not is_glob(path) and fault(path, forbidden) is None:
                    files[path] = None
        else:
            files[clean(pattern)] = None
    return Expanded(tuple(files), tuple(errors))


def meant_by_globs(patterns: Sequence[str], paths: Iterable[str], forbidden: Forbidden = FORBIDDEN) -> tuple[str, ...]:
    """Keep the paths that a glob among `patterns` means, whether or not there are such files; none is forbidden."""
    return meant_by_parts(parts_of_globs(patterns), paths, forbidden)


def parts_of_globs(patterns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Take the globs among `patterns` apart, for `meant_by_parts`."""
    return tuple(_parts_of(pattern) for pattern in patterns if is_glob(pattern))


def meant_by_parts(
    globs: Sequence[Sequence[str]], paths: Iterable[str], forbidden: Forbidden = FORBIDDEN
) -> tuple[str, ...]:
    """Keep the paths that one of `globs`, which were taken apart, means; none is forbidden."""
    return tuple(
        path
        for path in paths
        if any(glob_matches(parts, path.split("/")) for parts in globs) and fault(path, forbidden) is None
    )


def _parts_of(glob: str) -> tuple[str, ...]:
    return tuple(part.replace("[", "[[]") for part in clean(glob).split("/"))


def _pattern_fault(pattern: str, listed: int, globs: int, forbidden: Forbidden) -> Fault | None:
    if all(set(part) <= {"*", "?"} for part in clean(pattern).split("/") if part):
        return Fault("root_wide_glob", "A glob must name a folder or a kind of file, not the whole repository.")
    if found := fault(re.sub(r"[*?]+", "x", pattern), forbidden):
        return found
    if not listed:
        return Fault("glob_without_listing", "A glob needs context.files to be expanded against; or name the files.")
    if listed * globs > MAX_GLOB_WORK:
        return Fault("too_many_globs", "There are too many globs for so long a context.files; name the files.")
    return None


def glob_matches(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Match folder by folder; `**` takes more only when the rest does not fit.

    Linear, since only the last `**` is tried again.
    """
    part = name = 0
    star, taken = -1, 0
    while name < len(names):
        if part < len(parts) and parts[part] == "**":
            star, taken = part, name
            part += 1
        elif part < len(parts) and _part(parts[part]).match(names[name]):
            part, name = part + 1, name + 1
        elif star >= 0:
            taken += 1
            part, name = star + 1, taken
        else:
            return False
    return all(rest == "**" for rest in parts[part:])


@lru_cache(maxsize=16384)  # fnmatch itself keeps so few that many globs push each other out
def _part(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
