"""How far the tasks of a campaign are, by the ends of their steps: what was delivered, and what blocks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import StepState
from schemas.campaign import TaskStatus
from schemas.campaign_plan import PlanTask
from tasks.rules.strategy import End
from tasks.strategies.campaign.dag import parents
from tasks.strategies.campaign.state import Progress, State
from tasks.text.fields import fit

MAX_DELIVERED, MAX_REASON = 200, 100

_DELIVERED = ("delivered", "summary", "result", "message")  # where controllers say what they did
_SKIPPED = "skipped by an operator"


def tasks_of(document: Mapping[str, Any] | None) -> tuple[PlanTask, ...]:
    """Read the tasks of a plan document of ours."""
    return tuple(PlanTask.model_validate(each) for each in (document or {}).get("tasks", ()))


def task_of(state: State, step_id: str) -> str | None:
    """Find the task that a step, which has not ended yet, belongs to."""
    return next((seq for seq, each in state.progress.items() if step_id in each.steps), None)


def complete_in(state: State) -> frozenset[str]:
    """Name the tasks that are complete."""
    return frozenset(seq for seq, each in state.progress.items() if each.status is TaskStatus.COMPLETE)


def ended(state: State, seq: str, end: End, document: Mapping[str, Any]) -> State:
    """Note the end of one step of the task `seq`."""
    task = state.progress[seq]
    left = tuple(step_id for step_id in task.steps if step_id != end.step_id)
    used = task.tool_calls if end.tool_calls is None else (task.tool_calls or 0) + end.tool_calls
    update = {"steps": left, "tool_calls": used, **_change(state, seq, end, left, document)}
    task = task.model_copy(update=update)
    return state.model_copy(update={"progress": {**state.progress, seq: task}})


def _change(state: State, seq: str, end: End, left: Sequence[str], document: Mapping[str, Any]) -> dict[str, Any]:
    if state.progress[seq].status is TaskStatus.BLOCKED:
        return {}  # what comes after the step that blocked it says nothing new
    if end.state == StepState.FAILED:
        return {"status": TaskStatus.BLOCKED, "reason": _reason(end)}
    if end.state == StepState.SKIPPED and (blocker := _blocker(state, seq, document)):
        return {"status": TaskStatus.BLOCKED, "blocked_by": blocker}
    if left:
        return {"status": TaskStatus.IN_PROGRESS}
    told = _SKIPPED if end.state == StepState.SKIPPED else delivered(end.output)
    return {"status": TaskStatus.COMPLETE, "delivered": told}


def _blocker(state: State, seq: str, document: Mapping[str, Any]) -> str | None:
    """Find the parent that keeps a task from running; none where an operator skipped it."""
    waits = {task.seq: parents(task.depends) for task in tasks_of(document)}
    blocked = (other for other in waits.get(seq, ()) if _is_blocked(state.progress.get(other)))
    return next(blocked, None)


def _is_blocked(task: Progress | None) -> bool:
    return task is not None and task.status is TaskStatus.BLOCKED


def delivered(output: Any) -> str | None:
    """Take what a controller says it delivered, in a few words."""
    said = output
    if isinstance(output, dict):
        said = next((output[name] for name in _DELIVERED if isinstance(output.get(name), str)), None)
    return (fit(said[: MAX_DELIVERED * 5], MAX_DELIVERED) or None) if isinstance(said, str) else None


def blocked_reason(output: Any) -> str | None:
    """Take the reason of a controller that reports to be blocked; None where it does not."""
    if not isinstance(output, dict) or output.get("status") != TaskStatus.BLOCKED:
        return None
    reason = output.get("reason")
    return _short(reason) if isinstance(reason, str) and reason.strip() else "no reason was given"


def _reason(end: End) -> str:
    """Say why a task was blocked: as its controller reports, else as its failure says."""
    failure = end.failure or {}
    said = (blocked_reason(end.output), failure.get("trace"), failure.get("suggestion"), failure.get("category"))
    return next((_short(each) for each in said if isinstance(each, str) and each.strip()), "it failed")


def _short(text: str) -> str:
    return fit(text[: MAX_REASON * 10], MAX_REASON)
