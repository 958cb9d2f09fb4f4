"""How an iteration is verified: lint, types, the tool that reported, and tests.

Where some tests fail for another gap, those that passed before judge: verified by tests that fail whatever it does, no
iteration could ever succeed before that other gap is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from schemas.goal import Goal
from schemas.kinds.gap_report import Gap, PlannedGap
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.evidence import tool_of
from tasks.strategies.gap_report.history import key
from tasks.strategies.gap_report.places import Places
from tasks.toolchain.contract import MANY, fits, operand
from tasks.toolchain.files import name_of

CHECKS = ("ruff-check", "pyright")  # contracts of the catalogue, for Python

PYTHON = (".py", ".pyi")
NODE = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")

# The word that a tool is known by, how it is run, and what files it is given; none: it looks at everything.
COMMANDS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ruff": ("ruff check", PYTHON),
        "flake8": ("flake8", PYTHON),
        "mypy": ("mypy", PYTHON),
        "pyright": ("pyright", PYTHON),
        "eslint": ("npx eslint", NODE),
        "tsc": ("npx tsc --noEmit", ()),
        "vet": ("go vet ./...", ()),
        "golangci-lint": ("golangci-lint run ./...", ()),
        "clippy": ("cargo clippy -- -D warnings", ()),
    }
)

_RUN = re.compile(r"test_.*\.py|.*_test\.py|.*[.-](?:test|spec)\.[cm]?[jt]sx?")  # what a runner finds tests in


def verification(
    gap: PlannedGap, project: Project, files: tuple[str, ...], checks: Sequence[str], *, failed: bool
) -> tuple[VerifyTool, ...]:
    """Choose the tools that the criteria ask for and the language has, and the tests.

    What changes nothing but documentation is read by somebody instead, unless its gap failed before.
    """
    if files and only_documents(files) and not failed:
        return ()
    if project.language is not None and project.language.name == "python":
        targets = _targets(files, PYTHON)
        tools = [tool for check in checks if (tool := _run_check(project, check, targets))]
    else:
        tools = list(project.check(Check.BUILD, files)) if files else []
    tools += (*reporter_of(gap, project, files), *project.tests)
    return tuple({tool.argv: tool for tool in tools}.values())


def own_verification(
    gap: PlannedGap, project: Project, files: tuple[str, ...], checks: Sequence[str], *, failed: bool, whole: bool
) -> tuple[VerifyTool, ...]:
    """Choose the tools that look at `files` alone, of those that the criteria ask for.

    With `whole` nothing else changes for this gap: then the tests among `files` judge, too.
    """
    if only_documents(files) and not failed:
        return ()
    targets = tuple(path for path in files if path.endswith(PYTHON) and fits("path", operand(path)))[:MANY]
    tools: list[VerifyTool] = []
    if targets and project.language is not None and project.language.name == "python":
        tools = [tool for check in checks if (tool := _run_check(project, check, targets))]
    named = frozenset(map(operand, files))
    tools += (tool for tool in reporter_of(gap, project, files) if not named.isdisjoint(tool.argv))
    return project.own_checks(files, whole=whole, others=tuple(tools))


def _targets(files: Sequence[str], suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Name the files of a kind that a tool is aimed at: everything, where there are none or too many."""
    targets = tuple(path for path in files if path.endswith(suffixes) and fits("path", operand(path)))
    return targets if 0 < len(targets) <= MANY else (".",)


def _run_check(project: Project, check: str, files: Sequence[str]) -> VerifyTool | None:
    """Aim a contract at files, else at nothing; None where the operator's takes neither."""
    for words in (tuple(map(operand, files)), ()):
        with suppress(UnknownCommand):
            return project.catalogue.aim(project.catalogue.call(check, words).argv)
    return None


def reporter_of(gap: PlannedGap, project: Project, files: Sequence[str]) -> tuple[VerifyTool, ...]:
    """Aim the tool that reported `gap` at what changes of its kind; none for tests and unknown tools."""
    words = re.findall(r"[\w-]+", tool_of(gap.description).casefold()) if gap.category.casefold() == "quality" else ()
    for command, suffixes in (COMMANDS[word] for word in words if word in COMMANDS):
        with suppress(UnknownCommand):
            if suffixes:
                return (project.catalogue.aim(tuple(command.split()), _targets(files, suffixes)),)
            return (project.catalogue.match(command),)
    return ()


def judges_of(chosen: Gap, gaps: Iterable[Gap], goal: Goal, places: Places) -> tuple[str, ...] | None:
    """List the files of tests that passed before; None where all tests judge."""
    failing = [gap for gap in gaps if _is_of_tests(gap) and key(gap) != key(chosen)]
    if _is_of_tests(chosen) or not failing:
        return None
    blamed = {name.partition("::")[0] for name in goal.context.failing_tests}
    blamed.update(
        path for gap in failing for path in places.locate_all(evidence.mentions(gap.evidence, odd=places.odd))
    )
    runnable = (path for path in places.files if path in places.existing and _RUN.fullmatch(name_of(path)))
    return tuple(path for path in runnable if path not in blamed) if blamed else ()


def aim_tests(project: Project, judges: Sequence[str] | None) -> Project:
    """Aim the project's tests at those that judge; where that is impossible, the checks of the language are left."""
    if judges is None or not project.tests or project.language is None:
        return project
    *before, last = project.tests
    aimed = project.catalogue.narrow(last, judges) if judges else None
    return replace(project, tests=(*before, aimed) if aimed else ())


def _is_of_tests(gap: Gap) -> bool:
    return category_of(gap) == "quality" and evidence.runs_tests(evidence.tool_of(gap.description))
