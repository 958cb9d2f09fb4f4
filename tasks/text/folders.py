"""Paths relative to the folder of a verification in a repository."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from schemas.step import ROOT
from tasks.text.paths import clean, fault


def inner(path: str, folder: str) -> str | None:
    """Return a path, or a test's name that begins with a path, relative to `folder`; None if it is outside of that."""
    if folder == ROOT:
        return path
    plain = clean(path)
    return plain[len(folder) + 1 :] if plain.startswith(f"{folder}/") else None


def all_inner(paths: Iterable[str], folder: str) -> tuple[str, ...]:
    """Return the paths that are in `folder`, relative to this folder."""
    return tuple(path for each in paths if (path := inner(each, folder)))


def outer(path: str, folder: str) -> str:
    """Return the path from the repository's root of a `path` that is relative to `folder`."""
    return path if folder == ROOT else f"{folder}/{path}"


def nearest(path: str, folders: Collection[str]) -> str:
    """Return the deepest of `folders` that contains a path; the root if none does."""
    above = clean(path).rpartition("/")[0]
    while above and above not in folders:
        above = above.rpartition("/")[0]
    return above or ROOT


def of_folder(paths: Iterable[str], folder: str, folders: Collection[str]) -> tuple[str, ...]:
    """Return the paths for which `folder` is the nearest of `folders`, relative to `folder`."""
    return all_inner((path for path in paths if nearest(path, folders) == folder), folder)


def is_folder(path: str) -> bool:
    """Return whether `path` is the root or a valid, normalized path below it, so that a verification may run there."""
    return path == ROOT or (clean(path) == path and fault(path) is None)


def check_in(name: str, folder: str) -> str:
    """Return the name of the check `name` for the files in `folder`, as checks after a step are named."""
    return outer(name, folder)


def folder_of_check(name: str) -> str:
    """Return the folder in a name that `check_in` made."""
    return name.rpartition("/")[0] or ROOT
