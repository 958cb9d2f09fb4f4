"""Paths relative to the folder of a verification in a repository."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from schemas.step import ROOT
from tasks.text.paths import clean, fault


def inner(path: str, folder: str) -> str | None:
    """Return a path, or a text that begins with one, relative to a folder; None if it is outside of it."""
    if folder == ROOT:
        return path
    plain = clean(path)
    return plain[len(folder) + 1 :] if plain.startswith(f"{folder}/") else None


def all_inner(paths: Iterable[str], folder: str) -> tuple[str, ...]:
    """Return those of `paths` that are in a folder, relative to it."""
    return tuple(path for each in paths if (path := inner(each, folder)))


def outer(path: str, folder: str) -> str:
    """Return the path in the repository of a `path` relative to a folder."""
    return path if folder == ROOT else f"{folder}/{path}"


def nearest(path: str, folders: Collection[str]) -> str:
    """Return the deepest of `folders` that contains a path; the root if none does."""
    above = clean(path).rpartition("/")[0]
    while above and above not in folders:
        above = above.rpartition("/")[0]
    return above or ROOT


def of_folder(paths: Iterable[str], folder: str, folders: Collection[str]) -> tuple[str, ...]:
    """Return those of `paths` whose nearest folder of `folders` is `folder`, relative to it."""
    return all_inner((path for path in paths if nearest(path, folders) == folder), folder)


def is_folder(path: str) -> bool:
    """Return whether a verification may run in a folder of this name: the root, or one below it."""
    return path == ROOT or (clean(path) == path and fault(path) is None)


def check_in(name: str, folder: str) -> str:
    """Return the name of a check of a folder's files, as in the checks after a step."""
    return outer(name, folder)


def folder_of_check(name: str) -> str:
    """Return the folder in the name of a check."""
    return name.rpartition("/")[0] or ROOT
