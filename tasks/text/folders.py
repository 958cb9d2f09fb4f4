"""Paths as they are seen from a folder of a repository, in which a verification runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from schemas.step import ROOT
from tasks.text.paths import clean, fault


def inner(path: str, folder: str) -> str | None:
    """Return a path, or what begins with one, as it is seen from a folder; None where it does not lie in it."""
    if folder == ROOT:
        return path
    plain = clean(path)
    return plain[len(folder) + 1 :] if plain.startswith(f"{folder}/") else None


def all_inner(paths: Iterable[str], folder: str) -> tuple[str, ...]:
    """List those of `paths` that lie in a folder, as they are seen from there."""
    return tuple(path for each in paths if (path := inner(each, folder)))


def outer(path: str, folder: str) -> str:
    """Return as a path of the repository what is seen from a folder as `path`."""
    return path if folder == ROOT else f"{folder}/{path}"


def nearest(path: str, folders: Collection[str]) -> str:
    """Return the deepest of `folders` that a path lies in; the root where it lies in none."""
    above = clean(path).rpartition("/")[0]
    while above and above not in folders:
        above = above.rpartition("/")[0]
    return above or ROOT


def of_folder(paths: Iterable[str], folder: str, folders: Collection[str]) -> tuple[str, ...]:
    """List those of `paths` for which `folder` is the nearest of `folders`, as they are seen from there."""
    return all_inner((path for path in paths if nearest(path, folders) == folder), folder)


def is_folder(path: str) -> bool:
    """Return whether a verification may run in a folder that is called so: the root, or one below it."""
    return path == ROOT or (clean(path) == path and fault(path) is None)


def check_in(name: str, folder: str) -> str:
    """Name a check of the files in a folder, as a step has it among those that follow it."""
    return outer(name, folder)


def folder_of_check(name: str) -> str:
    """Return the folder of a check that is named so."""
    return name.rpartition("/")[0] or ROOT
