"""Files that no iteration may touch, however their paths are written (seed 000, "Protected File Validation").

The seed compared strings, so that `./seed.py`, `kernel` and `a/../kernel/x` passed; here both sides are normalised.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.planning.paths import glob_matches, is_glob

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
        globs = tuple(tuple(path.replace("[", "[[]").split("/")) for path in listed if is_glob(path))
        return cls(frozenset(path for path in listed if path and not is_glob(path)), globs)

    def covers(self, path: str) -> bool:
        """Tell whether `path`, or a folder that it is in, is protected."""
        parts = normal(path).split("/")
        return any(self._names(parts[:size]) for size in range(1, len(parts) + 1))

    def without(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Keep the paths that are free."""
        return tuple(path for path in paths if not self.covers(path))

    def _names(self, parts: Sequence[str]) -> bool:
        return "/".join(parts) in self.paths or any(glob_matches(glob, parts) for glob in self.globs)


def normal(path: str) -> str:
    """Write a path as a careless file system reads it: one case, no `.` and `..`, folders without a slash."""
    folded = unicodedata.normalize("NFKC", path).replace("\\", "/").strip().casefold()
    return posixpath.normpath(f"/{folded}").lstrip("/")
