"""Tasks that a drafter writes: read and judged, asked for by the worker or by a step, and what stands in for them.

A drafter's tasks, read and judged as the tasks that a goal brings along are.

Tasks from a drafter that the worker asks (`http`, `cli`, `backend`): before the plan exists, and never after.

What becomes of a campaign when a step that drafts its tasks has answered, or has given up (the drafter `queue`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepState
from schemas.campaign import CampaignInput, Decision, DraftedTasks, TaskType
from schemas.campaign_plan import TASKS_SCHEMA, PlanTask
from schemas.envelope import FieldError
from schemas.step import PlannedStep
from tasks.rules.strategy import (
    MAX_UNFOLDED,
    Answer,
    Consult,
    Draft,
    Drafted,
    End,
    Growth,
    Phase,
    Rejected,
    Setting,
    Unfolding,
)
from tasks.rules.validation import max_steps, rejected, validate
from tasks.strategies.campaign.document import document_of
from tasks.strategies.campaign.exploration import EXPLORE, explore_step
from tasks.strategies.campaign.outline import (
    Outline,
    coherence_of,
    decision_phases,
    outline,
    outline_of_tasks,
    outline_of_templates,
    with_phases,
)
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.replan import replan_by_templates, replan_with
from tasks.strategies.campaign.sequence import merge
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Knowledge, changeable_files, scope_of
from tasks.strategies.campaign.steps import DRAFT, NONE, QUEUE, complete_tasks, tasks_of
from tasks.strategies.campaign.tasks import judge_each, judge_tasks, plan_tasks
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import decoded
from tasks.text.paths import clean
from tasks.toolchain.catalogue import Catalogue

ROOT = "/tasks"
DRAFTING = "DRAFT"  # beside the seed's eight phases, where somebody else writes the tasks
MAX_TOLD = 480  # characters of what was wrong: a failure keeps 500
_MISTAKES = 10
MAX_PATH = 200  # characters of a file that is named


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that is no use, and all that is wrong with it."""

    errors: tuple[FieldError, ...]

    @property
    def told(self) -> str:
        """What was wrong, as the next attempt reads it."""
        return fit("; ".join(f"{each.pointer}: {each.message}" for each in self.errors), MAX_TOLD)


def proposed(output: Any, state: CampaignState, scope: CampaignScope, by: str) -> Outline | Refused:
    """Plan with the tasks that `output` holds."""
    found = _read(output)
    if isinstance(found, Refused):
        return found
    if errors := (*judge_tasks(found.tasks, scope.allowed, scope.catalogue, ROOT), *_beyond(found, state, scope)):
        return Refused(errors)
    if all(task.type is TaskType.VERIFY for task in found.tasks):
        return _refused("nothing_to_change", "No task changes anything: a campaign needs a SPEC or a BUILD.")
    planned = plan_tasks(found.tasks, state.known, scope.catalogue)
    made = outline_of_tasks(state.known, planned, scope, by, state.rounds, state.made)
    return Refused((made.trouble,)) if made.trouble else judged(made.steps, state.made, scope) or made


def changed(
    output: Any, state: CampaignState, tasks: Sequence[PlanTask], scope: CampaignScope
) -> tuple[PlanTask, ...] | Refused:
    """Put the changed and new tasks that `output` holds among `tasks`, of which the complete ones stay."""
    found = _read(output)
    if isinstance(found, Refused):
        return found
    if errors := (*judge_each(found.tasks, scope.allowed, scope.catalogue, ROOT), *_beyond(found, state, scope)):
        return Refused(errors)
    merged = merge(tasks, plan_tasks(found.tasks, state.known, scope.catalogue), complete_tasks(state))
    return _refused("invalid_graph", merged) if isinstance(merged, str) else merged


def judged(steps: Sequence[PlannedStep], before: int, scope: CampaignScope) -> Refused | None:
    """Judge the steps that tasks make as any plan is judged, and whether there is room for them."""
    most = min(MAX_UNFOLDED, max_steps(scope.goal) - before)
    if len(steps) > most:
        return _refused("too_many_steps", f"These tasks make {len(steps)} steps, and there is room for {most}.")
    errors = validate(scope.goal, steps, scope.catalogue, JUDGED)
    return Refused(errors) if errors else None


