"""Finds the checks that a step lacks, and that detect the failures which similar past attempts often had."""

from __future__ import annotations

from collections.abc import Collection

from schemas.base import FailureCategory as C
from schemas.step import PlannedStep, VerifyTool
from tasks.memory.alike import Past
from tasks.memory.checks import SEES, met_often
from tasks.strategies.drafting.project import Project, keep_permitted
from tasks.strategies.drafting.recipes import Recipes
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.contract import ToolCategory


def checks_by_past(
    step: PlannedStep, past: Past | None, accepted: Collection[str], project: Project
) -> list[tuple[str, VerifyTool]]:
    """Return the checks to add to a step, each with the category of past failures that it detects.

    The project configures each of these checks. `accepted` lists the tools that accepted changes of the repository
    passed. A linter or type checker is added only if `accepted` lists it, tests only if it lists any test tool.
    """
    has = {tool.key for tool in step.verify_tools}
    known = {tool.tool for tool in step.verify_tools}
    found = [(category, tool) for category in met_often(past) for tool in _seeing(category, step, past, project)]
    contracts = project.catalogue.contracts
    tested = any(contracts[name].category is ToolCategory.TEST for name in accepted if name in contracts)
    runs = {tool.key for tool in project.tests}  # all tests, which find what some of them find
    permitted = set(keep_permitted((tool for _, tool in found), project.catalogue, step.risk_level))
    return [
        (category, tool)
        for category, tool in found
        if tool in permitted
        and tool.key not in has
        and (tool.tool in accepted and tool.tool not in known if category in SEES else tested and not runs & has)
    ]


def _seeing(category: str, step: PlannedStep, past: Past | None, project: Project) -> tuple[VerifyTool, ...]:
    files, contracts = step.allowed_files, project.catalogue.contracts
    if category in SEES:
        tools, _ = project.quick_checks(files, whole=False)
        return tuple(tool for tool in tools if contracts[tool.tool].category is SEES[category])
    if category == C.IMPORT_ERROR:
        recipes = Recipes(project)
        tests = dict.fromkeys(test for path in files for test in recipes.tests_of(path))
        return tuple(tool for tool in project.collected(tuple(tests)) if tool.tool == COLLECTS)
    if category == C.TEST_REGRESSION and past:
        return project.narrowed(past.broke)
    return ()
