"""What must hold of a stored plan, on plans that are hard to bring about with a server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.memory_store import EPOCH_MS
from tests.support.plans import PARTITION, PLAN
from worker.doctor import plans, rounds
from worker.doctor.finding import Site
from worker.doctor.stored import Flight, Log, StepRow, Stored

DEPENDENTS = {("a", 0): ["b", "c"], ("a", 1): ["d"]}


def a_row(state: str, unmet: int = 0) -> StepRow:
    return StepRow(unmet, state, 0, 0, "")


def stored(steps: dict[str, StepRow], moved: dict[str, str] | None = None, **said: Any) -> Stored:
    """A plan with these steps whose counters are right and whose timer runs."""
    live = {"counts": Counter(row.state for row in steps.values()), "reserved": {}, "wake": 1}
    log = Log({**{name: row.state for name, row in steps.items()}, "": "EXECUTING", **(moved or {})})
    return Stored(PLAN, PARTITION, 9, "EXECUTING", live, steps, timer=1, log=log, **said)


def checks(plan: Stored) -> list[str]:
    return [finding.check for finding in plans.examine(plan, now=5, retention_s=100)]


def test_an_end_that_is_still_carried_to_dependents_counts_as_not_told() -> None:
    steps = {"a": a_row("DONE"), "b": a_row("PENDING"), "c": a_row("PENDING"), "d": a_row("BLOCKED", 1)}
    halfway = stored(steps, windows=DEPENDENTS, ready={"b", "c"}, todo=[("a", 1)])

    assert checks(halfway) == []
    halfway.todo = []
    assert checks(halfway) == ["plan.unmet"]


def test_nothing_of_an_end_was_told_where_its_first_window_is_left_over() -> None:
    steps = {"a": a_row("DONE"), **{name: a_row("BLOCKED", 1) for name in "bcd"}}

    assert checks(stored(steps, windows=DEPENDENTS, todo=[("a", 0)])) == []


def test_a_step_that_waits_for_its_preparation_is_no_lost_step() -> None:
    steps = {"a": a_row("ACTIVE", 1), "a-check": a_row("PENDING")}
    waits = stored(steps, windows={("a-check", 0): ["a"]}, ready={"a-check"})

    assert checks(waits) == []
    waits.ready.add("a")
    assert checks(waits) == ["plan.ready"]


def test_an_active_step_that_waits_for_nothing_is_put_back_and_looked_at() -> None:
    (found,) = plans.examine(stored({"a": a_row("ACTIVE")}), now=5, retention_s=100)

    assert found.check == "plan.ready"
    assert found.repair is not None
    assert found.repair.commands == (
        ("ZADD", PARTITION.plan(PLAN).ready, 0, "a"),
        ("ZADD", PARTITION.timers, 5, PLAN),
    )
    assert (found.repair.fence, found.repair.version) == (PARTITION.plan(PLAN).plan, 9)


@pytest.mark.parametrize("waits", [{"backoffs": {"a": 7}}, {"holds": ["a"]}, {"anything_new": {"a": {}}}])
def test_a_step_that_waits_by_whatever_name_is_no_lost_step(waits: dict[str, Any]) -> None:
    plan = stored({"a": a_row("ACTIVE")})
    plan.live.update(waits)

    assert checks(plan) == []


def test_a_step_called_like_a_counter_does_not_wait_for_that() -> None:
    plan = stored({"tokens": a_row("PENDING")})
    plan.live["spent"] = {"tokens": 1}

    assert checks(plan) == ["plan.ready"]


def test_what_an_ended_plan_left_undone_is_no_finding() -> None:
    plan = stored({"a": a_row("PENDING"), "b": a_row("BLOCKED", 1)}, {"": "HALTED"}, ttls={"x": 10})
    plan.state, plan.timer = "HALTED", None

    assert checks(plan) == []


def test_an_ended_plan_holds_no_attempt() -> None:
    flight = Flight("1-1", 1, "lease", "default", 0, 0)
    plan = stored({"a": StepRow(0, "HALTED", 0, 1, "")}, {"": "HALTED"}, active={"a": flight})
    plan.state, plan.leases, plan.queued = "HALTED", {"a": ("1", "lease")}, {"a"}

    assert checks(plan) == ["plan.attempt"]


def test_a_log_that_contradicts_itself_is_told() -> None:
    log = Log()
    log.follow({"version": 2, "moves": [["a", "PENDING", "ACTIVE"]]})
    log.follow({"version": 2, "moves": [["a", "PENDING", "DONE"]]})

    assert log.breaks == ["version 2 comes after 2", "a goes on from PENDING after ACTIVE"]


def test_a_plan_that_asks_before_it_is_made_has_to_be_looked_at_some_time() -> None:
    plan = stored({})
    plan.state, plan.timer = "CREATED", None
    assert checks(plan) == []  # it is still being created

    plan.live["question"] = {"kind": "clarify", "questions": [], "until": 7}

    assert checks(plan) == ["plan.timer"]


class Clock:
    """A server that is only asked for the time."""

    def time(self) -> tuple[int, int]:
        return EPOCH_MS // 1000, 0


def test_a_finding_is_told_although_a_second_passes_between_the_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = Clock()
    looks = [stored({"a": a_row("PENDING")}, ready={"a"}, ttls={PARTITION.plan(PLAN).plan: left}) for left in (40, 39)]
    monkeypatch.setattr(rounds, "read", lambda *_: looks.pop(0))
    round_of = rounds.Rounds(Site(client, 1, 100, 1000), lambda _: None)

    found = [each for each in round_of.some([PLAN]) if each.check == "plan.expiry"]

    assert [each.sentence.rpartition(" within ")[2] for each in found] == ["39 s."]
