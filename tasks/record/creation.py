"""Creates a recorded plan again from the stored parts of its goal: it decides the commits of the creation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas import codec
from schemas.contract import streams
from schemas.envelope import FieldError
from schemas.goal import Goal, Limits
from schemas.step import PlannedStep
from schemas.stored import LogHead
from schemas.stored.step import complete
from tasks.base.errors import PlannerError
from tasks.base.policy import BUILT_IN, Policy
from tasks.base.policy_text import WrongPolicy, digest_of, read_policy
from tasks.handlers import goals
from tasks.plan.changeset import Changeset
from tasks.policy.pipeline import RECALLS
from tasks.policy.plan_seed import PlanSeed
from tasks.record.lines import Line, read_line
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.surroundings import claims_of, grants_of, paused_queues_of, standing_of
from tasks.rules.judging import base_judges, find_last
from tasks.rules.strategy import Draft, Question, Rejected


class CannotReplay(PlannerError):
    """The decisions in the log of this plan cannot be repeated."""


def create(
    recorded: RecordedPlan, first: Line, policy: Policy = BUILT_IN, before: LogHead | None = None
) -> list[Changeset]:
    """Return the commits of a plan's creation under `policy`.

    `before` is the head of the log so far, if the plan waited for a drafter. Raises CannotReplay if the line lacks data
    that the creation read.
    """
    if "born" not in first:
        raise CannotReplay("its first line does not have the values that its creation read (`born`)")
    changes = list(_from_birth(recorded, first, policy, before))
    for change in changes:
        if "left_out" in change.fields:  # the parts that were left out cannot be left out again
            change.fields["left_out"] = recorded.plan.get("left_out", "").encode()
    return changes


def _from_birth(recorded: RecordedPlan, line: Line, policy: Policy, before: LogHead | None) -> Iterator[Changeset]:
    born, plan = line["born"], recorded.plan
    goal = Goal.model_validate(plan["goal"])
    seed = replace(_seed(recorded, line, before), policy=policy)
    if "patience_ms" in born:
        yield goals.await_draft(seed, goal, born["patience_ms"])
    elif not {"steps", "question"} & born.keys():
        halt = plan["halt"]
        errors = tuple(FieldError.model_validate(error) for error in halt["evidence"]["errors"])
        told = Rejected(halt["reason"], errors, tokens=born.get("tokens", 0), read=born.get("read", {}))
        yield goals.refuse(seed, goal, told)
    else:
        specs = {step["step_id"]: step["spec"] for step in recorded.steps}
        steps = () if "question" in born else tuple(planned_steps(specs, recorded.lines))
        yield from _accept(recorded, seed, goal, steps, born)


def _accept(
    recorded: RecordedPlan, seed: PlanSeed, goal: Goal, planned: tuple[PlannedStep, ...], born: Mapping[str, Any]
) -> Iterator[Changeset]:
    plan, head, strategy_state = recorded.plan, recorded.plan["head"], born.get("strategy_state", {})
    if any(step.goal_texts for step in planned):  # the texts are stored only for steps that get them
        goal = goal.model_copy(update={"context": goal.context.model_copy(update={"failure_log": "not kept"})})
    if base_judges(goal) and find_last(planned) and not any(step.judged_by for step in planned):
        goal = goal.model_copy(update={"steps": ()})  # it brought its own steps, which are not stored
    counted, seen = born.get("counted", (None, 0))
    asked = born.get("question")
    draft = Draft(
        planned,
        document=strategy_state.get("document") if strategy_state else plan.get("document"),
        goal=goal,
        tools=tuple(head["tools"]),
        streak=head["streak"],
        state=strategy_state.get("state"),
        question=Question(asked[0], tuple(asked[1]), asked[2]) if asked else None,
        counted=counted,
        seen=seen,
        tokens=born.get("tokens", 0),
        read=born.get("read", {}),
        cache=tuple(born["cache"]) if "cache" in born else None,
        forbidden=tuple(head.get("forbidden", ())),
    )
    yield from goals.accept(seed, goal, draft)


def _seed(recorded: RecordedPlan, line: Line, before: LogHead | None) -> PlanSeed:
    """Return the plan's identity and the state around it (budgets, pauses, claims) at its creation."""
    head, born = recorded.plan["head"], line["born"]
    _, lease_prefix = places_of(recorded)
    return PlanSeed(
        plan_id=recorded.plan_id,
        goal_id=head["goal_id"],
        now=line["now"],
        seed=recorded.seed or "",
        reply_to=born["reply_to"],
        lease_prefix=lease_prefix,
        version=line["version"] - 1,
        down=born.get("down", 0),
        created=born["created"],
        policy_version=born["policy_version"],
        switches={name: value for name, value in head["limits"].items() if name not in Limits.model_fields},
        grants=grants_of(line),
        standing=standing_of(line),
        paused_queues=paused_queues_of(line),
        full=frozenset(line.get("full", ())),
        traceparent=head.get("traceparent"),
        log_head=before,
        code=line.get("by", before.by if before else ""),
        recalled={recall.name: born[recall.name] for recall in RECALLS if recall.name in born},
        claims=claims_of(line),
        learned=head.get("learned", {}),
    )


def policy_of(recorded: RecordedPlan) -> Policy:
    """Return the policy of a plan's creation. Raises CannotReplay if the export does not have its text."""
    digest = recorded.plan["head"].get("policy")
    if not digest:
        return BUILT_IN
    text = (recorded.policy or "").encode()
    if digest_of(text) != digest:
        raise CannotReplay(f"it was made under the policy {digest}, and the export does not have the text of that")
    try:
        return read_policy(text)
    except WrongPolicy as error:
        raise CannotReplay(f"this release cannot read the policy {digest} that it was made under: {error}") from error


def places_of(recorded: RecordedPlan) -> tuple[str, str]:
    """Return the name of the outcome stream in the plan's step specs, and the prefix of its lease keys."""
    outcomes = streams.OUTCOMES.format(partition=f"{{{recorded.partition}}}")
    return outcomes, outcomes.removesuffix("outcomes") + f"lease:{recorded.plan_id}:"


def planned_steps(stored: Mapping[str, Mapping[str, Any]], lines: Sequence[bytes]) -> Iterator[PlannedStep]:
    """Yield the steps as they were at the plan's creation, without later steps and revisions.

    `stored` contains the present steps by their ids, and `lines` the lines of the plan's log.
    """
    specs = {name: dict(spec) for name, spec in stored.items()}
    for line in map(read_line, reversed(lines)):
        for revision in line.get("revisions", ()):
            diff = revision["diff"]
            for step in (*diff.get("added", ()), *([diff["inserted"]] if "inserted" in diff else ())):
                specs.pop(step, None)
        specs |= {step: complete(was) for step, was in line.get("was", {}).items()}
    for spec in specs.values():
        yield PlannedStep.model_validate_json(codec.dumps(spec))
