"""What the controller of a step is given beside its spec: its task, what went before it, and what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.campaign import LEAST_CONFIDENCE, MAX_OBJECTIVE, TaskStatus
from tasks.rules.strategy import Growth
from tasks.strategies.campaign.asking import given_to
from tasks.strategies.campaign.dag import parents
from tasks.strategies.campaign.exploring import EXPLORE
from tasks.strategies.campaign.progress import task_of, tasks_of
from tasks.strategies.campaign.state import State
from tasks.text.fields import fit_lines

MAX_SIBLINGS = 5  # other tasks that were blocked


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the objective to who explores, a prompt to who drafts, and its task with all around it to any other step."""
    state, document = State.model_validate(growth.state), growth.document or {}
    step_id = str(facts.get("step_id"))
    if step_id == EXPLORE:
        return {"objective": document.get("objective", growth.goal.goal), "prior_knowledge": _remembered(state)}
    if step_id == state.waits:
        return given_to(state, step_id)
    tasks = {task.seq: task for task in tasks_of(document)}
    task = tasks.get(task_of(state, step_id) or "")
    if task is None:
        return None
    return {
        "campaign": document.get("campaign"),
        "objective": fit_lines(str(document.get("objective", growth.goal.goal)), MAX_OBJECTIVE),
        "meant": state.known.reading or None,
        "task": task.model_dump(mode="json", exclude_none=True),
        "framework": state.known.framework,
        "idioms": {
            **state.known.idioms.model_dump(mode="json"),
            "enforced": state.known.confidence >= LEAST_CONFIDENCE,
        },
        "lineage": _lineage(state, parents(task.depends)),
        "sibling_failures": _siblings(state),
        "prior_knowledge": _remembered(state),
    }


def _lineage(state: State, before: tuple[str, ...]) -> dict[str, str]:
    told = {seq: state.progress[seq].delivered for seq in before if seq in state.progress}
    return {seq: text for seq, text in told.items() if text}


def _siblings(state: State) -> dict[str, str]:
    blocked = {seq: each for seq, each in state.progress.items() if each.status is TaskStatus.BLOCKED}
    return {seq: each.reason for seq, each in list(blocked.items())[:MAX_SIBLINGS] if each.reason}


def _remembered(state: State) -> dict[str, list[str]]:
    return {"failures": list(state.known.failures), "patterns": list(state.known.patterns)}
