"""How an iteration is verified: lint, types and tests, with the tools of the catalogue (seed 000, step 4)."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.errors import UnknownCommand
from tasks.planning.catalogue import Catalogue
from tasks.planning.project import Project, only_documents
from tasks.planning.templates import Check
from tasks.planning.tool_contract import MANY, fits

PYTHON_CHECKS = (("ruff", "check"), ("pyright",))


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


def verification(project: Project, files: tuple[str, ...], *, failed: bool) -> tuple[VerifyTool, ...]:
    """Choose the tools of the acceptance criteria, as far as the language has them, and the tests.

    What changes nothing but documentation is read by somebody instead, unless its gap failed before.
    """
    if files and only_documents(files) and not failed:
        return ()
    python = project.language is not None and project.language.name == "python"
    checks = _lint(project, files) if python else project.check(Check.BUILD, files) if files else ()
    return tuple({tool.argv: tool for tool in (*checks, *project.tests)}.values())


def _lint(project: Project, files: Sequence[str]) -> tuple[VerifyTool, ...]:
    sources = tuple(path for path in files if path.endswith((".py", ".pyi")) and fits("path", path))
    aimed = sources if 0 < len(sources) <= MANY else (".",)
    found = (_known(project, (*command, *aimed)) for command in PYTHON_CHECKS)
    return tuple(tool for tool in found if tool)


def _known(project: Project, argv: tuple[str, ...]) -> VerifyTool | None:
    """Read a command; None where the operator's catalogue has another tool in its place."""
    try:
        return project.catalogue.match_argv(argv)
    except UnknownCommand:
        return None
