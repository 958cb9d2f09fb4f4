"""Files that no iteration may touch, however their paths are written (seed 000, "Protected File Validation").

The seed compared strings, so that `./seed.py`, `kernel` and `a/../kernel/x` passed; here both sides are normalised.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from schemas.gap import PlannedAction
from tasks.text.forbidden_paths import Forbidden
from tasks.text.paths import glob_matches, is_glob

PROTECTED = ("seed.py", "VISION.md", "kernel/", "roadmap/")


@dataclass(frozen=True, slots=True)
class Protection:
    """Paths and globs that are taken, with everything below them."""

    paths: frozenset[str]
    globs: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, paths: Iterable[str]) -> Protection:
        """Normalise `paths`; one that means the whole repository protects nothing."""
        listed = [normal(path) for path in paths]
        globs = dict.fromkeys((*path.replace("[", "[[]").split("/"), "**") for path in listed if is_glob(path))
        return cls(frozenset(path for path in listed if path and not is_glob(path)), tuple(globs))

    def covers(self, path: str) -> bool:
        """Tell whether `path`, or a folder that it is in, is protected."""
        parts = normal(path).split("/")
        above = ("/".join(parts[:size]) for size in range(1, len(parts) + 1))
        return any(each in self.paths for each in above) or any(glob_matches(glob, parts) for glob in self.globs)

    def without(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Keep the paths that are free."""
        return tuple(path for path in paths if not self.covers(path))


@dataclass(frozen=True)
class Shield:
    """What a goal protects, what nobody may allow, and what the goal allows; what is free is found once, if at all."""

    protection: Protection
    allowed: tuple[str, ...]
    forbidden: Forbidden

    @cached_property
    def free(self) -> tuple[str, ...]:
        """The allowed files that are not protected."""
        return self.protection.without(self.allowed)

    def feasible(self, actions: Iterable[PlannedAction], excluded: tuple[str, ...]) -> tuple[PlannedAction, ...]:
        """Drop every action that names no file where all that may change is protected or `excluded`."""
        return tuple(action for action in actions if action.target_files or self._any_left(excluded))

    def _any_left(self, excluded: tuple[str, ...]) -> bool:
        if not self.allowed:
            return True
        out = Protection.of(excluded)
        return any(not out.covers(path) for path in self.free)


@lru_cache(maxsize=16384)
def normal(path: str) -> str:
    """Write a path as a careless file system reads it: one case, no `.` and `..`, folders without a slash."""
    folded = unicodedata.normalize("NFKC", path).replace("\\", "/").strip().casefold()
    return posixpath.normpath(f"/{folded}").lstrip("/")
