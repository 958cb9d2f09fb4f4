"""Determines the files that an iteration may not touch: protected ones, and those that constraints name.

Paths are compared in one normal form, so `./seed.py`, `kernel` and `a/../kernel/x` cannot evade a protection. The
constraints of an inbox item name files that must not be touched, or the only files that may be.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from schemas.kinds.gap_report import Gap, InboxItem, PlannedAction
from tasks.strategies.gap_report.analysis import wish
from tasks.strategies.gap_report.places import LAYERS, Places
from tasks.text.forbidden_paths import Forbidden
from tasks.text.paths import is_glob
from tasks.text.patterns import matches, meant_by_globs

_CHANGE = r"\b(?:touch|chang|modif|edit|alter|rewrit|delet|remov|mov)\w*"
_FORBIDS = re.compile(
    rf"\b(?:do not|don't|dont|never|must not|may not|shall not|without|no)\b.{{0,60}}?{_CHANGE}", re.I
)
_EXCEPT = (
    r"\b(?:anything|nothing|any (?:other )?files?|files|code)\s+(?:but|except|other than|outside|besides|apart from)\b"
)
_RESTRICTS = re.compile(
    rf"\bonly\b.{{0,60}}?{_CHANGE}|{_CHANGE}.{{0,30}}?\bonly\b|{_CHANGE}\s.{{0,20}}?{_EXCEPT}", re.I
)
_VERB = re.compile(rf"(?<![/.-]){_CHANGE}(?![/.-]\w)", re.I)  # not inside a path
_HOW = re.compile(  # words before a path that is not itself the object of the verb
    r"(?:\S\s+(?:of|in|from)|\b(?:how|what|way))(?:\s+(?:the|its|our|all))?(?:\s+[\w-]+)?$", re.I
)
_ANY = re.compile(  # the code in a file is the file
    r"\b(?:any|one|all|(?:any|some|no|every)thing|code|files?|lines?|modules?|sources?|tests?)"
    r"\s+(?:of|in|inside|within|below|under)\b",
    re.I,
)
_PLACE = re.compile(rf"[\w.@+/-]*[/.]\w[\w.@+/-]*|\b(?:modules?|{'|'.join(LAYERS)})\b", re.I)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The constraints of an inbox item as written, the paths that they exclude, and the only paths that they allow."""

    lines: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


NO_BOUNDS = Bounds()


def bounds_of(gap: Gap, inbox: Iterable[InboxItem], places: Places) -> Bounds:
    """Return the constraints of the inbox item that `gap` comes from; no constraints if it comes from none."""
    description = gap.description.casefold()
    for item in inbox:
        title = item.title.casefold()
        if description in (title, wish(item).casefold()) or description.startswith(f"{title}:"):
            restricting = [line for line in item.constraints if _restricts(line)]
            forbidding = [line for line in item.constraints if _forbids(line) and line not in restricting]
            return Bounds(item.constraints, _places_in(forbidding, places), _places_in(restricting, places))
    return NO_BOUNDS


def _forbids(line: str) -> bool:
    """Return whether a line such as `do not change x` forbids files; False for `do not change the behaviour of x`.

    If a line contains both, it forbids all files that it names.
    """
    first = _FORBIDS.search(line)
    if first is None:
        return False
    ends = (first.end(), *(verb.end() for verb in _VERB.finditer(line, first.end())))
    objects = [(end, at) for end in ends if (at := _PLACE.search(line, end))]
    if not objects and (at := _PLACE.search(line, 0, first.start())):
        objects = [(0, at)]
    if not objects:
        return not _ends_in_how(line[first.end() :])
    return any(
        not line.startswith(("'s ", "\u2019s "), place.end()) and not _ends_in_how(line[start : place.start()])
        for start, place in objects
    )


def _ends_in_how(words: str) -> bool:
    return _HOW.search(_ANY.sub("", words).rstrip(" `\"'(.")) is not None


def _restricts(line: str) -> bool:
    """Return whether a line allows only some files, such as `only change x`; False for `do not only change x`."""
    found = _RESTRICTS.search(line)
    return bool(found) and not (_FORBIDS.search(line) and re.search(r"\bonly\b", line, re.I))


def _places_in(lines: Iterable[str], places: Places) -> tuple[str, ...]:
    paths = (places.paths_in(line) or places.modules_in(line) or places.layers_in(line) for line in lines)
    return tuple(dict.fromkeys(chain.from_iterable(paths)))


@dataclass(frozen=True, slots=True)
class Protection:
    """Protected paths and globs; everything below them is protected, too."""

    paths: frozenset[str]
    globs: tuple[str, ...]

    @classmethod
    def of(cls, paths: Iterable[str]) -> Protection:
        """Return the protection of `paths`; a path that means the whole repository protects nothing."""
        listed = dict.fromkeys(normalise(path).removesuffix("/**") for path in paths)
        globs = tuple(path for path in listed if is_glob(path))
        return cls(frozenset(path for path in listed if path and not is_glob(path)), globs)

    def covers(self, path: str) -> bool:
        """Return whether `path`, or a folder above it, is protected."""
        plain = normalise(path)
        parts = plain.split("/")
        above = ("/".join(parts[:size]) for size in range(1, len(parts) + 1))
        return any(each in self.paths for each in above) or any(
            matches(glob, plain) or matches(f"{glob}/**", plain) for glob in self.globs
        )

    def without(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that are not protected."""
        return tuple(path for path in paths if not self.covers(path))


@dataclass(frozen=True)
class Shield:
    """The paths that a goal protects, the paths that it allows, and the names that no goal may allow."""

    protection: Protection
    allowed: tuple[str, ...]
    forbidden: Forbidden
    globs: tuple[str, ...] = ()  # of the goal: they allow files that are yet to be made, too

    @cached_property
    def free(self) -> tuple[str, ...]:
        """The allowed files that are not protected."""
        return self.protection.without(self.allowed)

    @cached_property
    def _is_allowed(self) -> dict[str, bool]:
        """The paths that were looked up so far, each with the answer whether the goal allows it."""
        return dict.fromkeys(self.allowed, True)

    def reach(self, actions: Iterable[PlannedAction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the target files of `actions` that the goal allows, and the other target files."""
        named = dict.fromkeys(path for action in actions for path in action.target_files)
        for path in named:
            if path not in self._is_allowed:
                self._is_allowed[path] = bool(meant_by_globs(self.globs, (path,), self.forbidden))
        allowed = self._is_allowed
        return tuple(path for path in named if allowed[path]), tuple(path for path in named if not allowed[path])

    def keep_feasible(self, actions: tuple[PlannedAction, ...], excluded: tuple[str, ...]) -> tuple[PlannedAction, ...]:
        """Return the actions that can change a file.

        An action without target files stays only if an allowed file is neither protected nor `excluded`.
        """
        named = tuple(action for action in actions if action.target_files)
        if len(named) == len(actions) or not self.allowed:
            return actions
        out = Protection.of(excluded)
        return actions if any(not out.covers(path) for path in self.free) else named


@lru_cache(maxsize=16384)
def normalise(path: str) -> str:
    """Return a path in one normal form: lower case, "/" between folders, no `.` or `..`, and no slash at its ends."""
    plain = unicodedata.normalize("NFKC", path).replace("\\", "/").strip().casefold()
    return posixpath.normpath(f"/{plain}").lstrip("/")
