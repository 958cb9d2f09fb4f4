"""`planner explain`: why a plan was rejected, revised or halted, and what would let it go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import MISSING, Failure, Json, command, linked, say, say_json
from worker.cli.plan_argument import Which, find

if TYPE_CHECKING:
    from rich.console import RenderableType

    from schemas.plan import PlanView

Step = Annotated[str | None, typer.Argument(metavar="[STEP]", help="Only this step.")]


@command
def explain(plan: Which, step: Step = None, as_json: Json = False) -> None:
    """Explain a plan: the rule that ended it, the values that met its limit, and what happened to each step.

    [b]planner explain ci-4711[/b]

    [b]planner explain 3c-0199 fix-test-001[/b]

    [b]planner explain ci-4711 --json | jq .halt.evidence.unblock[/b]
    """
    from worker.store.history import story
    from worker.store.keys import Partition, partition_of

    with linked() as link:
        view = find(link, plan)
        home = Partition(partition_of(view.plan_id, link.partitions))
        attempts = story(link.client, home.plan(view.plan_id))
    if step and step not in {each.step_id for each in view.steps}:
        raise Failure.of("no_such_step", f"{view.plan_id} has no step {step!r}.", MISSING)
    explained = explanation(view, attempts, step)
    say_json(explained) if as_json else say(drawn(explained))


def explanation(view: PlanView, attempts: dict[str, list[dict[str, Any]]], only: str | None) -> dict[str, Any]:
    """Put together what is known of a plan's end and of its steps, or of one of them. Pure."""
    from tasks.policy.halt import UNBLOCK

    halt = view.halt.model_dump(mode="json") if view.halt else None
    if halt:  # plans that ended before halts were explained lack these, and were of the first version
        known = {"policy_version": 1, "events": [], "unblock": UNBLOCK.get(halt["rule"], "")}
        halt["evidence"] = {**known, **halt["evidence"]}
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
        "paused_by": view.paused_by,
        "halt": halt,
        "steps": steps,
    }


def drawn(explained: dict[str, Any]) -> RenderableType:
    """Draw an explanation for people."""
    from rich.console import Group
    from rich.text import Text

    from worker.cli.render.plan import plain

    head = f"{explained['plan_id']}  {explained['state']}  revision {explained['revision']}"
    paused = [f"paused: {explained['paused_by']}"] if explained["paused_by"] else []
    lines = [head, *paused, *_halt(explained["halt"]), *_steps(explained["steps"])]
    return Group(*(Text(plain(line)) for line in lines))


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
    for event in evidence["events"]:
        yield f"  {event['at']}  {_told(event)}"
    if evidence["unblock"]:
        yield f"  to go on: {evidence['unblock']}"


def _told(event: dict[str, Any]) -> str:
    if "category" in event:
        return f"{event['step_id']} attempt {event['attempt']}: {event['category']}"
    actor = f"by {event['actor']}" if "actor" in event else ""
    return " ".join(filter(None, (event["what"], event.get("step_id"), actor)))


def _steps(steps: list[dict[str, Any]]) -> Iterator[str]:
    from worker.cli.render.plan import UNVERIFIED

    for step in steps:
        before = f", inserted before the next attempt of {step['inserted_by']}" if step["inserted_by"] else ""
        doubt = "" if step["verified"] is not False else f", {UNVERIFIED}"
        yield f"{step['step_id']}  {step['state']}{before}{doubt}"
        for attempt in step["attempts"]:
            why = ": ".join(str(attempt[name]) for name in ("category", "reason") if attempt[name])
            yield f"  {attempt['at']}  attempt {attempt['attempt']}  {attempt['result']}  {why}".rstrip()
            if revised := attempt.get("revision"):
                changed = ", ".join(revised["diff"])
                yield f"    revision {revised['revision']}: {revised['rule']} (changed: {changed})"
