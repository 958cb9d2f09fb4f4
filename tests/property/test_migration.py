"""Whatever a plan of an older version went through: with nothing in flight it is migrated, and its log is enough."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from schemas.step import PlannedStep
from tasks.base.policy_version import POLICY_VERSION
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.support.any_plan import APPROVALS, DAY_TOKENS, DOINGS, LIMITS, MOST_STEPS, SAID, drafts
from tests.support.commands import an_order
from tests.support.examples import few_and_many
from tests.support.plans import PLAN, Running, a_report
from tests.support.replay import export_of, fold_again, run
from tests.support.surroundings import clear, surrounded

MOST_TURNS = 10 * MOST_STEPS


def bring_down(plan: Running, said: dict[str, Any]) -> None:
    """Pause a plan until nothing of it is in flight: all say the same, and nothing more starts."""
    if plan.state not in PLAN_ENDS:
        plan.obey(an_order("pause", order_id="stop"))
    plan.report(*[a_report(step, one.attempt, one.lease, **said) for step, one in plan.active.items()])
    assert not plan.active


def bring_to_its_end(plan: Running) -> None:
    """Let everything go on, approve what asks, and have all attempts succeed."""
    clear(plan)
    for number in range(MOST_TURNS):
        if plan.state in PLAN_ENDS:
            return
        if plan.record.paused:
            plan.obey(an_order("resume", order_id=f"on-{number}"))
        for step in plan.record.waits:
            plan.obey(an_order("approve", step, order_id=f"yes-{number}-{step}"))
        plan.rest()
        live = plan.active.items()
        plan.report(*[a_report(step, None, one.lease, diff_hash=f"last {number}") for step, one in live])
    raise AssertionError(plan.state)


VERSIONS = st.lists(st.integers(1, POLICY_VERSION), min_size=2, max_size=3, unique=True).map(sorted)


@few_and_many(40, 500, drafts(), LIMITS, APPROVALS, DAY_TOKENS, DOINGS, SAID, DOINGS, VERSIONS)
def a_migrated_plan(
    steps: list[PlannedStep],
    limits: dict[str, Any],
    approvals: tuple[str, ...],
    day_tokens: int | None,
    before: list[Any],
    said: dict[str, Any],
    after: list[Any],
    versions: list[int],
) -> None:
    first, *later = versions
    made = {"approvals": approvals, "day_tokens": day_tokens, "policy_version": first, **limits}
    plan = surrounded(*steps, **made)
    run(plan, before)
    bring_down(plan, said)
    for version in later:
        is_over = plan.state in PLAN_ENDS
        plan.obey(an_order("migrate", None, {"policy_version": version}, order_id=f"to-{version}"))
        assert plan.record.head.policy_version == (first if is_over else version)
    run(plan, after)
    bring_to_its_end(plan)

    fold_again(plan, surrounded(*steps, **made))
    found = replay(RecordedPlan.read(export_of(plan.store.held(PLAN))))
    assert (found.result, found.parts, found.why) == (Result.EQUAL, (), "")


(
    test_an_older_plan_is_migrated_whenever_nothing_is_in_flight_and_its_log_is_enough,
    test_migrated_plans_at_length,
) = a_migrated_plan
