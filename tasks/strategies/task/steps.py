"""From a draft to governed steps, or to the errors that its drafter should mend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, StepType
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep
from schemas.task_draft import TaskDraft
from tasks.rules.risk import estimate
from tasks.rules.strategy import MAX_UNFOLDED
from tasks.rules.validation import max_steps, validate
from tasks.strategies.drafting.project import Project
from tasks.strategies.drafting.steps import DraftedStep, Governed, govern, last_check
from tasks.strategies.task.reading import read
from tasks.text.fields import MAX_INTENT, filled, fit
from tasks.text.forbidden_paths import JUDGED

DRAFT_ID = "draft-plan"
VERIFY_ID = "verify-plan"
RESERVED = frozenset({DRAFT_ID, VERIFY_ID})
MAX_ATTEMPTS = 4  # a step's first one and three more


@dataclass(frozen=True, slots=True)
class Made:
    """The steps of a plan with what is told of them, or the errors for which there are none."""

    steps: tuple[PlannedStep, ...] = ()
    summary: str = ""
    notes: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


def made_of(project: Project, output: Any, *, strict: bool, changes: bool) -> Made:
    """Make the steps of an answer; `changes` is whether the goal asks for a change at all."""
    found = read(output, strict=strict)
    if found.draft is None:
        return Made(errors=found.errors)
    steps = _governed(project, found.draft)
    tools = project.tests if project.files else ()
    every = (*steps.steps, *last_check(project, steps.steps, tools, VERIFY_ID, found.draft.summary))
    if errors := tuple(_errors(project, every, steps, strict=strict, changes=changes)):
        return Made(errors=errors)
    notes = tuple(f"{where}: {why}" for where, why in (*steps.faults, *steps.notes))
    return Made(every, found.draft.summary, notes)


def _governed(project: Project, draft: TaskDraft) -> Governed:
    drafted = [
        DraftedStep(
            name=step.id,
            title=step.title,
            intent=step.intent,
            actions=step.actions,
            files=step.files,
            waits=step.depends_on,
            validation=step.validation,
        )
        for step in draft.steps
    ]
    looking: dict[int, tuple[str, ...]] = {at: () for at, step in enumerate(draft.steps) if not step.files}
    made = govern(project, drafted, RESERVED, looking)
    meant = {f"/steps/{at}/files" for at in looking}  # those only look because they say so
    return Governed(made.steps, made.faults, tuple(each for each in made.notes if each[0] not in meant))


def _errors(
    project: Project, steps: Sequence[PlannedStep], found: Governed, *, strict: bool, changes: bool
) -> Sequence[FieldError]:
    if strict and found.faults:
        return [field_error(where, "invalid_plan", f"{why}.") for where, why in found.faults]
    if changes and all(step.mode is not Mode.PATCH for step in steps):
        told = [field_error(where, "outside_allowlist", f"{why}.") for where, why in found.faults]
        return [*told, field_error("/steps", "nothing_to_change", "No step changes a file that may be changed.")]
    most = min(MAX_UNFOLDED, max_steps(project.goal) - 1)  # the draft is a step, too, where a controller makes it
    if len(steps) > most:
        message = f"The plan's files make {len(steps)} steps, and there is room for {most}."
        return [field_error("/steps", "too_many_steps", message)]
    return validate(project.goal, steps, project.catalogue, JUDGED)


def draft_step(goal: Goal, attempts: int) -> PlannedStep:
    """Make the step in which a controller's agent answers the prompt that it finds in its input."""
    mode = MODE_OF_TYPE[StepType.DRAFT]
    asked = filled("Answer the prompt of this step's input with a plan for: {goal}", fit(goal.goal, 400), MAX_INTENT)
    return PlannedStep(
        step_id=DRAFT_ID,
        title="Draft the plan",
        intent=fit(asked, MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=StepType.DRAFT),
        mode=mode,
        guidance="Answer in `output` with JSON of the input's schema. Nothing of the plan may be done yet: only read.",
        retry_limit=min(max(1, attempts), MAX_ATTEMPTS) - 1,
        queue=goal.queue,
        estimate=estimate(mode),
    )
