"""Whatever happens to a plan: the copy that a worker keeps is what it would read, before every decision and after."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from redis.exceptions import ResponseError

from schemas.step import PlannedStep
from schemas.stored import Attempt
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import Snapshot
from tests.support.any_plan import APPROVALS, DAY_TOKENS, DOINGS, LIMITS, drafts
from tests.support.examples import few_and_many
from tests.support.memory_store import MemoryStore
from tests.support.plain import hot_plan, state_of
from tests.support.plans import PARTITION, Running
from tests.support.replay import run
from tests.support.surroundings import TENANT
from worker.store.plans import Ask, NoSnapshot, Write

AROUND = ("leases", "standing", "paused_queues", "grants", "notes")


class KeepingStore(MemoryStore):
    """A store whose decisions are made about copies that are kept from one to the next."""

    def __init__(self) -> None:
        super().__init__(PARTITION)
        self.kept: dict[str, HotPlan] = {}
        self.lent: dict[str, HotPlan] = {}

    def _begin(self, ask: Ask, token: str) -> Snapshot | NoSnapshot:
        read = super()._begin(ask, token)
        if not isinstance(read, Snapshot):
            return read
        plan = self.kept.pop(ask.plan_id, None) or hot_plan(self.held(ask.plan_id))
        self.lent[ask.plan_id] = plan
        known = plan.snapshot(self.now, ask.steps, ask.page)
        for name in AROUND:
            setattr(known, name, getattr(read, name))
        assert parts_of(known) == parts_of(read)
        return known

    def _commit(self, write: Write) -> str | ResponseError:
        verdict, change = super()._commit(write), write.changeset
        plan = self.lent.pop(change.plan_id, None)
        if plan and verdict == "ok" and change.changed and not change.ends:
            active = self.hash(PARTITION.plan(change.plan_id).active)
            plan.take(change, [Attempt.decode(active[one.step_id]).entry for one in change.dispatches])
            assert state_of(plan) == state_of(hot_plan(self.held(change.plan_id)))
            self.kept[change.plan_id] = plan
        return verdict


def parts_of(view: Snapshot) -> dict[str, Any]:
    """All that a decision is given, without what a step has decoded of itself."""
    parts = {each.name: getattr(view, each.name) for each in fields(Snapshot)}
    return {**parts, "steps": {name: (step.spec, step.status) for name, step in view.steps.items()}}


@few_and_many(60, 500, drafts(), LIMITS, APPROVALS, DAY_TOKENS, DOINGS)
def a_kept_plan(
    steps: list[PlannedStep],
    limits: dict[str, Any],
    approvals: tuple[str, ...],
    day_tokens: int | None,
    doings: list[Any],
) -> None:
    store = KeepingStore()
    store.budgets = {} if day_tokens is None else {TENANT: day_tokens}
    about: dict[str, Any] = {"tenant": "acme", "repo": "acme/shop", "budgets": [*store.budgets], "approvals": approvals}
    plan = Running(*steps, store=store, **about, **limits)
    run(plan, doings)


(
    test_a_copy_is_what_is_stored_after_whatever_was_committed,
    test_a_copy_is_what_is_stored_after_whatever_was_committed_of_many_plans,
) = a_kept_plan
