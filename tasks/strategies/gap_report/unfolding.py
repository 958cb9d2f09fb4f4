"""How an iteration whose files nobody knew goes on: what its EXPLORE step found becomes its patches (DESIGN.md 5).

Its answer is `{"files": [...]}`; only what the goal allows counts, and where nothing is left, the plan halts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from schemas.gap import MAX_TARGETS, ActionType, IterationPlan
from tasks.rules.strategy import MAX_UNFOLDED, End, Growth, Unfolding
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report import hazard, steps
from tasks.strategies.gap_report.briefing import protection_of
from tasks.strategies.gap_report.drafting import shortcomings
from tasks.strategies.gap_report.judging import judged
from tasks.strategies.gap_report.verification import CHECKS, test_command
from tasks.text.paths import clean
from tasks.toolchain.catalogue import Catalogue


class _Found(BaseModel):
    """What an EXPLORE step answers."""

    model_config = ConfigDict(extra="ignore", strict=True)

    files: Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=512)]], Field(max_length=10_000)]


def refusal(growth: Growth, facts: Mapping[str, Any], output: Any) -> str | None:  # noqa: ARG001 (the protocol's)
    """Refuse an answer of another shape."""
    if facts.get("step_id") != steps.EXPLORE_ID or _files_of(output) is not None:
        return None
    return 'The output must be {"files": [...]}: the paths of the files to change.'


def advance(growth: Growth, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Patch what was found; an exploration that was skipped leaves all that is allowed."""
    if end.step_id != steps.EXPLORE_ID or end.state not in {"DONE", "SKIPPED"} or growth.document is None:
        return None
    allowed = steps.free_files(growth.goal, protection_of(growth))
    found = _files_of(end.output) if end.state == "DONE" else list(allowed)
    wanted = {clean(path) for path in found or ()}
    files = tuple(path for path in allowed if path in wanted)
    if not files:
        return _unfit(growth, "no_allowed_files", "None of the files that were found may be changed.")
    return _unfolded(growth, files, catalogue)


def answer(growth: Growth, value: Any, catalogue: Catalogue) -> Unfolding | str:  # noqa: ARG001 (the protocol's)
    """Refuse any answer: an iteration asks nothing."""
    return "This plan has asked nothing."


def stuck(growth: Growth, catalogue: Catalogue) -> Unfolding | None:  # noqa: ARG001 (the protocol's)
    """Leave a failed iteration as it is: the next one is planned from its record."""
    return None


def _unfolded(growth: Growth, files: tuple[str, ...], catalogue: Catalogue) -> Unfolding:
    if len(files) > MAX_TARGETS:
        return _unfit(growth, "too_many_files", f"{len(files)} files are too many for one iteration.")
    iteration = _iteration(growth, files, catalogue)
    made = steps.make_steps(iteration, steps.pieces_of(iteration))
    if errors := shortcomings(growth.goal, made, before=1):
        return _unfit(growth, errors[0].code, errors[0].message)
    if len(made) > MAX_UNFOLDED:
        return _unfit(growth, "too_many_files", f"{len(files)} files are too many for one iteration.")
    why = f"{len(files)} {'file' if len(files) == 1 else 'files'} to change."
    return Unfolding({}, iteration.plan.model_dump(mode="json"), why, made)


def _iteration(growth: Growth, files: tuple[str, ...], catalogue: Catalogue) -> steps.Iteration:
    plan = IterationPlan.model_validate(growth.document)
    failed = bool(growth.state.get("failed"))
    aimed = {"target_files": files[:MAX_TARGETS], "action_type": ActionType.MODIFY}
    actions = tuple(each if each.target_files else each.model_copy(update=aimed) for each in plan.actions)
    risk = hazard.of_plan(actions, (), failed=failed)
    plan = plan.model_copy(update={"actions": actions, "estimated_risk": risk})
    project, state = _project(growth, files, catalogue), growth.state
    return steps.Iteration(plan, project, files, state.get("guidance"), failed, tuple(state.get("checks", CHECKS)))


def _project(growth: Growth, files: tuple[str, ...], catalogue: Catalogue) -> Project:
    """Read the project as it was when the plan was made; a test command that is no longer known is left out."""
    context = growth.goal.context
    context = context.model_copy(update={"language": growth.state.get("language") or context.language})
    goal = growth.goal.model_copy(update={"context": context})
    test, _ = test_command(goal, catalogue)
    return judged(Project.of(goal, files, test, catalogue), growth.state.get("judges"))


def _unfit(growth: Growth, code: str, message: str) -> Unfolding:
    error = {"pointer": "/allowed_files", "code": code, "message": message}
    return Unfolding(growth.state, growth.document, message, halt=("plan_unfit", message, {"errors": [error]}))


def _files_of(output: Any) -> list[str] | None:
    try:
        return _Found.model_validate(output).files
    except ValidationError:
        return None
