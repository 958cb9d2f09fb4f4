"""Turns a drafter's answer into governed steps with clean words, or returns all faults for a repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.base import Mode
from schemas.envelope import FieldError, field_error
from schemas.kinds.task import TASK_DRAFT_SCHEMA, TaskDraft, TaskStepDraft
from schemas.step import PlannedStep
from schemas.wording import expected
from tasks.rules.validation import validate
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.cycle import Refusal
from tasks.strategies.drafting.project import Project
from tasks.strategies.drafting.steps import DraftedStep, GovernedSteps, crowd, govern, last_check, room_for
from tasks.strategies.task.steps import DRAFT_ID, VERIFY_ID
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import fit_schema, read_json
from tasks.text.paths import fault
from tasks.text.secrets import hold_back

MAX_ERRORS = 20  # errors in one refusal
ANSWER = "/"  # pointer of a fault in the whole answer
RESERVED = frozenset({DRAFT_ID, VERIFY_ID})


@dataclass(frozen=True, slots=True)
class ParsedDraft:
    """The governed steps of a drafter's answer, its summary, and the changes made to it (`notes`)."""

    steps: tuple[PlannedStep, ...]
    summary: str
    notes: tuple[str, ...] = ()  # changes without a question


def parse(project: Project, output: Any, *, strict: bool, changes: bool) -> ParsedDraft | Refusal:
    """Return the governed steps of an answer, or a refusal with its faults; never raises.

    Unless `strict`, text that is too long is cut and unknown fields are dropped. If the goal asks for `changes`, some
    step has to change files.
    """
    found = _read(output, strict=strict)
    if isinstance(found, Refusal):
        return found
    made = _govern(project, found)
    tools = project.tests if project.files else ()
    checks = last_check(project, made.steps, tools, VERIFY_ID, found.summary)
    steps = connect_answers((*made.steps, *checks))
    if errors := tuple(_faults(project, steps, made, strict=strict, changes=changes)):
        return Refusal(errors)
    notes = tuple(f"{where}: {why}" for where, why in (*made.faults, *made.notes))
    return ParsedDraft(steps, found.summary, notes)


def _read(output: Any, *, strict: bool) -> TaskDraft | Refusal:
    """Return the draft in an answer, with sanitized words, or a refusal; a step without a title gets its number."""
    output, text = hold_back(output)
    if not text:
        return Refusal((field_error(ANSWER, "empty_output", "The answer is empty."),))
    try:
        value = read_json(output)
        found = TaskDraft.model_validate(value if strict else fit_schema(value, TASK_DRAFT_SCHEMA))
        steps = tuple(_step(number, step) for number, step in enumerate(found.steps, 1))
        return TaskDraft(summary=fit(found.summary, 512) or "A plan", steps=steps)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[:MAX_ERRORS]
        pointers = ["/" + "/".join(fit(str(part), 64) for part in each["loc"]) for each in wrong]
        pairs = zip(pointers, wrong, strict=True)
        return Refusal(tuple(field_error(pointer, each["type"], fit(expected(each), 200)) for pointer, each in pairs))
    except ValueError as error:
        return Refusal((field_error(ANSWER, "invalid_json", f"This is no JSON: {fit(str(error), 200)}"),))


def _step(number: int, step: TaskStepDraft) -> TaskStepDraft:
    paths = (path if fault(path, JUDGED) is None else fit(path, 512) for path in map(str.strip, step.files))
    return TaskStepDraft(
        id=fit(step.id, 64) or f"step-{number}",
        title=fit(step.title, 100) or f"Step {number}",
        intent=fit(step.intent, 400) or f"Step {number}",
        actions=_lines(step.actions),
        files=tuple(path for path in paths if path),
        depends_on=_lines(step.depends_on),
        validation=_lines(step.validation),
    )


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, (fit(each, 200) for each in lines)))


def _govern(project: Project, draft: TaskDraft) -> GovernedSteps:
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
    meant = {f"/steps/{at}/files" for at in looking}  # read-only steps because they are declared so
    return GovernedSteps(made.steps, made.faults, tuple(each for each in made.notes if each[0] not in meant))


def _faults(
    project: Project, steps: Sequence[PlannedStep], found: GovernedSteps, *, strict: bool, changes: bool
) -> Sequence[FieldError]:
    if strict and found.faults:
        return [field_error(where, "invalid_plan", f"{why}.") for where, why in found.faults]
    if changes and all(step.mode is not Mode.PATCH for step in steps):
        missed = [field_error(where, "outside_allowlist", f"{why}.") for where, why in found.faults]
        return [*missed, field_error("/steps", "nothing_to_change", "No step changes a file that may be changed.")]
    room = room_for(project.goal, 1)  # the draft counts as a step if a controller makes it
    return crowd(steps, room) or validate(project.goal, steps, project.catalogue, JUDGED)
