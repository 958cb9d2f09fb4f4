"""Whatever a goal says, it is answered: a plan that validates, or a rejection with its reasons; never an exception."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.goal import Goal
from tasks.base.errors import UnknownCommand
from tasks.handlers.goals import plan
from tasks.rules.strategy import Draft, Rejected
from tasks.rules.validation import validate
from tasks.text.paths import fault, is_glob
from tasks.text.patterns import expand_globs
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.command_lines import render
from tests.support.any_goal import COMMANDS, GOALS, PATHS, PROJECTS
from tests.support.examples import few_and_many


def goal_of(raw: dict[str, Any]) -> Goal | None:
    try:
        return Goal.model_validate(raw)
    except ValidationError:
        return None  # what the wire refuses never comes to the planner


@given(GOALS)
def test_any_goal_gives_a_plan_that_validates_or_a_rejection_with_reasons(raw: dict[str, Any]) -> None:
    goal = goal_of(raw)
    if goal is None:
        return

    answer = plan(goal)

    assert answer == plan(goal)
    if isinstance(answer, Draft):
        assert answer.steps
        assert validate(goal, answer.steps) == ()
        allowed = set(expand_globs(goal.allowed_files, goal.context.files).files)
        assert all(set(step.allowed_files) <= allowed for step in answer.steps)
    else:
        assert isinstance(answer, Rejected)
        assert answer.reason
        assert answer.errors
        assert all(error.code and error.message for error in answer.errors)


@few_and_many(250, 2500, PROJECTS)
def any_project(raw: dict[str, Any]) -> None:
    goal = goal_of(raw)

    assert goal is None or isinstance(plan(goal), Draft | Rejected)


test_a_plan_is_made_of_any_files_of_a_project, test_a_plan_is_made_of_any_files_of_a_project_at_length = any_project


@given(COMMANDS)
def test_what_the_catalogue_accepts_is_read_back_from_its_own_text(command: str) -> None:
    try:
        tool = CATALOGUE.match(command)
    except UnknownCommand:
        return

    assert CATALOGUE.match(render([tool])) == tool
    assert not any(char in render([tool]) for char in ";|&$<>`\n\\")


@given(st.lists(PATHS, max_size=6), st.lists(PATHS, max_size=6))
@settings(deadline=None)  # other processes share the machine
def test_an_expanded_allowlist_holds_only_literal_faultless_paths(patterns: list[str], listing: list[str]) -> None:
    expanded = expand_globs(patterns, listing)

    assert all(fault(path) is None and not is_glob(path) for path in expanded.files)
    assert len(set(expanded.files)) == len(expanded.files)
    assert expand_globs(expanded.files, ()) == expand_globs(expanded.files, listing)
