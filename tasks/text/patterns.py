"""Patterns of an allowlist: `*` and `?` match inside a folder, `**` matches whole parts, nothing else is special.

Brackets are literal, since file names of web frameworks have them. Leading dots match, and case matters. A pattern also
matches files that do not exist yet. `docs/schemas/patterns.json` has cases for other languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from schemas.envelope import FieldError
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.text.paths import Fault, clean, fault, is_glob

MAX_BYTES = 4096
MAX_GLOB_WORK = 250_000  # globs times files of the listing

_LONG = 256  # characters; the time of a regular expression grows with pattern times path


def matches(pattern: str, path: str) -> bool:
    """Return whether `pattern` matches `path`; the form of `path` is not checked.

    A `**` at the end matches one or more parts of the path; at other places it also matches no part.
    """
    return matcher((pattern,))(path)


@lru_cache(maxsize=4096)
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a function that returns whether any of `patterns` matches a path; it is faster than separate matches."""
    short = [_regex(plain) for plain in map(clean, patterns) if len(plain) <= _LONG]
    rest = [_Automaton.of(plain) for plain in map(clean, patterns) if len(plain) > _LONG]
    whole = re.compile("|".join(short), re.DOTALL).fullmatch if short else (lambda _path: None)
    return lambda path: whole(path) is not None or any(each.accepts(path) for each in rest)


def literal_folder(pattern: str) -> str:
    """Return the folder before the first wildcard of `pattern`, without a last `/`; empty for the root.

    All paths that the pattern matches are in this folder.
    """
    before = re.split(r"[*?]", clean(pattern), maxsplit=1)[0]
    return before.rpartition("/")[0]


def are_apart(first: str, second: str) -> bool:
    """Return whether two folders have no path in common; both are in the form of `literal_folder`."""
    return not (_is_within(first, second) or _is_within(second, first))


def pattern_fault(pattern: str, forbidden: Forbidden = FORBIDDEN) -> Fault | None:
    """Return why `pattern` may not be in an allowlist; None if it may. A literal path is judged as a path."""
    if len(pattern.encode(errors="replace")) > MAX_BYTES:
        return Fault("pattern_too_long", f"A pattern has at most {MAX_BYTES} bytes.")
    plain = clean(pattern)
    if plain.endswith("/") and plain.strip("/*?"):
        return Fault("directory", f"A folder is no file: write {plain.rstrip('/')}/** for all that is below it.")
    if not is_glob(pattern):
        return fault(pattern, forbidden)
    if all(set(part) <= {"*", "?"} for part in plain.split("/") if part):
        return Fault("root_wide_glob", "A glob must name a folder or a kind of file, not the whole repository.")
    return fault(re.sub(r"[*?]+", "x", pattern), forbidden)


@dataclass(frozen=True, slots=True)
class Expanded:
    """The literal files of an allowlist in order, and the faults of its patterns."""

    files: tuple[str, ...]
    errors: tuple[FieldError, ...]


def expand_globs(patterns: Sequence[str], listing: Sequence[str], forbidden: Forbidden = FORBIDDEN) -> Expanded:
    """Return the literal files of an allowlist; each glob becomes its matches in `listing` (docs/wire.md).

    A pattern with a fault adds an error, and so does each glob if there is too much to match. A glob never matches a
    forbidden file.
    """
    files: dict[str, None] = {}
    errors: list[FieldError] = []
    globs = sum(map(is_glob, patterns))
    for index, pattern in enumerate(patterns):
        found = pattern_fault(pattern, forbidden) or (_listing_fault(len(listing), globs) if is_glob(pattern) else None)
        if found:
            errors.append(FieldError(pointer=f"/allowed_files/{index}", code=found.code, message=found.message))
        elif is_glob(pattern):
            meant = meant_by_globs((pattern,), map(clean, listing), forbidden)
            files.update(dict.fromkeys(path for path in meant if not is_glob(path)))
        else:
            files[clean(pattern)] = None
    return Expanded(tuple(files), tuple(errors))


def meant_by_globs(patterns: Sequence[str], paths: Iterable[str], forbidden: Forbidden = FORBIDDEN) -> tuple[str, ...]:
    """Return the paths that a glob among `patterns` matches, without forbidden ones; a path need not exist."""
    is_meant = matcher(tuple(filter(is_glob, patterns)))
    return tuple(path for path in paths if is_meant(path) and fault(path, forbidden) is None)


def _listing_fault(listed: int, globs: int) -> Fault | None:
    if listed * globs > MAX_GLOB_WORK:
        return Fault("too_many_globs", "There are too many globs for so long a context.files; name the files.")
    return None


def _is_within(folder: str, other: str) -> bool:
    return not other or folder == other or folder.startswith(f"{other}/")


def _regex(pattern: str) -> str:
    """Return a pattern as a regular expression without backtracking.

    Backtracking is not needed: each text between two `**` may match at its first possible place.
    """
    blocks: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(_part(part))
    first, *rest = ("/".join(block) for block in blocks)
    if not rest:
        return first
    *between, last = rest
    begin = f"{first}/" if first else ""
    found = "".join(f"(?>(?:[^/]*+/)*?{block}/)" for block in between if block)
    return f"{begin}{found}(?:[^/]*+/)*?{last}" if last else f"{begin}{found}.+"


def _part(part: str) -> str:
    first, *rest = ("".join("[^/]" if each == "?" else re.escape(each) for each in words) for words in part.split("*"))
    if not rest:
        return first
    *between, last = rest
    return f"{first}{''.join(f'(?>[^/]*?{words})' for words in between if words)}[^/]*{last}"


@dataclass(frozen=True, slots=True)
class _Automaton:
    """All states of a pattern as the bits of one number: a path of 4 kB is matched in little time."""

    moves: dict[str, int]  # by character: the states that it leads to
    anything: int  # the states that any character except `/` leads to
    stars: int  # the states that such a character returns to
    deep: int  # the states that the start of any further part returns to
    end: int
    is_open: bool  # whether anything may follow

    @classmethod
    def of(cls, pattern: str) -> _Automaton:
        moves: dict[str, int] = {}
        anything = stars = deep = 0
        place = 1
        *parts, last = pattern.split("/")
        is_open = last == "**"
        for part in [f"{each}/" for each in parts] + ([] if is_open else [last]):
            if part == "**/":
                deep |= place
                continue
            for each in part:
                if each == "*":
                    stars |= place
                    continue
                place <<= 1
                if each == "?":
                    anything |= place
                else:
                    moves[each] = moves.get(each, 0) | place
        return cls(moves, anything, stars, deep, place, is_open)

    def accepts(self, path: str) -> bool:
        here, kept = 1, 1 & self.deep
        for each in path:
            if self.is_open and (here & self.end):
                return True
            onward = here << 1
            if each == "/":
                here = onward & self.moves.get(each, 0)
                kept |= here & self.deep
                here |= kept
            else:
                here = onward & (self.moves.get(each, 0) | self.anything) | here & self.stars
        return not self.is_open and bool(here & self.end)
