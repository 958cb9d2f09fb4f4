"""Recipes by milestone: what verifies a step, whatever the language of its repository, by what the step is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.step import VerifyTool
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.toolchain.files import Role, files_of, stem_of, subject_of


class Milestone(StrEnum):
    """What a step is for, as the name of the recipe that verifies it."""

    QUICK = "quick"  # it reads and analyses: the form of the files that the goal may change
    FOCUSED = "focused"  # it patches: what looks at its files alone, and their tests
    FULL = "full"  # the end: linter and type checker that the project configures, and all tests


@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of a project; `tests` are those that it has, by the name of what they test."""

    project: Project
    tests: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, project: Project) -> Recipes:
        """Sort the tests among the known files of a goal."""
        tests: dict[str, list[str]] = defaultdict(list)
        for path in dict.fromkeys(files_of((*project.goal.context.files, *project.files), Role.TEST)):
            tests[subject_of(path)].append(path)
        return cls(project, {name: tuple(paths) for name, paths in tests.items()})

    def verification(
        self, milestone: Milestone, files: tuple[str, ...]
    ) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
        """Choose what verifies a step that changes `files`, or none; nothing verifies documents.

        Also answers the ids of the checks that only manifests configure: of these what was red before does not count.
        """
        if files and only_documents(files):
            return (), ()
        about = files or self.project.files
        if milestone is Milestone.QUICK:
            return self.project.check(Check.QUICK, about), ()
        quick, added = self.project.quick_checks(about, whole=milestone is Milestone.FULL)
        if milestone is Milestone.FULL:
            return _once(*quick, *self.project.tests), added
        own = self.project.own_checks(about, whole=False, others=quick)
        return _once(*own, *self.project.tests_among(about, self._tests_for(about))), added

    def _tests_for(self, files: Iterable[str]) -> tuple[str, ...]:
        """List the tests that are named after these files, or are among them.

        Where several tests have one name, those are meant that lie nearest: with most folders of the file's own.
        """
        found: dict[str, None] = {}
        for path in files:
            named = (path,) if files_of((path,), Role.TEST) else self.tests.get(stem_of(path), ())
            found |= dict.fromkeys(_nearest(path, named))
        return tuple(found)


def _nearest(path: str, tests: Sequence[str]) -> list[str]:
    folders = set(path.split("/")[:-1])
    shared = [len(folders.intersection(test.split("/")[:-1])) for test in tests]
    return [test for test, count in zip(tests, shared, strict=True) if count == max(shared)]


def _once(*tools: VerifyTool) -> tuple[VerifyTool, ...]:
    return tuple({tool.argv: tool for tool in tools}.values())
