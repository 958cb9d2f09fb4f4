"""A drafter's answer read as a plan: its words made fit, its errors told so that they can be mended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.envelope import FieldError, field_error
from schemas.task_draft import TASK_DRAFT_SCHEMA, TaskDraft, TaskStepDraft
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import decoded, fitted
from tasks.text.paths import fault
from tasks.text.secrets import kept_back

MAX_ERRORS = 20  # told at once
ANSWER = "/"  # where the whole answer is wrong


@dataclass(frozen=True, slots=True)
class Read:
    """A plan in its drafter's words, or why the answer is none."""

    draft: TaskDraft | None
    errors: tuple[FieldError, ...] = ()


def read(output: Any, *, strict: bool) -> Read:
    """Read what was answered; never raises. Unless it is `strict`, what is too long or not asked for is cut."""
    output, text = kept_back(output)
    if not text:
        return Read(None, (field_error(ANSWER, "empty_output", "The answer is empty."),))
    try:
        value = decoded(output)
        return Read(_clean(TaskDraft.model_validate(value if strict else fitted(value, TASK_DRAFT_SCHEMA))))
    except ValidationError as error:
        return Read(None, tuple(_errors(error)))
    except ValueError as error:
        return Read(None, (field_error(ANSWER, "invalid_json", f"This is no JSON: {fit(str(error), 200)}"),))


def _clean(draft: TaskDraft) -> TaskDraft:
    """Take the words over, sanitised; what has become empty is called by its number."""
    steps = tuple(_step(number, step) for number, step in enumerate(draft.steps, 1))
    return TaskDraft(summary=fit(draft.summary, 512) or "A plan", steps=steps)


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


def _errors(error: ValidationError) -> Iterable[FieldError]:
    for each in error.errors(include_url=False, include_input=False, include_context=False)[:MAX_ERRORS]:
        pointer = "/" + "/".join(fit(str(part), 64) for part in each["loc"])
        yield field_error(pointer, each["type"], fit(each["msg"], 200))
