"""Whatever happens to a plan: the copy that a worker keeps is what it would read, before every decision and after."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from schemas.step import PlannedStep
from schemas.stored import Attempt
from tasks.plan.changeset import Changeset
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import Snapshot
from tasks.rules.strategy import Question
from tests.support.any_plan import APPROVALS, DAY_TOKENS, DOINGS, LIMITS, drafts
from tests.support.commands import order
from tests.support.examples import few_and_many
from tests.support.growing import Script, goes_on, growing
from tests.support.memory_store import MemoryStore
from tests.support.plain import check_part, hot_plan, part_of, seen, state_of
from tests.support.plans import PARTITION, Running, a_report, a_step
from tests.support.replay import run
from tests.support.surroundings import TENANT
from worker.store.plans import Ask, NoSnapshot, Write

AHEAD = st.sampled_from([0, 1, 2, 8])
AROUND = ("leases", "knows_leases", "standing", "paused_queues", "grants", "notes", "claims")


class KeepingStore(MemoryStore):
    """A store whose decisions are made about copies that are kept from one to the next.

    `ahead` is how many steps of a plan are read ahead at first; 0: plans are kept whole.
    """

    def __init__(self, ahead: int = 0) -> None:
        super().__init__(PARTITION)
        self.ahead = ahead
        self.kept: dict[str, HotPlan] = {}
        self.lent: dict[str, HotPlan] = {}

    def _begin(self, ask: Ask, token: str) -> Snapshot | NoSnapshot:
        read = super()._begin(ask, token)
        if not isinstance(read, Snapshot):
            return read
        plan = deepcopy(self.kept.get(ask.plan_id))  # what is only looked at stays as it is
        if plan is None and not self.ahead:
            plan = hot_plan(self.held(ask.plan_id))
        if plan is None or not plan.covers(ask.steps, ask.page):
            self.lent.pop(ask.plan_id, None)
            return read
        if plan.ahead:
            seen["decisions about parts"] += 1
        self.lent[ask.plan_id] = plan
        known = plan.snapshot(self.now, ask.steps, ask.page)
        for name in AROUND:
            setattr(known, name, getattr(read, name))
        assert parts_of(known) == parts_of(read)
        return known

    def _commit(self, write: Write) -> str | ResponseError:
        verdict, change = super()._commit(write), write.changeset
        plan = self.lent.pop(change.plan_id, None)
        self.kept.pop(change.plan_id, None)
        if verdict != "ok" or not change.changed or change.ends:
            return verdict
        kept = self._take(plan, change) if plan else part_of(self.held(change.plan_id), self.ahead)
        if kept and (plan or self.ahead):
            self.kept[change.plan_id] = kept
        return verdict

    def _take(self, plan: HotPlan, change: Changeset) -> HotPlan | None:
        """Take a change in as a worker does, which reads a part anew that runs short."""
        held = self.held(change.plan_id)
        starts = [one.step_id for one in change.dispatches]
        if plan.ahead and (change.specs or plan.runs_short(starts, len(change.ready_remove))):
            return part_of(held, plan.next_ahead)
        active = self.hash(PARTITION.plan(change.plan_id).active)
        plan.take(change, [Attempt.decode(active[step]).entry for step in starts])
        if plan.ahead:
            check_part(plan, held)
        else:
            assert state_of(plan) == state_of(hot_plan(held))
        return plan


def parts_of(view: Snapshot) -> dict[str, Any]:
    """All that a decision is given, without what a step has decoded of itself."""
    parts = {each.name: getattr(view, each.name) for each in fields(Snapshot)}
    return {**parts, "steps": {name: (step.spec, step.status) for name, step in view.steps.items()}}


@few_and_many(60, 500, AHEAD, drafts(), LIMITS, APPROVALS, DAY_TOKENS, DOINGS)
def a_kept_plan(
    ahead: int,
    steps: list[PlannedStep],
    limits: dict[str, Any],
    approvals: tuple[str, ...],
    day_tokens: int | None,
    doings: list[Any],
) -> None:
    store = KeepingStore(ahead)
    store.budgets = {} if day_tokens is None else {TENANT: day_tokens}
    about: dict[str, Any] = {"tenant": "acme", "repo": "acme/shop", "budgets": [*store.budgets], "approvals": approvals}
    plan = Running(*steps, store=store, **about, **limits)
    run(plan, doings)


(
    test_a_copy_is_what_is_stored_after_whatever_was_committed,
    test_a_copy_is_what_is_stored_after_whatever_was_committed_of_many_plans,
) = a_kept_plan


def test_the_outcomes_of_a_chain_are_decided_about_the_part_that_is_kept() -> None:
    names = [f"s-{number}" for number in range(12)]
    plan = Running(
        *[a_step(name, *names[max(0, place - 1) : place]) for place, name in enumerate(names)], store=KeepingStore(1)
    )
    plan.report()
    before = seen["decisions about parts"]

    for name in names:
        live = plan.active[name]
        plan.report(a_report(name, live.attempt, live.lease))

    assert plan.state == "COMPLETED"
    assert seen["decisions about parts"] - before >= len(names)


def test_a_copy_of_a_plan_that_has_its_first_steps_from_an_answer_knows_their_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [a_step("a", files=["src/a.py"]), a_step("b", "a", files=["src/b.py"])]
    script = Script(on_answer=lambda *_: goes_on(*steps))
    plan = growing(monkeypatch, script, question=Question("clarify", ("Which file?",)), store=KeepingStore())
    order(plan, "answer", value="src/a.py")
    assert plan.texts, "both steps say the same"

    plan.report(a_report("a", 1, plan.active["a"].lease))

    assert plan.states == {"a": "DONE", "b": "ACTIVE"}
