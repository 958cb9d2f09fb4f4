"""The facts of one project of a goal: its files, its language, and the tools that verify changes in its folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

from schemas.goal import Goal
from schemas.step import Place, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.permission import SYNTAX
from tasks.strategies.drafting.focus import Focus, file_of_test
from tasks.text.forbidden_paths import JUDGED, Forbidden
from tasks.text.paths import clean, is_glob
from tasks.toolchain.catalogue import Catalogue, once
from tasks.toolchain.collecting import COLLECTING
from tasks.toolchain.contract import Part, operand
from tasks.toolchain.files import Role, files_of, is_named_as_test
from tasks.toolchain.language import Language
from tasks.toolchain.languages import suffixes_of
from tasks.toolchain.runners import part_options, runner_commands, whole_commands

RUNS_PYTEST = ("pytest", "pytest-focused")
Aim = Callable[[Part, Sequence[str]], tuple[VerifyTool, ...]]
NOTHING_AROUND: Mapping[str, str] = MappingProxyType({})


def only_documents(files: Sequence[str]) -> bool:
    """Return whether all of `files` are documentation."""
    return len(files_of(files, Role.DOCUMENT)) == len(files)


class Check(StrEnum):
    """The kinds of verification of a step; a project knows the command of its language for each kind."""

    NONE = "none"
    QUICK = "quick"  # syntax of the step's own files
    BUILD = "build"
    TESTS = "tests"
    FOCUSED = "focused"  # the goal's failing tests alone; empty if none are known
    OWN = "own"  # tools that check the step's own files alone, and the goal's failing tests
    NEW_TESTS = "new_tests"  # the test files of the allowlist, else all tests


class ChosenCheck(NamedTuple):
    """A linter or type checker of a project; `is_asked` is true if the goal requests this tool or its findings."""

    name: str
    part: Part
    is_asked: bool


@dataclass(frozen=True)
class FolderProject:
    """The allowed files of a goal in one folder, with the language and the tools that verify changes there."""

    goal: Goal
    files: tuple[str, ...]
    language: Language | None
    tests: tuple[VerifyTool, ...]
    catalogue: Catalogue
    forbidden: Forbidden = JUDGED
    around: Mapping[str, str] = field(default_factory=dict)  # manifests above it by name: it inherits them

    @property
    def languages(self) -> tuple[Language | None, ...]:
        """The languages of the files that may change; None for an unknown one."""
        return (self.language,)

    @property
    def checks_after(self) -> dict[str, bool]:
        """The checks to run after changes of files that are not known before, by name; True: the goal requests one."""
        chosen = {check.name: check.is_asked for check in self.chosen_checks}
        return {**chosen, SYNTAX: False} if self.language else chosen

    @cached_property
    def named(self) -> frozenset[str]:
        """The files that the goal names one by one."""
        return frozenset(path for path in map(clean, self.goal.allowed_files) if not is_glob(path))

    @cached_property
    def failing_files(self) -> frozenset[str]:
        """The files of the failing tests, without those that the goal names as files that may change."""
        failing = (file_of_test(test) for test in self.goal.context.failing_tests)
        return frozenset(path for path in failing if path not in self.named)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The globs of the goal, which also match files that do not exist yet."""
        return tuple(dict.fromkeys(path for path in map(clean, self.goal.allowed_files) if is_glob(path)))

    @cached_property
    def focus(self) -> tuple[Place, ...]:
        """The likely places of the goal among its files."""
        is_python = self.language is not None and self.language.name == "python"
        return Focus(self.files, is_last_first=is_python).places(self.goal.goal, self.goal.context)

    @property
    def only_documents(self) -> bool:
        """Whether only documentation may change, which no test can verify."""
        return bool(self.files) and only_documents(self.files)

    def check(self, check: Check, files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the verification of a step for `files`; empty if there is none."""
        if check is Check.NONE:
            return ()
        if check is Check.FOCUSED:
            return self._narrow(self.goal.context.failing_tests)
        special: tuple[VerifyTool, ...] = ()
        if check is Check.NEW_TESTS:
            special = self._narrow(self.tests_among(files))
        elif check is not Check.TESTS and self.language:
            recipe = self.language.quick if check is Check.QUICK else self.language.build
            special = self.catalogue.recipe(recipe, files)
        return special or self.tests

    @cached_property
    def chosen_checks(self) -> tuple[ChosenCheck, ...]:
        """The linter and type checker that the goal's sentence names or its manifests configure."""
        asked = frozenset(re.findall(r"[\w-]+", self.goal.goal.casefold()))
        chosen: list[ChosenCheck] = []
        for choice in self.language.quick_checks if self.language else ():
            named = [each for each in choice if each.name in asked]
            usual = (each for each in choice if each.is_configured(self._configuring))
            if check := next(iter(named), None) or next(usual, None):
                is_asked = bool(named) or any(re.fullmatch(check.about, word) for word in asked)
                chosen.append(ChosenCheck(check.name, check.part, is_asked))
        return tuple(chosen)

    @cached_property
    def _configuring(self) -> Mapping[str, str]:
        """The manifests that may configure linters and type checkers, also those in folders above, by path."""
        above = {f"../{name}": text for name, text in self.around.items()}
        return {**self.goal.context.manifests, **above} if above else self.goal.context.manifests

    def quick_checks(self, files: tuple[str, ...], *, whole: bool) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
        """Return the commands of the chosen linter and type checker for `files`.

        A check that only runs on the whole project is left out unless `whole`. The second value lists the ids of the
        checks that the goal does not request: only manifests configure these.
        """
        aim = self.catalogue.aim_at_all if whole else self.catalogue.aim_part
        tools: list[VerifyTool] = []
        added: list[str] = []
        for check in self.chosen_checks:
            if whole or not check.part.whole:
                found = self._accepted(aim, check.part, files)
                tools += found
                added += [] if check.is_asked else [tool.tool for tool in found]
        return tuple(tools), tuple(added)

    @staticmethod
    def _accepted(aim: Aim, part: Part, files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the command that runs `part` on `files`; empty if an operator's contract of this tool refuses it."""
        try:
            return aim(part, files)
        except UnknownCommand:
            return ()

    def own_checks(
        self,
        files: tuple[str, ...],
        *,
        whole: bool,
        others: tuple[VerifyTool, ...] = (),
        tests: tuple[str, ...] = (),
    ) -> tuple[VerifyTool, ...]:
        """Return the tools that judge a change of `files` by these files alone, with `others` first.

        With `whole` this is the only change for its purpose. Then tests judge, too: the goal's failing tests, else
        `tests`, else the tests among `files`. If no tool can check only these files, the tools of the whole project do.
        """
        tools = (*others, *(self.catalogue.aimed(self.language.quick, files) if self.language else ()))
        if whole:
            tools += self._narrow(self.goal.context.failing_tests) or self._narrow(tests or self.tests_among(files))
        named = frozenset(map(operand, files))
        if tools[len(others) :] or any(not named.isdisjoint(tool.argv) for tool in others):
            usual: tuple[VerifyTool, ...] = ()
        elif self.language and len(files_of(files, Role.MANIFEST)) == len(files):
            run, parts = self.catalogue.run_part, self.language.dependencies_of(self._listed)
            usual = tuple(tool for part in parts for tool in self._accepted(run, part, files))
            usual = usual or self.tests
        else:
            usual = self.check(Check.QUICK, files)
        return once((*tools, *usual))

    def tests_among(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tests among `files` that the project's runner accepts as tests."""
        tests = files_of(files, Role.TEST)
        if not self.tests:
            return tests
        suffixes = suffixes_of(self.catalogue.contracts[self.tests[-1].tool].languages)
        return tuple(path for path in tests if path.endswith(suffixes) and is_named_as_test(path))

    def syntax_checks(self, files: Sequence[str]) -> tuple[VerifyTool, ...]:
        """Return the checks of test files whose code does not exist yet: their syntax, and a collection by pytest."""
        form = self.catalogue.recipe(self.language.quick, files) if self.language else ()
        return (*form, *self.collected(tuple(files)))

    def collected(self, files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the command that collects the tests among `files`; empty if the project does not use pytest."""
        tests, last = self.tests_among(files), self.tests[-1:]
        spelling = self.catalogue.spelling(last[0]) if last and last[0].tool in RUNS_PYTEST else ()
        if not (tests and spelling):
            return ()
        return (self._as_part(self.catalogue.aim((*spelling, COLLECTING, "-q"), tests)),)

    def judged_by(self, judges: Sequence[str]) -> Self:
        """Return a project that runs only the tests `judges`; it runs no tests if its tool cannot run these alone."""
        *before, last = self.tests
        aimed = self.catalogue.narrow(last, judges) if judges else None
        return replace(self, tests=(*before, aimed) if aimed else ())

    def run_tests(self, tests: tuple[str, ...], files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the tools that run only `tests`, else the tests in the packages of `files`, else all tests."""
        confined = self.catalogue.confine(self.tests[-1], files) if self.tests else None
        return self._narrow(tests) or ((*self.tests[:-1], confined) if confined else self.tests)

    def narrowed(self, names: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the tools that run only the tests `names`, relative to the folder; empty if no tool can do so."""
        return self._narrow(names)

    def _narrow(self, names: tuple[str, ...]) -> tuple[VerifyTool, ...]:
        """Return the tools that run only the tests `names`; empty if no tool can run them alone.

        The last test tool of the project is tried first, then each runner that its manifests configure. If one command
        cannot take all names, it runs the files of these tests.
        """
        if not names:
            return ()
        files = tuple(dict.fromkeys(map(file_of_test, names)))
        for tool in (*self.tests[-1:], *self._runners):
            for some in (names, files):
                if narrowed := self.catalogue.narrow(tool, some):
                    return (*self.tests[:-1], self._as_part(narrowed))
        return ()

    def _as_part(self, tool: VerifyTool) -> VerifyTool:
        """Return the tool with the options that a run of some tests needs, so that low coverage does not fail it."""
        for option in part_options(tool.tool, {**self.around, **self.goal.context.manifests}):
            tool = self.catalogue.with_option(tool, option)
        return tool

    @property
    def _listed(self) -> tuple[str, ...]:
        return (*self.goal.context.manifests, *_listing(self.goal, self.around))

    @cached_property
    def _runners(self) -> tuple[VerifyTool, ...]:
        commands = _runners_of(self.goal, self.language, self.around)
        return tuple(tool for command in commands for tool in _matched(self.catalogue, command))


def usual_tests(
    goal: Goal, language: Language | None, catalogue: Catalogue, around: Mapping[str, str] = NOTHING_AROUND
) -> tuple[VerifyTool, ...]:
    """Return the tools that run all tests of a project whose goal names no test command.

    `around` are the manifests in the folders above. These tools are the ones that manifests configure, such as nox. If
    only the default tool of the language can run the failing tests by name, it is used instead.
    """
    if language is None:
        return ()
    usual, names = catalogue.recipe(language.test), goal.context.failing_tests
    commands = [*whole_commands(language, goal.context.manifests, _listing(goal, around))]
    configured = [*_runners_of(goal, language, around)]
    runners = [tool for each in (*commands, *configured) for tool in _matched(catalogue, each)]
    takes_names = (catalogue.narrow(tool, names) for tool in runners)
    if runners and usual and catalogue.narrow(usual[-1], names) and not any(takes_names):
        return usual
    commands = commands or configured[:1]
    return next(filter(None, (_matched(catalogue, each) for each in commands)), usual)


def _matched(catalogue: Catalogue, command: str) -> tuple[VerifyTool, ...]:
    """Return the tool of a built-in command; empty if an operator's own contract of this tool refuses it."""
    try:
        return (catalogue.match(command),)
    except UnknownCommand:
        return ()


def _runners_of(goal: Goal, language: Language | None, around: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands of the test runners that the project's manifests configure, then of those in folders above."""
    if language:
        for manifests in (goal.context.manifests, around):
            yield from runner_commands(language, manifests, _listing(goal, around))


def _listing(goal: Goal, around: Mapping[str, str]) -> tuple[str, ...]:
    """Return the project's files, with the names of manifests and lock files in the folders above."""
    return (*goal.context.files, *around)
