"""Chooses the verification of an iteration: its checks, the tool that reported the gap, and tests.

If some tests fail because of another gap, only the tests that passed before judge. Otherwise no iteration could succeed
until that other gap is closed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from schemas.goal import Goal
from schemas.kinds.gap_report import Gap, PlannedGap
from schemas.step import VerifyTool
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.analysis import is_of_tests
from tasks.strategies.gap_report.checks import Checks, Command, aim, aim_at_all, command_of, command_of_tool, is_wanted
from tasks.strategies.gap_report.evidence import tool_of
from tasks.strategies.gap_report.history import key
from tasks.strategies.gap_report.places import Places
from tasks.toolchain.catalogue import Catalogue, once
from tasks.toolchain.files import name_of

STRICT = "strict"  # the word of a gap
_RUN = re.compile(r"test_.*\.py|.*_test\.py|.*[.-](?:test|spec)\.[cm]?[jt]sx?")  # names of files with tests


@dataclass(frozen=True, slots=True)
class Verification:
    """The tools that verify a step; `added` are ids of the checks among them that the gap is not about."""

    tools: tuple[VerifyTool, ...] = ()
    added: tuple[str, ...] = ()


def verification(
    gap: PlannedGap,
    project: Project,
    files: tuple[str, ...],
    checks: Checks,
    *,
    failed: bool,
    new: Collection[str] = (),
) -> Verification:
    """Return the verification of the whole change: checks of its files, the tool that reported the gap, and tests.

    Checks run separately on `new` files if the goal has a base, because new files cannot have failed there. A change of
    documentation alone gets no tools, so people review it, unless its gap `failed` before.
    """
    if files and only_documents(files) and not failed:
        return Verification()
    is_python = all(language is not None and language.name == "python" for language in project.languages)
    built = project.check(Check.BUILD, files) if files and not is_python else ()
    apart = frozenset(new if project.goal.context.base_sha else ())
    known, made = (tuple(path for path in files if (path in apart) is there) for there in (False, True))
    commands = filter(None, (command_of(project.catalogue, name) for name in checks.names))
    checked = tuple(tool for command in commands for tool in _aim_whole(project, command, known, made))
    judged = reporter_of(gap, project, files)
    tools = (*built, *checked, *judged, *project.tests)
    return _put_together(gap, project, tools, checked, (*built, *judged))


def own_verification(
    gap: PlannedGap,
    project: Project,
    files: tuple[str, ...],
    checks: Checks,
    *,
    failed: bool,
    whole: bool,
    tests: tuple[str, ...] = (),
) -> Verification:
    """Return the verification of one patch by its own files: the checks, and the tool that reported the gap.

    With `whole` the patch is the only one for this gap. Then checks of the whole project judge it, too, and `tests`,
    else the tests among `files`.
    """
    if only_documents(files) and not failed:
        return Verification()
    checked: tuple[VerifyTool, ...] = ()
    for name in checks.names:
        if command := command_of(project.catalogue, name):
            checked += aim(project, command, files, whole=whole)
    reporter = _reporter(gap, project)
    judged = aim(project, reporter, files, whole=whole) if reporter else ()
    tools = project.own_checks(files, whole=whole, others=(*checked, *judged), tests=tests)
    if reporter and not whole and not judged:  # no part closes the gap alone
        closing = aim(project, reporter, files, whole=True)
        tools = tuple(tool for tool in tools if tool not in closing) or project.tests
    return _put_together(gap, project, tools, checked, judged)


def check_of_all(gap: PlannedGap, project: Project, checks: Checks) -> Verification:
    """Return all checks of the project, and its tests; without the tests if the gap only names checks."""
    commands = (command_of(project.catalogue, name) for name in checks.names)
    checked = tuple(tool for command in commands if command for tool in _at_all(project, command))
    tests = project.tests if evidence.runs_tests(gap.description) or not checked or not checks.asked else ()
    return Verification(make_strict(once((*checked, *tests)), (), gap, project.catalogue))


def _at_all(project: Project, command: Command) -> tuple[VerifyTool, ...]:
    return aim(project, command, (), whole=True) or aim_at_all(project, command)


def _put_together(
    gap: PlannedGap,
    project: Project,
    tools: Iterable[VerifyTool],
    checked: Iterable[VerifyTool],
    needed: Iterable[VerifyTool],
) -> Verification:
    """Return each tool once, and mark the checks that neither the goal nor the gap is about as `added`.

    For `added` checks, failures from before the plan do not count, and they run in their strict mode, if they have one.
    """
    all_of_it = once(tools)
    there = {tool.key for tool in all_of_it}
    kept = {tool.tool for tool in needed}
    text = f"{project.goal.goal} {gap.description}" if gap.category.casefold() != "quality" else project.goal.goal
    added = dict.fromkeys(
        tool.tool
        for tool in checked
        if tool.key in there and tool.tool not in kept and not is_wanted(tool, text, project.catalogue)
    )
    return Verification(make_strict(all_of_it, added, gap, project.catalogue), tuple(added))


def make_strict(
    tools: Iterable[VerifyTool], added: Collection[str], gap: PlannedGap, catalogue: Catalogue
) -> tuple[VerifyTool, ...]:
    """Return the tools; a tool with a strict mode uses it if it is `added`, or if the gap's words ask for it."""
    is_asked = STRICT in gap.description.casefold().split()
    return tuple(
        tool.model_copy(update={"strict": is_asked or tool.tool in added})
        if catalogue.contracts[tool.tool].strict_by
        else tool
        for tool in tools
    )


def _aim_whole(project: Project, command: Command, *parts: Sequence[str]) -> tuple[VerifyTool, ...]:
    """Return the commands that check each group of changed files; if the check is for none of these, it checks all."""
    aimed = tuple(tool for files in parts for tool in aim(project, command, files, whole=True))
    return aimed or aim_at_all(project, command)


def reporter_of(gap: PlannedGap, project: Project, files: Sequence[str]) -> tuple[VerifyTool, ...]:
    """Return the tool that reported `gap`, aimed at the files that it can check; empty for tests and unknown tools."""
    command = _reporter(gap, project)
    return _aim_whole(project, command, files) if command else ()


def _reporter(gap: PlannedGap, project: Project) -> Command | None:
    if gap.category.casefold() != "quality":
        return None
    return command_of_tool(project.catalogue, tool_of(gap.description))


def judges_of(chosen: Gap, gaps: Iterable[Gap], goal: Goal, places: Places) -> tuple[str, ...] | None:
    """Return the test files that passed before, if another gap is about failing tests; None if all tests judge."""
    failing = [gap for gap in gaps if is_of_tests(gap) and key(gap) != key(chosen)]
    if is_of_tests(chosen) or not failing:
        return None
    blamed = {name.partition("::")[0] for name in goal.context.failing_tests}
    blamed.update(
        path for gap in failing for path in places.locate_all(evidence.mentions(gap.evidence, odd=places.odd))
    )
    runnable = (path for path in places.files if path in places.existing and _RUN.fullmatch(name_of(path)))
    return tuple(path for path in runnable if path not in blamed) if blamed else ()


def aim_tests(project: Project, judges: Sequence[str] | None) -> Project:
    """Return the project with tests that run only the files in `judges`; without tests if that is not possible."""
    return project if judges is None or not project.tests or project.language is None else project.judged_by(judges)