def taken(made: Outline, by: str) -> Phase:
    """Tell that tasks come from a drafter."""
    return Phase(DRAFTING, f"Step: draft, Status: {len(made.state.progress)} tasks by the drafter {by}")


def fallen_back(why: str) -> Phase:
    """Tell that no draft was of use."""
    return Phase(DRAFTING, f"Step: draft, Status: falling back on the templates ({why})")


def _beyond(found: DraftedTasks, state: CampaignState, scope: CampaignScope) -> Iterator[FieldError]:
    """Find files that the goal allows, of which a person chose others."""
    left_out = {*scope.allowed} - {*changeable_files(state.known, scope.allowed)}
    for number, task in enumerate(found.tasks):
        for field, paths in (("delta", task.delta), ("creates", task.creates)):
            for place, path in enumerate(paths):
                if task.type is not TaskType.VERIFY and clean(path) in left_out:
                    message = f"{fit(path, MAX_PATH)} is not among the files that a person chose."
                    yield _wrong("not_chosen", message, (ROOT[1:], number, field, place))


def _read(output: Any) -> DraftedTasks | Refused:
    try:
        found = decoded(output)
    except ValueError:
        return _refused("no_json", "The answer is no JSON: it must be one object with the list `tasks`.")
    if isinstance(found, list):
        found = {"tasks": found}
    if not isinstance(found, Mapping):
        return _refused("no_tasks", "The answer must be one JSON object with the list `tasks`.")
    try:
        return DraftedTasks.model_validate(found)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[:_MISTAKES]
        return Refused(tuple(_wrong("invalid_task", f"{each['msg']}.", each["loc"]) for each in wrong))


def _refused(code: str, message: str) -> Refused:
    return Refused((_wrong(code, message, ("tasks",)),))


def _wrong(code: str, message: str, where: Sequence[str | int]) -> FieldError:
    return FieldError(pointer=fit("/" + "/".join(map(str, where)), 200), code=code, message=message)


FAILED = "planning_failed"  # why there is no plan where nothing but a draft is wanted


def consulted(known: Knowledge, phase: Phase, scope: CampaignScope, setting: Setting) -> Answer:
    """Ask for the tasks, and for better ones where they are no use; people come first where something is unclear.

    Where nothing explored the repository, the drafter goes by what the goal carries.
    """
    unclear = coherence_of(known, scope).decision is not Decision.PROCEED
    if _is_explored(scope) and unclear:
        return unaided(known, phase, scope)
    refused = Refused(())
    if setting.drafted:
        found = _answered(setting.drafted[-1], CampaignState(known=known, terms=scope.terms), scope)
        if isinstance(found, Outline):
            made = with_phases(found, phase, *decision_phases(known), taken(found, scope.terms.drafter))
            return _paid(drafted(made), setting)
        refused = found
    if len(setting.drafted) < scope.terms.attempts:
        with_schema = bool(setting.options.get("schema_in_prompt"))
        return Consult(prompt_of(known, scope, errors=refused.errors, with_schema=with_schema), TASKS_SCHEMA)
    return _paid(_without(known, phase, scope, refused), setting)


def unaided(known: Knowledge, phase: Phase, scope: CampaignScope) -> Answer:
    """Plan from the exploration that the goal brings, or begin with one."""
    if _is_explored(scope):
        return drafted(with_phases(outline(known, scope), phase))
    state = CampaignState(known=known, terms=scope.terms, waits=EXPLORE, made=1).model_dump(mode="json")
    return Draft((explore_step(scope.goal, scope.terms.quorum),), document_of(scope.objective, known), state=state)


def drafted(made: Outline) -> Answer:
    """Make a draft of as much of a plan as there is."""
    if made.trouble:
        return rejected(made.trouble.code, (made.trouble,))
    state = made.state.model_dump(mode="json")
    return Draft(made.steps, made.document, state=state, question=made.question, phases=made.phases)


def _is_explored(scope: CampaignScope) -> bool:
    return (scope.goal.campaign or CampaignInput()).exploration is not None


