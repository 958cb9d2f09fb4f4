"""The stored goal of a plan, which can be used for another plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.base import GoalKind, StepState, StepType
from schemas.stored import StepStatus
from schemas.stored.step import TEXTS, read_texts, unpack_step
from tasks.base.batches import batches
from tasks.base.errors import PlannerError
from tasks.features import goal_texts
from tasks.plan.snapshot import NOTE
from tasks.record.creation import planned_steps
from tasks.strategies.task.supplied import supply
from worker.store import history
from worker.store.keys import Partition, PlanKeys, partition_of

PAGE = 500
STEPS = "/steps"  # of a goal, as a pointer


class KeptGoal(NamedTuple):
    """The stored goal of a plan as JSON; `left_out` are pointers to missing parts."""

    body: dict[str, Any]
    left_out: tuple[str, ...]


class NoRest(PlannerError):
    """A plan cannot be repeated from the given step on; `code` names the reason."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def read(client: Redis, partitions: int, plan_id: str) -> KeptGoal:
    """Return the stored goal of a plan, with the steps that the goal brought, in their original form.

    The goal contains its long texts, such as logs.
    """
    k = Partition(partition_of(plan_id, partitions)).plan(plan_id)
    pipeline = client.pipeline(transaction=False)
    pipeline.hmget(k.plan, "goal", "left_out")
    pipeline.hget(k.steps, NOTE + goal_texts.NOTE)
    (raw, noted), texts = pipeline.execute()
    body: dict[str, Any] = codec.loads(raw or b"{}")
    if texts:
        body["context"] = {**body.get("context", {}), **codec.loads(texts)}
    left_out = tuple((noted or b"").decode().split())
    if STEPS in left_out and (brought := _planned_steps(client, k)):
        return KeptGoal({**body, "steps": brought}, tuple(each for each in left_out if each != STEPS))
    return KeptGoal(body, left_out)


MADE = frozenset({StepType.LAND, StepType.DELIVER})  # steps that a goal does not bring along


def read_rest(client: Redis, partitions: int, plan_id: str, step_id: str) -> KeptGoal:
    """Return a goal that keeps everything before a step, and does that step and the rest again. Raises NoRest.

    Its steps are the plan's original steps, without those that were done before. It begins with the last commit that
    landed before the step, if there is one.
    """
    k = Partition(partition_of(plan_id, partitions)).plan(plan_id)
    body, left_out = read(client, partitions, plan_id)
    if body.get("kind", GoalKind.TASK) != GoalKind.TASK:
        raise NoRest("plan_unfolds", f"The steps of {plan_id} follow from each other: retry the whole plan.")
    steps = _planned_steps(client, k)
    if step_id not in {step["step_id"] for step in steps}:
        raise NoRest("no_such_step", f"{plan_id} has no planned step {step_id[:64]!r} that is still known.")
    before, landed = _done_before(client, k, step_id)
    rest = [step for step in steps if step["step_id"] not in before and step.get("type") not in MADE]
    names = {step["step_id"] for step in rest}
    steps = [_depending_on(step, names) for step in rest]
    beginning = {"from": {"plan_id": plan_id, "step_id": landed}} if landed else {}
    missing = tuple(each for each in left_out if each != STEPS)
    return KeptGoal({**body, "steps": steps, **beginning}, missing)


def _depending_on(step: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    kept = [name for name in step.get("depends_on", ()) if name in names]
    return {**{name: value for name, value in step.items() if name != "depends_on"}, "depends_on": kept}


def _done_before(client: Redis, k: PlanKeys, step_id: str) -> tuple[frozenset[str], str | None]:
    """Return the steps that were done before `step_id` was, and the last of these steps that landed a commit."""
    done: list[str] = []
    landed = None
    for line in history.read_log(client, k):
        ended = [step for step, _, after in line["moves"] if step and after == StepState.DONE]
        if step_id in ended:
            break
        done += ended
        commits = (said[2]["step_id"] for what, *said in line["in"] if what == "outcome" and said[2].get("commit"))
        landed = next((step for step in commits if step in ended), landed)
    return frozenset(done), landed


def _planned_steps(client: Redis, k: PlanKeys) -> list[dict[str, Any]]:
    """Return the original steps of a plan; empty if they are no longer complete."""
    states: Any = client.hgetall(k.status)
    ids = sorted(states, key=lambda step: StepStatus.decode(states[step]).index)
    specs: dict[str, dict[str, Any]] = {}
    for names in batches(ids, PAGE):
        found: Any = client.hmget(k.steps, [TEXTS, *names])
        texts = read_texts(found[0])
        specs |= {name.decode(): unpack_step(raw, texts) for name, raw in zip(names, found[1:], strict=True) if raw}
    if len(specs) < len(ids):
        return []
    return [supply(step) for step in planned_steps(specs, list(history.read_lines(client, k)))]
