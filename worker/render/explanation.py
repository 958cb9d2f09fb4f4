"""An explanation of a plan, drawn for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from schemas.plan import MemoryView, PlanView
from tasks.features.baseline.red_checks import DROPPED
from worker.render.plan import DELIVERED, UNVERIFIED, memory_lines, plain, shown_state
from worker.render.remarks import Remarks

HAPPENED = frozenset({"commands", "errors", "category"})  # these happen once, without a counter
COUNTED = {"wall_clock_s": "seconds", "retry_limit": "failures of the step", "max_attempts": "attempts"}


def draw(explained: dict[str, Any]) -> RenderableType:
    """Draw the output of `planner explain --json`."""
    return Group(*(Text(plain(line)) for line in lines_of(explained)))


def lines_of(explained: dict[str, Any]) -> list[str]:
    """Return the output of `planner explain --json` as lines; texts may come from outside."""
    head = f"{explained['plan_id']}  {explained['state']}  revision {explained['revision']}"
    remarks = Remarks.of(explained)
    paused = [f"paused: {each}" for each in remarks.pauses]
    delivered = [f"{name.replace('_', ' ')}: {explained[name]}" for name in DELIVERED if explained.get(name)]
    doubt = [remarks.doubt] if remarks.doubt else []
    learned = memory_lines(MemoryView.model_validate(explained["memory"]) if explained["memory"] else None)
    known = [*_halt(explained["halt"]), *delivered, *learned]
    return [head, *doubt, *paused, *known, *remarks.warnings, *_steps(explained)]


def _halt(halt: dict[str, Any] | None) -> Iterator[str]:
    if halt is None:
        return
    evidence = halt["evidence"]
    yield f"rule {halt['rule']} (policy version {evidence['policy_version']}): {halt['reason']}"
    if "value" in evidence:
        limit = "none" if evidence["limit"] is None else evidence["limit"]
        yield f"  value {evidence['value']}, limit {limit}"
    for error in evidence.get("errors", ()):
        yield f"  {error['pointer'] or '/'}  {error['message']} ({error['code']})"
    for each in evidence.get("spent_by", ()):
        yield f"  {each['step_id']} attempt {each['attempt']}: {each['used']} {evidence['limit_name']}"
    for event in evidence["events"]:
        if "category" in event:
            what = f"{event['step_id']} attempt {event['attempt']}: {event['category']}"
        else:
            actor = f"by {event['actor']}" if "actor" in event else ""
            what = " ".join(filter(None, (event["what"], event.get("step_id"), actor)))
        yield f"  {event['at']}  {what}"
    for back in evidence.get("released", ()):
        who = back["controller"] or "a controller that had not claimed it"
        yield f"  {back['at']}  {back['step_id']} attempt {back['attempt']} was handed back by {who}: {back['reason']}"
    if evidence["unblock"]:
        yield f"  to go on: {evidence['unblock']}"


def _steps(explained: dict[str, Any]) -> Iterator[str]:
    for step in explained["steps"]:
        state = shown_state(explained["state"], step["state"], was_tried=bool(step["attempts"]))
        before = f", inserted before the next attempt of {step['inserted_by']}" if step["inserted_by"] else ""
        doubt = "" if step["verified"] is not False else f", {UNVERIFIED}"
        yield f"{step['step_id']}  {state}{before}{doubt}"
        for attempt in step["attempts"]:
            why = ": ".join(str(attempt[name]) for name in ("category", "reason") if attempt[name])
            yield f"  {attempt['at']}  attempt {attempt['attempt']}  {attempt['result']}  {why}".rstrip()
            if kept := attempt.get("transcript"):
                yield f"    kept at {':'.join(filter(None, (kept['host'], kept['path'])))}"
            if reported := attempt.get("instructions"):
                yield f"    {draw_instructions(reported)}"
            for revised in filter(None, (attempt.get("revision"), attempt.get("revised_later"))):
                changed = ", ".join(revised["diff"])
                yield f"    revision {revised['revision']}: {revised['rule']} (changed: {changed})"
                if revised["rule"] == DROPPED:
                    was, left = revised["diff"]["quick_checks"]
                    names = ", ".join(name for name in was if name not in left)
                    yield f"    {names} was red before the plan, and is not run any more"


def draw_instructions(reported: Mapping[str, Any]) -> str:
    """Return the repository's instructions of an agent with their digests, or the reason why it received none."""
    given = ", ".join(f"{path} {digest}" for path, digest in reported.get("given", {}).items())
    return f"instructions: {reported.get('left_out') or given}"


def counted(evidence: Mapping[str, Any]) -> str:
    """Return the value that ended a plan, with its limit, in words; empty if a single event ended it."""
    value, limit, name = evidence.get("value"), evidence.get("limit"), evidence.get("limit_name")
    if value is None or name in HAPPENED:
        return ""
    if name == "until":
        return f"at {value}, it waited until {limit}"
    what = COUNTED.get(str(name), str(name or "").replace("_", " "))
    said = f"{_figure(value)} {what}".rstrip()
    return said if limit is None else f"{said}, the limit is {_figure(limit)}"


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def explained_halt(view: PlanView) -> dict[str, Any] | None:
    """Return the reason of a plan's halt, as JSON."""
    if view.halt is None:
        return None
    return view.halt.model_dump(mode="json")


def explanation(view: PlanView, attempts: dict[str, list[dict[str, Any]]], only: str | None) -> dict[str, Any]:
    """Return the explanation of a plan's end and steps as JSON, with `only` for one step. Pure."""
    steps = [
        {
            "step_id": step.step_id,
            "state": step.state,
            "inserted_by": step.inserted_by,
            "verified": step.verified,
            "attempts": attempts.get(step.step_id, []),
        }
        for step in view.steps
        if only in (None, step.step_id)
    ]
    return {
        "plan_id": view.plan_id,
        "goal_id": view.goal_id,
        "state": view.state.value,
        "revision": view.revision,
        **Remarks.of(view).model_dump(mode="json"),
        "criteria": [each.model_dump(mode="json") for each in view.criteria],
        "halt": explained_halt(view),
        "memory": view.memory.model_dump(mode="json") if view.memory else None,
        "branch": view.branch,
        "pull_request": view.pull_request,
        "undelivered": view.undelivered,
        "steps": steps,
    }
