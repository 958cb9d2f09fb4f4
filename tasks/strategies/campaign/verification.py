"""Reads and chooses the verification of tasks: commands of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import RiskLevel
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.risk import is_below
from tasks.strategies.campaign.state import CampaignScope, Knowledge
from tasks.strategies.drafting.project import Check, Project, only_documents
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.command_lines import split_commands
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.languages import LANGUAGES

UNVERIFIED = "none"  # the `verify` of a task that only changes documents


def read_command(text: str, catalogue: Catalogue) -> VerifyTool:
    """Return the tool that a command runs. Raises UnknownCommand if it may change files or is not in the catalogue."""
    tool = catalogue.match(text)
    if is_below(RiskLevel.LOW, catalogue.contracts[tool.tool].min_risk):
        raise UnknownCommand(f"{tool.tool} may change files, so it verifies nothing.")
    return tool


def goes_unverified(files: Sequence[str]) -> bool:
    """Return whether `files` are all documents, which no tool verifies; False without files."""
    return only_documents(tuple(files)) and bool(files)


def read_commands(text: str, catalogue: Catalogue, files: Sequence[str] = ()) -> tuple[VerifyTool, ...]:
    """Return the tools of a task's `verify`: commands joined by `&&`, the name of a recipe, or UNVERIFIED (no tool).

    Raises UnknownCommand.
    """
    if text == UNVERIFIED:
        return ()
    if text.strip() in catalogue.recipes:
        return catalogue.recipe(text.strip(), files)
    return tuple(read_command(each.strip(), catalogue) for each in split_commands(text))


def project_of(known: Knowledge, scope: CampaignScope) -> Project:
    """Return the project of a campaign, as the known facts describe it.

    Its own test command takes precedence over the default command of its language.
    """
    language, catalogue = LANGUAGES.get(known.language or ""), scope.catalogue
    own = read_commands(known.test_command, catalogue) if known.test_command else ()
    return Project.known(scope.goal, scope.allowed, language, own or None, catalogue)


def spec_checks(project: Project, tools: tuple[VerifyTool, ...], files: tuple[str, ...]) -> tuple[VerifyTool, ...]:
    """Return the verification of new tests: `tools`, and a collection of the tests if no tool runs them.

    So a wrong import fails at once. An import of code that does not exist yet passes: `tasks/features/collecting.py`
    judges each failed import.
    """
    contracts = project.catalogue.contracts
    if not any(contracts[tool.tool].category is ToolCategory.TEST or tool.tool == COLLECTS for tool in tools):
        tools = (*tools, *project.collected(files))
    return tuple(project.catalogue.as_ran(tool) if tool.tool == COLLECTS else tool for tool in tools)


def code_checks(
    project: Project, files: tuple[str, ...], tests: tuple[str, ...], *, verified: bool
) -> tuple[VerifyTool, ...]:
    """Return the verification of changed code: its tests; without tests, quick checks if a later task runs all tests.

    Otherwise all tests verify the code. Documents get no verification.
    """
    if goes_unverified(files):
        return ()
    if tests:
        return project.check(Check.NEW_TESTS, tests)
    return project.check(Check.QUICK if verified else Check.TESTS, files)
