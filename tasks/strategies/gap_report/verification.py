"""How an iteration is verified: lint, types and tests, with the tools of the catalogue (seed 000, step 4)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from schemas.envelope import FieldError
from schemas.gap import PlannedGap
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.strategies.gap_report.reporters import PYTHON, reporter_of
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import MANY, fits, operand

CHECKS = ("ruff-check", "pyright")  # contracts of the catalogue, for Python


def test_command(goal: Goal, catalogue: Catalogue) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    """Read the goal's own test command; an error where the catalogue does not have it."""
    command = (goal.context.test_command or "").strip()
    if not command:
        return None, ()
    try:
        return catalogue.match(command), ()
    except UnknownCommand as error:
        pointer, code = "/context/test_command", "unknown_test_command"
        return None, (FieldError(pointer=pointer, code=code, message=str(error)),)


def verification(
    gap: PlannedGap, project: Project, files: tuple[str, ...], checks: Sequence[str], *, failed: bool
) -> tuple[VerifyTool, ...]:
    """Choose the tools of the acceptance criteria, as far as the language has them, and the tests.

    What changes nothing but documentation is read by somebody instead, unless its gap failed before.
    """
    if files and only_documents(files) and not failed:
        return ()
    python = project.language is not None and project.language.name == "python"
    own = project.check(Check.BUILD, files) if files and not python else ()
    checked = _checked(project, files, checks) if python else own
    chosen = (*checked, *reporter_of(gap, project, files), *project.tests)
    return tuple({tool.argv: tool for tool in chosen}.values())


def _checked(project: Project, files: Sequence[str], checks: Sequence[str]) -> tuple[VerifyTool, ...]:
    sources = tuple(path for path in files if path.endswith(PYTHON) and fits("path", operand(path)))
    aimed = sources if 0 < len(sources) <= MANY else (".",)
    return tuple(tool for check in checks if (tool := _aimed(project, check, aimed)))


def _aimed(project: Project, check: str, files: Sequence[str]) -> VerifyTool | None:
    """Aim a contract at files, or at nothing if it takes none; None where the operator's takes neither."""
    for words in (tuple(map(operand, files)), ()):
        with suppress(UnknownCommand):
            return project.catalogue.aim(project.catalogue.call(check, words).argv)
    return None
