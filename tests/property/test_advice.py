"""A plan whose limit is raised as the advice says does not halt for the same reason at the same place."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, assume
from hypothesis import strategies as st

from schemas.step import PlannedStep
from tests.support.any_plan import LIMITS, METRICS, SAID, drafts
from tests.support.examples import few_and_many
from tests.support.plans import Running
from tests.support.replay import run

ADVISED = re.compile(r"limits\.(\w+) from \d+ to at least (\d+)")
RETRY = re.compile(r"give ([\w-]+) a retry_limit of (\d) ")
DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 3), SAID, METRICS),
        st.tuples(st.just("wait"), st.sampled_from([1, 2000, 60_000])),
    ),
    min_size=4,
    max_size=30,
)


def retried(steps: list[PlannedStep], advice: str) -> list[PlannedStep]:
    """The steps with the retries that the advice allows them."""
    more = {step: int(most) for step, most in RETRY.findall(advice)}
    return [step.model_copy(update={"retry_limit": more.get(step.step_id, step.retry_limit)}) for step in steps]


@few_and_many(25, 100, drafts(), LIMITS, DOINGS, suppress_health_check=[HealthCheck.filter_too_much])
def advised_limits(steps: list[PlannedStep], limits: dict[str, Any], doings: list[Any]) -> None:
    plan = Running(*steps, **limits)
    until = 0
    while plan.state != "HALTED" and until < len(doings):
        run(plan, doings[until : until + 1])
        until += 1
    assume(plan.state == "HALTED")
    advice = plan.halt["evidence"]["unblock"]
    raised = {name: int(value) for name, value in ADVISED.findall(advice)}
    assume(raised)

    again = Running(*retried(steps, advice), **{**limits, **raised})
    for doing in doings[:until]:
        run(again, [doing])

    same = again.state == "HALTED" and again.halt["evidence"]["limit_name"] == plan.halt["evidence"]["limit_name"]
    assert not same, advice


(
    test_a_plan_with_the_limit_that_is_advised_passes_the_place_where_it_halted,
    test_advised_limits_at_length,
) = advised_limits