def _answered(said: Drafted, state: CampaignState, scope: CampaignScope) -> Outline | Refused:
    if said.error is None:
        return proposed(said.output, state, scope, scope.terms.drafter)
    message = fit(f"The drafter did not answer: {said.error}.", 300)
    return Refused((FieldError(pointer="/drafter", code=FAILED, message=message),))


def _without(known: Knowledge, phase: Phase, scope: CampaignScope, refused: Refused) -> Answer:
    """Plan without the drafter, and say so; or not at all, where the operator wants it so."""
    if scope.terms.reject:
        return Rejected(FAILED, refused.errors)
    alone = replace(scope, terms=scope.terms.model_copy(update={"drafter": NONE}))
    made = unaided(known, phase, alone)
    if not isinstance(made, Draft):
        return made
    return replace(made, phases=(*made.phases[:3], fallen_back(refused.told), *made.phases[3:]))


def _paid(answer: Answer, setting: Setting) -> Answer:
    tokens = sum(each.tokens for each in setting.drafted)
    return replace(answer, tokens=tokens) if isinstance(answer, Draft | Rejected) else answer


SKIPPED = "an operator skipped the draft"


def refused(growth: Growth, state: CampaignState, output: Any) -> Refused | None:
    """Say what is wrong with drafted tasks; None where nothing is."""
    scope = scope_of(growth, state)
    found = proposed(output, state, scope, QUEUE) if state.waits == DRAFT else _anew(growth, state, output, scope)
    return found if isinstance(found, Refused) else None


def draft_ended(growth: Growth, state: CampaignState, end: End, catalogue: Catalogue) -> Unfolding:
    """Plan with the drafted tasks; without any by the templates, or not at all where the operator wants it so."""
    scope = scope_of(growth, state, catalogue)
    if end.state == StepState.DONE:
        found = proposed(end.output, state, scope, QUEUE)
        if isinstance(found, Outline):
            return unfolded(with_phases(found, taken(found, QUEUE)), "The tasks are drafted.")
    why = _why(end)
    if state.terms.reject and end.state == StepState.FAILED:
        evidence = {"step_id": end.step_id, "attempts": state.terms.attempts, "last_error": why}
        reason = f"The drafts of the tasks are of no use: {why}"
        return Unfolding(growth.state, growth.document, reason, halt=("planning_failed", reason, evidence))
    alone = replace(scope, terms=state.terms.model_copy(update={"drafter": NONE}))
    made = outline_of_templates(state.known, alone, state.rounds, state.made)
    return unfolded(with_phases(made, fallen_back(why)), "The tasks are those of the templates.")


def redraft_ended(growth: Growth, state: CampaignState, end: End, catalogue: Catalogue) -> Unfolding | None:
    """Plan anew with the drafted tasks, else by the templates."""
    scope = scope_of(growth, state, catalogue)
    found = _anew(growth, state, end.output, scope) if end.state == StepState.DONE else None
    if isinstance(found, Unfolding):
        return found
    made = replan_by_templates(growth, state, scope)
    return replace(made, phases=(fallen_back(_why(end)), *made.phases)) if made else None


def _anew(growth: Growth, state: CampaignState, output: Any, scope: CampaignScope) -> Unfolding | Refused:
    tasks = changed(output, state, tasks_of(growth.document), scope)
    if isinstance(tasks, Refused):
        return tasks
    made = replan_with(growth, state, tasks, scope)
    return judged(made.steps, state.made, scope) or made


def unfolded(made: Outline, why: str) -> Unfolding:
    """Go on as outlined."""
    trouble = made.trouble
    errors = [trouble.model_dump()] if trouble else []
    return Unfolding(
        made.state.model_dump(mode="json"),
        made.document,
        why,
        () if trouble else made.steps,
        made.phases,
        None if trouble else made.question,
        replaces=True,  # what explored or drafted may have failed or been skipped: planning goes on without it
        halt=("planning_failed", trouble.message, {"errors": errors}) if trouble else None,
    )


def _why(end: End) -> str:
    if end.state == StepState.SKIPPED:
        return SKIPPED
    failure = end.failure or {}
    said = (failure.get("suggestion"), failure.get("trace"), failure.get("category"))
    return next((fit(each, MAX_TOLD) for each in said if isinstance(each, str) and each.strip()), "it failed")
