"""Chooses the tools that verify a step by its purpose, quick, focused or full, in any language of the repository."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from schemas.step import VerifyTool
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.toolchain.catalogue import once
from tasks.toolchain.files import stem_of, subject_of

MOST_OF_FORM = 20  # files whose form is checked for a step without its own: some tools read one at a time
MOST_NEAR = 64  # tests of one name to search for the nearest; of more all tests run


class Milestone(StrEnum):
    """The purpose of a step; its value is the name of the recipe that verifies the step."""

    QUICK = "quick"  # it reads and analyses: the form of its files
    FOCUSED = "focused"  # it patches: what looks at its files alone, and their tests
    FULL = "full"  # the end: linter and type checker that the project configures, and all tests


class Verification(NamedTuple):
    """The tools that verify a step; `added` are ids of the checks among them that only manifests configure.

    For the `added` checks, failures from before the plan do not count. `is_known` is false if no tool was found.
    """

    tools: tuple[VerifyTool, ...] = ()
    added: tuple[str, ...] = ()
    is_known: bool = True


class Recipes:
    """The recipes of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._tests = _TestsByName(project.tests_among((*project.goal.context.files, *project.files)))
        self._without_files: dict[Milestone, Verification] = {}

    def verification(self, milestone: Milestone, files: tuple[str, ...]) -> Verification:
        """Return the verification of a step that changes `files` for this milestone; it has no tools for documents."""
        if files and milestone is not Milestone.FULL:
            return self._choose(milestone, files)
        if milestone not in self._without_files:
            self._without_files[milestone] = self._choose(milestone, self._project.files)
        return self._without_files[milestone]

    def _choose(self, milestone: Milestone, files: tuple[str, ...]) -> Verification:
        if milestone is Milestone.FULL:
            found = self._full()
        elif files and only_documents(files):
            return Verification()
        elif milestone is Milestone.FOCUSED:
            found = self._focused(files)
        else:
            found = Verification(self._project.check(Check.QUICK, files[:MOST_OF_FORM]))
        return found._replace(is_known=bool(found.tools))

    def _full(self) -> Verification:
        quick, added = self._project.quick_checks(self._project.files, whole=True)
        return Verification(once((*quick, *self._project.tests)), added)

    def _focused(self, files: tuple[str, ...]) -> Verification:
        quick, added = self._project.quick_checks(files, whole=False)
        own = self._project.own_checks(files, whole=False, others=quick)
        tests = tuple(dict.fromkeys(test for path in files for test in self.tests_of(path)))
        return Verification(once((*own, *self._project.run_tests(tests, files))), added)

    def tests_of(self, path: str) -> tuple[str, ...]:
        """Return the tests of a file: the file itself if it is a test, else the nearest tests named after it."""
        return self._project.tests_among((path,)) or self._tests.nearest(path)


class _TestsByName:
    """Finds tests by the name of the file that they test, and by the folders above them."""

    def __init__(self, tests: tuple[str, ...]) -> None:
        self._below: dict[tuple[str, str], list[str]] = defaultdict(list)
        for test in dict.fromkeys(tests):
            name = subject_of(test)
            for folder in _folders_of(test):
                self._below[name, folder].append(test)

    def nearest(self, path: str) -> tuple[str, ...]:
        """Return the tests that are named after a file and are nearest to it; empty if more than MOST_NEAR fit.

        First the tests below the deepest common folder count. Among these, the tests with the most equal folder names
        count.
        """
        name = stem_of(path)
        common = next((folder for folder in _folders_of(path) if (name, folder) in self._below), None)
        found = self._below[name, common] if common is not None else []
        if not found or len(found) > MOST_NEAR:
            return ()
        own = set(path.split("/")[:-1])
        shared = [len(own.intersection(test.split("/")[:-1])) for test in found]
        nearest = max(shared)
        return tuple(test for test, count in zip(found, shared, strict=True) if count == nearest)


def _folders_of(path: str) -> Iterator[str]:
    """Yield the folders above a file, the deepest first; the last is the root."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder
