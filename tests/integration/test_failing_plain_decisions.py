"""A plain decision that fails is one plan's misfortune: that plan is read anew, and the others of its batch go on."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from tasks.plan.hot_plan import HotPlan
from tasks.policy import plain_success
from tests.support.engine import ORDINARY, a_goal, calls_of, drain, plan
from tests.support.messages import answer, report, specs
from tests.support.plain import check_part, held_on
from tests.support.stored import P0, state, stats, waiting
from worker.process.container import Container

UNREADABLE = b'["s-1","s-0"]'  # which is the text of a step of an unknown form


def damage(here: Container, redis: Redis, plan_id: str, step_id: str) -> None:
    """Overwrite a step of a plan with what is no step, on the server and in the worker's copy."""
    redis.hset(P0.plan(plan_id).steps, step_id, UNREADABLE)
    hot = here.context(0).store.hot
    if copy := hot.lend(plan_id):
        copy.steps[step_id].spec = UNREADABLE
        copy.steps[step_id].card = None
        hot.keep(copy)


@pytest.mark.parametrize("rounds_before", [0, 1], ids=["read for this", "known here"])
@pytest.mark.parametrize("place", [0, 1], ids=["the step that ends", "the step that starts"])
def test_a_step_that_cannot_be_read_keeps_no_other_plan_waiting(
    here: Container, redis: Redis, caplog: pytest.LogCaptureFixture, place: int, rounds_before: int
) -> None:
    made = plan(here, redis, *[a_goal(4, goal_id=f"g-{number}") for number in range(4)])
    for _ in range(rounds_before):
        calls_of(redis, here, *[answer(spec) for spec in specs(redis)])
    damage(here, redis, made[0], f"s-{rounds_before + place}")

    for spec in specs(redis):
        report(redis, answer(spec))
    drain(here)
    while told := [spec for spec in specs(redis) if spec["plan_id"] != made[0]]:
        for spec in told:
            report(redis, answer(spec))
        drain(here)

    assert [state(redis, plan_id) for plan_id in made[1:]] == ["COMPLETED"] * 3
    assert stats(redis)["applied"] == 3 * 4 + rounds_before
    assert waiting(redis) == (1, 1)  # the one that nobody can decide about
    failures = [(said.message, vars(said)["plan_id"]) for said in caplog.records if said.levelname == "ERROR"]
    assert {*failures} == {("plain decision failed", made[0]), ("decision failed", made[0])}
    assert redis.hget(P0.plan(made[0]).plan, "lock") == b""


@pytest.mark.parametrize("rounds_before", [0, 1], ids=["read for this", "known here"])
def test_what_a_failing_plain_decision_left_half_done_is_decided_anew_and_applied_once(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch, rounds_before: int
) -> None:
    chains = 4
    steps = [
        {
            "step_id": f"s-{n}",
            "title": "t",
            "intent": "i",
            "allowed_files": [f"src/f{n}.py"],
            "depends_on": [f"s-{n - chains}"] if n >= chains else [],
        }
        for n in range(16)
    ]
    goals = [
        {**a_goal(16, goal_id=f"g-{number}"), "steps": steps, "limits": {"max_parallel": chains}} for number in range(3)
    ]
    made = plan(here, redis, *goals)
    for _ in range(rounds_before):
        calls_of(redis, here, *[answer(spec) for spec in specs(redis)])
    decide, asked = plain_success.decide, []

    def fail(plan: HotPlan, *rest: Any) -> Any:
        change = decide(plan, *rest)
        if plan.plan_id == made[1]:
            asked.append(change)
            if len(asked) == 3:
                raise ValueError("behind what it has changed")
        return change

    monkeypatch.setattr(plain_success, "decide", fail)
    calls = calls_of(redis, here, *[answer(spec) for spec in specs(redis)])

    assert None not in asked
    assert calls[ORDINARY] == 2  # what gives the lock back, and the general decision
    assert stats(redis)["applied"] == len(made) * chains * (rounds_before + 1)
    kept = here.context(0).store.hot.lend(made[1])
    assert kept
    check_part(kept, held_on(redis, P0, made[1]))
    while told := specs(redis):
        calls_of(redis, here, *[answer(spec) for spec in told])
    assert {state(redis, plan_id) for plan_id in made} == {"COMPLETED"}
    assert stats(redis)["applied"] == len(made) * len(steps)
    assert not {"late", "duplicate", "refused"} & stats(redis).keys()
    assert waiting(redis) == (0, 0)
