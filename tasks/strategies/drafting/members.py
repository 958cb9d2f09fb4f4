"""Splits a goal into projects, one for each folder with a manifest; the paths of a project begin at its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from schemas.goal import Goal, GoalContext
from schemas.step import ROOT, VerifyTool
from tasks.strategies.drafting.focus import file_of_test
from tasks.strategies.drafting.folder_project import FolderProject, usual_tests
from tasks.text.folders import inner, nearest, of_folder, outer
from tasks.text.paths import clean, is_glob
from tasks.toolchain.catalogue import Catalogue, in_folder
from tasks.toolchain.files import Role, is_named_as_test, name_of, role_of
from tasks.toolchain.language import Language
from tasks.toolchain.languages import LANGUAGES, language_of, suffixes_of
from tasks.toolchain.projects import project_folders

MOST = 10  # projects of one goal that are verified
_SUFFIXES = suffixes_of(LANGUAGES)


class NamesHere(NamedTuple):
    """Names of tests as a project runs them; `have_files` is true if one of them is in a file of the project."""

    names: tuple[str, ...]
    have_files: bool


@dataclass(frozen=True)
class Member:
    """One project of a goal; all paths of its `project` begin at its `folder`."""

    folder: str
    project: FolderProject
    folders: tuple[str, ...]  # of all projects: a file is of the nearest one

    def place(self, tools: Iterable[VerifyTool]) -> tuple[VerifyTool, ...]:
        """Return the tools so that they run in the folder of the project."""
        return tuple(in_folder(tool, self.folder) for tool in tools)

    def outer(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return paths of the project as paths of the repository."""
        return tuple(outer(path, self.folder) for path in paths)

    def names(self, tests: Iterable[str]) -> NamesHere:
        """Return the names of the tests in this project's files, and of tests without a file, which may be anywhere."""
        there = [test for test in tests if _has_file(test)]
        own = of_folder(there, self.folder, self.folders)
        return NamesHere((*own, *(test for test in tests if not _has_file(test))), bool(own))


def workdir_of(goal: Goal) -> str:
    """Return the folder of the goal's test command, as the goal names it."""
    named = goal.context.workdir or ROOT
    return named if named.startswith("/") else clean(named).rstrip("/") or ROOT


def members_of(goal: Goal, files: Sequence[str], catalogue: Catalogue, *, is_tested: bool) -> tuple[Member, ...]:
    """Return the projects of a goal; empty if everything is verified at the root.

    Files outside of all projects are verified at the root. `is_tested` is true if the goal brings a test command.
    """
    context = goal.context
    folders = project_folders(context.manifests, context.files)
    if not is_tested and workdir_of(goal) != ROOT:
        folders |= {workdir_of(goal)}
    if folders <= {ROOT}:
        return ()
    meant = list(dict.fromkeys(_folders_meant(goal, files, folders)))[:MOST]
    if set(meant) <= {ROOT}:
        return ()
    return tuple(_member(goal, files, folder, folders, catalogue, is_tested=is_tested) for folder in meant)


def _folders_meant(goal: Goal, files: Sequence[str], folders: frozenset[str]) -> Iterator[str]:
    """Yield the project folder of each failing test, of each file that a tool may check, and of each pattern."""
    for test in goal.context.failing_tests:
        if _has_file(test):
            yield nearest(test, folders)
    for path in files:
        if path.endswith(_SUFFIXES) or role_of(path) is Role.MANIFEST:
            yield nearest(path, folders)
    for pattern in map(clean, goal.allowed_files):
        if is_glob(pattern):
            top = "/".join(takewhile(lambda part: not is_glob(part), pattern.split("/")))
            if not any(path.startswith(f"{top}/") for path in files):
                yield nearest(f"{top}/x", folders)
                yield from sorted(each for each in folders if each.startswith(f"{top}/"))
    if not goal.context.test_command and workdir_of(goal) != ROOT:
        yield workdir_of(goal)


def _member(
    goal: Goal, files: Sequence[str], folder: str, folders: frozenset[str], catalogue: Catalogue, *, is_tested: bool
) -> Member:
    context = goal.context
    manifests = {
        seen: text
        for path, text in context.manifests.items()
        if nearest(path, folders) == folder and (seen := inner(path, folder))
    }
    around = _around(context, folder)
    own = of_folder(files, folder, folders)
    mine = context.model_copy(
        update={
            "manifests": manifests,
            "files": of_folder(context.files, folder, folders),
            "failing_tests": (),
            "language": None,
            "repo": None,
        }
    )
    language = language_of(mine, own) or language_of(context, ())
    inside = goal.model_copy(update={"context": mine, "allowed_files": of_folder(goal.allowed_files, folder, folders)})
    is_run = folder in folders and not is_tested and not _has_no_tests(mine, language)
    tests = usual_tests(inside, language, catalogue, around) if is_run else ()
    project = FolderProject(inside, own, language, tests, catalogue, around=around)
    named = Member(folder, project, tuple(folders)).names(context.failing_tests)
    if is_tested or not named.names:
        return Member(folder, project, tuple(folders))
    known = inside.model_copy(update={"context": mine.model_copy(update={"failing_tests": named.names})})
    return Member(folder, FolderProject(known, own, language, tests, catalogue, around=around), tuple(folders))


def _has_no_tests(context: GoalContext, language: Language | None) -> bool:
    """Return whether a Python project surely has no test, so that a run of pytest would fail."""
    is_python = language is not None and language.name == "python"
    return is_python and context.files_complete and not any(map(is_named_as_test, context.files))


def _around(context: GoalContext, folder: str) -> dict[str, str]:
    """Return the manifests in the folders above `folder`, by file name; the nearest file of each name counts.

    Lock files and other manifests without a known text get an empty text.
    """
    found: dict[str, str] = {}
    above = folder
    while above != ROOT:
        above = above.rpartition("/")[0] or ROOT
        here = [path for path in context.manifests if (path.rpartition("/")[0] or ROOT) == above]
        for path in here:
            found.setdefault(name_of(path), context.manifests[path])
        for path in context.files:
            if (path.rpartition("/")[0] or ROOT) == above and role_of(path) is Role.MANIFEST:
                found.setdefault(name_of(path), "")
    return found


def _has_file(test: str) -> bool:
    return file_of_test(test).endswith(_SUFFIXES)


def kept_manifests(context: GoalContext, most: int) -> Mapping[str, str]:
    """Return the manifests of all projects, for a plan that chooses verifications later; empty without projects.

    A manifest gets an empty text if all texts together would have more than `most` characters.
    """
    folders = project_folders(context.manifests, context.files)
    if folders <= {ROOT}:
        return {}
    kept: dict[str, str] = {}
    paths = dict.fromkeys((*context.manifests, *(path for path in context.files if role_of(path) is Role.MANIFEST)))
    for path in sorted(paths, key=lambda path: path.count("/")):
        text = context.manifests.get(path, "")
        kept[path] = text if len(text) <= most else ""
        most -= len(kept[path])
    return kept
