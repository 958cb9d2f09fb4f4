"""The creation of a recorded plan, decided again: the commits that made it, from what was written down of its goal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas import codec
from schemas.contract import streams
from schemas.goal import Goal
from schemas.step import PlannedStep, pack_step
from tasks.base.errors import PlannerError
from tasks.base.policy import BUILT_IN, Policy
from tasks.handlers import goals
from tasks.handlers.goals import PlanSeed
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Grant
from tasks.record.lines import Line, read_line
from tasks.record.recorded_plan import RecordedPlan
from tasks.rules import budget
from tasks.rules.strategy import Draft

PLENTY = Grant(10**15)  # of a day budget that kept nothing back


class CannotReplay(PlannerError):
    """The log of this plan cannot be decided again."""


def create(recorded: RecordedPlan, first: Line, policy: Policy = BUILT_IN) -> tuple[list[Changeset], list[str]]:
    """Make the commits of a plan's creation under `policy`; returns them, and in sentences what of them is assumed.

    Raises CannotReplay where what was written down is not enough.
    """
    return list(_from_steps(recorded, first, policy)), [
        "The first line does not say what the creation read (it is from before `born`): the plan is begun with the "
        "steps that the export has, as its rules take them."
    ]


def _from_steps(recorded: RecordedPlan, first: Line, policy: Policy) -> Iterator[Changeset]:
    plan, head, live = recorded.plan, recorded.plan["head"], recorded.plan["live"]
    if "growth" in plan or not recorded.steps or first["version"] > 1:
        raise CannotReplay(
            "its first line does not say what its creation read (it is from before `born`), and a plan that a "
            "drafter made, that was rejected, or of this kind cannot be begun without that"
        )
    goal = Goal.model_validate(plan["goal"])
    planned = tuple(_planned(recorded))
    if "/steps" in plan.get("left_out", "").split():  # limits grow with the steps that a goal brings along
        goal = goal.model_copy(update={"steps": planned})
    draft = Draft(
        planned,
        document=plan.get("document"),
        goal=goal,
        tools=tuple(head["tools"]),
        streak=head["streak"],
    )
    reply_to, lease_prefix = places_of(recorded)
    outages = sum(said[1] for line in recorded.read_lines() for said in line["in"] if said[0] == "outage")
    seed = PlanSeed(
        plan_id=recorded.plan_id,
        goal_id=head["goal_id"],
        now=first["now"],
        seed=recorded.seed or "",
        reply_to=reply_to,
        lease_prefix=lease_prefix,
        version=first["version"] - 1,
        down=live["times"]["down"] - outages,
        created=live["times"]["created"],
        policy_version=head["policy_version"],
        requires_receipts=budget.RECEIPTS in head["limits"],
        delivery_wait_s=head["limits"].get(budget.DELIVERY_WAIT_S, 0),
        grants=_grants(plan.get("quota", ""), first),
        full=frozenset(first.get("full", ())),
        code=first.get("by", ""),
        traceparent=head.get("traceparent"),
        policy=policy,
    )
    specs = {step.step_id: pack_step(step) for step in planned}
    for change in goals.accept(seed, goal, draft):
        # Which steps are given texts of the goal hangs on texts that nobody kept.
        change.specs.update({step: specs[step] for step in change.specs.keys() & specs.keys()})
        if "left_out" in change.fields:
            change.fields["left_out"] = plan.get("left_out", "").encode()
        yield change


def places_of(recorded: RecordedPlan) -> tuple[str, str]:
    """Name the stream that the specs of a plan name, and what the keys of their leases begin with."""
    outcomes = streams.OUTCOMES.format(partition=f"{{{recorded.partition}}}")
    return outcomes, outcomes.removesuffix("outcomes") + f"lease:{recorded.plan_id}:"


def _grants(quota: str, first: Line) -> dict[str, Grant]:
    """Say what the day budgets had left: it stands in the line where it made a difference."""
    told: dict[str, Any] = next((said[1] for said in first["in"] if said[0] == "grants"), {})
    return {scope: Grant(*told[scope]) if scope in told else PLENTY for scope in quota.splitlines()}


def _planned(recorded: RecordedPlan) -> Iterator[PlannedStep]:
    """Yield the steps as they were at creation: without those that came later, each as it was before it was rewritten.

    Raises CannotReplay where a line changed steps and does not say what they were.
    """
    specs = {step["step_id"]: dict(step["spec"]) for step in recorded.steps}
    for line in map(read_line, reversed(recorded.lines)):
        if any(said[0] == "command" and said[1]["command"] == "tighten" for said in line["in"]) and "was" not in line:
            raise CannotReplay(f"line {line['version']} tightened steps, and does not say what they were before")
        for revision in reversed(line.get("revisions", ())):
            diff = revision["diff"]
            for step in (*diff.get("added", ()), *([diff["inserted"]] if "inserted" in diff else ())):
                specs.pop(step, None)
            if "step_id" in revision and "was" not in line:
                changed = {name: pair[0] for name, pair in diff.items() if name != "inserted"}
                specs[revision["step_id"]].update(changed)
        specs |= line.get("was", {})
    for spec in specs.values():
        yield PlannedStep.model_validate_json(codec.dumps(spec))
