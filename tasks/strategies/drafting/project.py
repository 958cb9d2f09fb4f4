"""The facts of a goal's projects: each file belongs to the project in the nearest folder above it.

Tools verify a file in the folder of its project. A drafter may write sentences such as "Run `pytest tests/test_a.py`",
but every command comes from the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from schemas.base import RiskLevel
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.step import ROOT, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.permission import expand_allowed
from tasks.rules.risk import is_below
from tasks.rules.validation import MAX_TOOLS
from tasks.strategies.drafting.folder_project import Check, ChosenCheck, FolderProject, only_documents, usual_tests
from tasks.strategies.drafting.members import Member, members_of, workdir_of
from tasks.text.fields import fit
from tasks.text.folders import all_inner, check_in, is_folder, nearest
from tasks.text.forbidden_paths import JUDGED, Forbidden
from tasks.toolchain.catalogue import Catalogue, in_folder, once
from tasks.toolchain.language import Language
from tasks.toolchain.languages import language_of

__all__ = ["Check", "ChosenCheck", "Member", "Project", "only_documents"]

NO_VERIFICATION = (
    "No verification is known for these files: set context.test_command or context.language. An operator adds the tool "
    "of another language with PLANNER_TOOLS_FILE (docs/tools.md)."
)
_QUOTED = re.compile(r"`([^`]+)`")
_OF_PATHS = frozenset({"path", "test", "test_id", "package"})  # kinds of words that name a place


@dataclass(frozen=True)
class Project(FolderProject):
    """The allowed files of a goal with the tools that verify changes; `members` are its projects below the root.

    If `test` is set, this command runs all tests instead of the test commands of the members.
    """

    members: tuple[Member, ...] = ()
    test: VerifyTool | None = None

    @classmethod
    def of(
        cls,
        goal: Goal,
        files: tuple[str, ...],
        test: VerifyTool | None,
        catalogue: Catalogue,
        forbidden: Forbidden = JUDGED,
    ) -> Self:
        """Return the project of a goal; its own test command takes precedence over the default of its language."""
        tested = catalogue.contracts[test.tool].languages if test else ()
        language = language_of(goal.context, files, tested)
        return cls.known(goal, files, language, (test,) if test else None, catalogue, forbidden)

    @classmethod
    def known(
        cls,
        goal: Goal,
        files: tuple[str, ...],
        language: Language | None,
        tests: tuple[VerifyTool, ...] | None,
        catalogue: Catalogue,
        forbidden: Forbidden = JUDGED,
    ) -> Self:
        """Return a project with this language and these test tools; None for `tests` chooses the default tools."""
        members = members_of(goal, files, catalogue, is_tested=tests is not None)
        if tests is None:
            each = (member.place(member.project.tests) for member in members)
            usual = tuple(tool for tools in each for tool in tools)[:MAX_TOOLS]
            tests = usual if members else usual_tests(goal, language, catalogue)
            return cls(goal, files, language, tests, catalogue, forbidden, members=members)
        return cls(goal, files, language, tests, catalogue, forbidden, members=members, test=(tests or (None,))[-1])

    @property
    def languages(self) -> tuple[Language | None, ...]:
        """The languages of the files that may change; None for an unknown one."""
        return tuple(dict.fromkeys(member.project.language for member in self.members)) or super().languages

    @property
    def checks_after(self) -> dict[str, bool]:
        """The checks to run after changes of files that are not known before, by folder and name.

        The value is True if the goal requests a check.
        """
        if not self.members:
            return super().checks_after
        return {
            check_in(name, member.folder): is_asked
            for member in self.members
            for name, is_asked in member.project.checks_after.items()
        }

    def check(self, check: Check, files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the verification of a step for `files`; empty if there is none."""
        if not self.members or check in (Check.NONE, Check.FOCUSED):
            return super().check(check, files)
        special: tuple[VerifyTool, ...] = ()
        if check is Check.NEW_TESTS:
            special = self._narrow(self.tests_among(files))
        elif check is not Check.TESTS:
            special = self._each(files, lambda project, some: project.check(check, some))
        return special or self.tests

    def quick_checks(self, files: tuple[str, ...], *, whole: bool) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
        """Return the commands of the chosen linters and type checkers for `files`, each in its project's folder.

        See `FolderProject.quick_checks`.
        """
        if not self.members:
            return super().quick_checks(files, whole=whole)
        tools: list[VerifyTool] = []
        added: dict[str, None] = {}
        for member, some in self.split(files):
            found, unasked = member.project.quick_checks(some, whole=whole)
            tools += member.place(found)
            added.update(dict.fromkeys(unasked))
        return tuple(tools), tuple(added)

    def own_checks(
        self,
        files: tuple[str, ...],
        *,
        whole: bool,
        others: tuple[VerifyTool, ...] = (),
        tests: tuple[str, ...] = (),
    ) -> tuple[VerifyTool, ...]:
        """Return the tools that judge a change of `files` by these files alone, after `others`; see `FolderProject`."""
        if not self.members:
            return super().own_checks(files, whole=whole, others=others, tests=tests)
        found = [*others]
        for member, some in self.split(files):
            seen = tuple(in_folder(tool, ROOT) for tool in others if tool.cwd == member.folder)
            own = member.project.own_checks(some, whole=whole, others=seen, tests=all_inner(tests, member.folder))
            found += member.place(own)
        if whole:
            found += self._narrow(self.goal.context.failing_tests)
            if self.test and not self.goal.context.failing_tests:
                found += self._narrow(tests or self.tests_among(files))
        return once(found) or self.tests

    def tests_among(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tests among `files` that their project's runner accepts as tests."""
        if not self.members or self.test:
            return super().tests_among(files)
        return tuple(
            test
            for member, some in (self.split(files) if files else ())
            for test in member.outer(member.project.tests_among(some))
        )

    def syntax_checks(self, files: Sequence[str]) -> tuple[VerifyTool, ...]:
        """Return the checks of test files whose code does not exist yet, each in the folder of its project."""
        if not self.members:
            return super().syntax_checks(files)
        return self._each(tuple(files), lambda project, some: project.syntax_checks(some))

    def collected(self, files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the commands of pytest that collect the tests among `files`, each in its project's folder."""
        if not self.members:
            return super().collected(files)
        return self._each(files, lambda project, some: project.collected(some))

    def judged_by(self, judges: Sequence[str]) -> Self:
        """Return a project that runs only the tests `judges`; a member that cannot run these alone runs no tests."""
        if not self.members or self.test:
            return super().judged_by(judges)
        members = tuple(
            replace(member, project=member.project.judged_by(self._of(member, judges)))
            if member.project.tests
            else member
            for member in self.members
        )
        tests = tuple(tool for member in members for tool in member.place(member.project.tests))
        return replace(self, members=members, tests=tests)

    def run_tests(self, tests: tuple[str, ...], files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Run these `tests` alone, or those in the packages of `files`; else all tests of their projects."""
        if not self.members or self.test:
            return super().run_tests(tests, files)
        found: list[VerifyTool] = []
        for member in self.members:
            named, some = self._of(member, tests), self._of(member, files)
            if named or some:
                found += member.place(member.project.run_tests(named, some))
        return tuple(found)

    def placed(self, tools: Iterable[VerifyTool]) -> tuple[VerifyTool, ...]:
        """Return the tools, each in the folder of the only member that it can mean; other tools stay at the root."""
        return tuple(map(self._placed, tools)) if self.members else tuple(tools)

    def split(self, files: tuple[str, ...]) -> Iterator[tuple[Member, tuple[str, ...]]]:
        """Yield each member with its own files among `files`, relative to its folder; without `files` every member."""
        for member in self.members:
            some = self._of(member, files)
            if some or not files:
                yield member, some

    def _of(self, member: Member, paths: Sequence[str]) -> tuple[str, ...]:
        folders = [each.folder for each in self.members]
        return all_inner((path for path in paths if nearest(path, folders) == member.folder), member.folder)

    def _each(
        self, files: tuple[str, ...], choose: Callable[[FolderProject, tuple[str, ...]], tuple[VerifyTool, ...]]
    ) -> tuple[VerifyTool, ...]:
        chosen = (member.place(choose(member.project, some)) for member, some in self.split(files))
        return tuple(tool for tools in chosen for tool in tools)

    def _narrow(self, names: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the tools that run only the tests `names`, each in its member; a member that cannot runs all tests."""
        if not self.members or self.test:
            return super()._narrow(names)
        aimed = [(member, member.names(names), self._each_narrow(member, names)) for member in self.members]
        if not any(tools for _, _, tools in aimed):
            return ()
        return tuple(
            tool
            for member, named, tools in aimed
            for tool in tools or (member.place(member.project.tests) if named.have_files else ())
        )

    @staticmethod
    def _each_narrow(member: Member, names: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        return member.place(member.project.narrowed(member.names(names).names))

    def _placed(self, tool: VerifyTool) -> VerifyTool:
        found = self.catalogue.find(tool.argv)
        if tool.cwd != ROOT or found is None:
            return tool
        contract, reading = found
        words = reading.positionals if contract.positional in _OF_PATHS else ()
        speaking = [m for m in self.members if not contract.languages or _speaks(m, contract.languages)]
        if not words:
            return in_folder(tool, speaking[0].folder) if len(speaking) == 1 else tool
        folders = {nearest(word.removeprefix("./"), [m.folder for m in self.members]) for word in words}
        folder = folders.pop() if len(folders) == 1 else ROOT
        if folder == ROOT:
            return tool
        seen = {word: _seen(word, folder) for word in words}
        argv = tuple(seen.get(word, word) for word in tool.argv)
        return in_folder(tool.model_copy(update={"argv": argv}), folder) if self.catalogue.find(argv) else tool


def _speaks(member: Member, languages: Sequence[str]) -> bool:
    return member.project.language is not None and member.project.language.name in languages


def _seen(word: str, folder: str) -> str:
    dot = "./" if word.startswith("./") else ""
    return dot + word.removeprefix("./").removeprefix(f"{folder}/")


def project_of(goal: Goal, catalogue: Catalogue, forbidden: Forbidden = JUDGED) -> Project | tuple[FieldError, ...]:
    """Return the project of a goal, or the faults in its data."""
    allowed = expand_allowed(goal.allowed_files, goal.context.files, forbidden)
    test, unknown = read_test_command(goal, catalogue.match)
    return allowed.errors + unknown or Project.of(goal, allowed.files, test, catalogue, forbidden)


def read_test_command(
    goal: Goal, match: Callable[[str], VerifyTool]
) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    """Return the goal's test command as a tool that runs in the goal's folder; an error if either is unknown."""
    command, folder = (goal.context.test_command or "").strip(), workdir_of(goal)
    if not is_folder(folder):
        why = f"{fit(folder, 80)!r} is no folder of the repository: it is named from its root, such as `backend`."
        return None, (field_error("/context/workdir", "unknown_folder", why),)
    try:
        test = match(command) if command else None
    except UnknownCommand as error:
        return None, (field_error("/context/test_command", "unknown_test_command", str(error)),)
    return (in_folder(test, folder) if test and test.cwd == ROOT else test), ()


def commands_in(
    lines: Iterable[str], catalogue: Catalogue, files: Sequence[str], level: RiskLevel
) -> tuple[VerifyTool, ...]:
    """Return the commands of the catalogue that these lines contain and that a step of this risk may run."""
    found: dict[tuple[str, ...], VerifyTool] = {}
    for line in lines:
        for text in (line, *_QUOTED.findall(line)):
            with suppress(UnknownCommand):
                found.update((tool.argv, tool) for tool in catalogue.expand(text.strip(), files))
    return keep_permitted(found.values(), catalogue, level)[:MAX_TOOLS]


def keep_permitted(tools: Iterable[VerifyTool], catalogue: Catalogue, level: RiskLevel) -> tuple[VerifyTool, ...]:
    """Return the tools that a step of this level may run."""
    return tuple(tool for tool in tools if not is_below(level, catalogue.contracts[tool.tool].min_risk))
