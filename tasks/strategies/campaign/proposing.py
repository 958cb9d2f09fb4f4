"""A drafter's tasks, read and judged as the tasks that a goal brings along are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.campaign import DraftedTasks, TaskType
from schemas.campaign_plan import PlanTask
from schemas.envelope import FieldError
from schemas.step import PlannedStep
from tasks.rules.strategy import MAX_UNFOLDED, Phase
from tasks.rules.validation import max_steps, validate
from tasks.strategies.campaign import given
from tasks.strategies.campaign.dag import merge
from tasks.strategies.campaign.outline import Outline, written
from tasks.strategies.campaign.progress import complete_in
from tasks.strategies.campaign.scope import Scope, chosen
from tasks.strategies.campaign.state import State
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import decoded
from tasks.text.paths import clean

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


def proposed(output: Any, state: State, scope: Scope, by: str) -> Outline | Refused:
    """Plan with the tasks that `output` holds."""
    found = _read(output)
    if isinstance(found, Refused):
        return found
    if errors := (*given.errors(found.tasks, scope.allowed, scope.catalogue, ROOT), *_beyond(found, state, scope)):
        return Refused(errors)
    if all(task.type is TaskType.VERIFY for task in found.tasks):
        return _refused("nothing_to_change", "No task changes anything: a campaign needs a SPEC or a BUILD.")
    planned = given.planned(found.tasks, state.known, scope.catalogue)
    made = written(state.known, planned, scope, by, state.rounds, state.made)
    return Refused((made.trouble,)) if made.trouble else judged(made.steps, state.made, scope) or made


def changed(output: Any, state: State, tasks: Sequence[PlanTask], scope: Scope) -> tuple[PlanTask, ...] | Refused:
    """Put the changed and new tasks that `output` holds among `tasks`, of which the complete ones stay."""
    found = _read(output)
    if isinstance(found, Refused):
        return found
    if errors := (*given.faults(found.tasks, scope.allowed, scope.catalogue, ROOT), *_beyond(found, state, scope)):
        return Refused(errors)
    merged = merge(tasks, given.planned(found.tasks, state.known, scope.catalogue), complete_in(state))
    return _refused("invalid_graph", merged) if isinstance(merged, str) else merged


def judged(steps: Sequence[PlannedStep], before: int, scope: Scope) -> Refused | None:
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


def _beyond(found: DraftedTasks, state: State, scope: Scope) -> Iterator[FieldError]:
    """Find files that the goal allows, of which a person chose others."""
    left_out = {*scope.allowed} - {*chosen(state.known, scope.allowed)}
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
