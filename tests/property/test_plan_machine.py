"""Any plan, reports, orders and clocks: what must hold after every step, and that every plan comes to an end."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas import codec
from schemas.command import Command
from schemas.event import EventData
from schemas.step import PlannedStep
from tasks.plan.changeset import Changeset
from tasks.plan.lifecycle import PLAN_ENDS, PLAN_MOVES, STEP_MOVES
from tasks.plan.report import Report
from tasks.plan.unit_of_work import PAUSED
from tasks.policy.schedule import FULL_MS
from tasks.policy.starts import QUEUED_MS, SILENT_MS
from tests.support.any_plan import (
    ABOUT_STEPS,
    APPROVALS,
    AROUND,
    DAY_TOKENS,
    LIMITS,
    METRICS,
    MOST_STEPS,
    ORDERS,
    SAID,
    WORDS,
    an_order,
    drafts,
)
from tests.support.plans import PLAN, a_report, clocks
from tests.support.surroundings import alter, clear, surrounded

PATIENCE = {"delivery_wait_s": 7200}
DELIVERED: Any = {"output": {"branch": "fix", "pull_request": "https://git.example/7"}, "touched_files": []}
LANDED: Any = {"output": {"target_sha": 40 * "1", "result_sha": 40 * "2", "conflicts": []}, "touched_files": []}
LAST = {"land", "deliver"}  # steps that no goal brings along
OVER = {"DONE", "FAILED", "SKIPPED", "HALTED"}


class AnyPlan(RuleBasedStateMachine):
    @initialize(
        steps=drafts(),
        limits=LIMITS,
        approvals=APPROVALS,
        day_tokens=DAY_TOKENS,
        delivery=st.sampled_from([None, {"push": True}, {"pull_request": True}]),
    )
    def create(
        self,
        steps: list[PlannedStep],
        limits: dict[str, Any],
        approvals: tuple[str, ...],
        day_tokens: int | None,
        delivery: dict[str, bool] | None,
    ) -> None:
        self.delivers = bool(delivery)
        self.given = {step.step_id: step for step in steps}
        self.files = {step.step_id: set(step.allowed_files) for step in steps}
        self.limits = limits
        self.plan = surrounded(
            *steps, approvals=approvals, day_tokens=day_tokens, delivery=delivery, **limits, **PATIENCE
        )
        self.used: Counter[str] = Counter()
        self.orders: list[Command] = []
        self.counted = 0
        self.over = False
        self.states = {step.step_id: "BLOCKED" if step.depends_on else "PENDING" for step in steps}
        self.state = "CREATED"
        self.sent: list[Report] = []
        self.lines = 0
        self.ends = 0
        self.number = 0

    def nothing_came_in_since(self, lines: int) -> None:
        """Whether the plan was looked at at most: a look may find what one before it did not read."""
        assert not {said[0] for line in self.plan.log[lines:] for said in line["in"]} & {"outcome", "command"}

    def report_of(self, step: str, said: dict[str, Any], metrics: dict[str, int], *, named: bool = True) -> Report:
        self.number += 1
        live = self.plan.active[step]
        names = (live.attempt, live.lease) if named else (None, None)
        return a_report(step, *names, **said, metrics=metrics, diff_hash=str(self.number))

    def send(self, *reports: Report) -> list[str]:
        self.sent += reports
        return [str(verdict) for verdict in self.plan.report(*reports)]

    @precondition(lambda self: self.plan.active)
    @rule(data=st.data(), said=SAID, metrics=METRICS, named=st.booleans())
    def a_controller_reports(self, data: st.DataObject, said: Any, metrics: Any, named: bool) -> None:
        step = data.draw(st.sampled_from(sorted(self.plan.active)))

        claimed = "claimed" in self.plan.store.lease(PLAN, step)
        verdict = "applied" if named or not claimed else "refused"
        assert self.send(self.report_of(step, said, metrics, named=named)) == [verdict]

    @precondition(lambda self: "land" in self.plan.active)
    @rule(metrics=METRICS)
    def it_lands(self, metrics: Any) -> None:
        assert self.send(self.report_of("land", LANDED, metrics)) == ["applied"]

        assert "deliver" in self.plan.steps

    @precondition(lambda self: "deliver" in self.plan.active)
    @rule(metrics=METRICS)
    def it_is_delivered(self, metrics: Any) -> None:
        assert self.send(self.report_of("deliver", DELIVERED, metrics)) == ["applied"]

        assert self.plan.state == "COMPLETED"
        assert self.plan.record.delivery.outcome["branch"] == "fix"

    @precondition(lambda self: len(self.plan.active) > 1)
    @rule(said=st.lists(SAID, min_size=2, max_size=4), metrics=METRICS)
    def several_controllers_report_at_once(self, said: list[Any], metrics: Any) -> None:
        reports = [self.report_of(step, each, metrics) for step, each in zip(self.plan.active, said, strict=False)]

        verdicts = self.send(*reports)

        applied = verdicts.count("applied")
        assert applied
        assert verdicts == ["applied"] * applied + ["late"] * (len(verdicts) - applied)
        assert applied == len(verdicts) or self.plan.state == "HALTED"

    @precondition(lambda self: self.plan.active)
    @rule(category=st.sampled_from(WORDS), metrics=METRICS)
    def every_controller_fails(self, category: str, metrics: dict[str, int]) -> None:
        said = {
            "success": False,
            "failure_evidence": {"category": category, "stack_trace_head": "x" * (self.number % 5)},
        }
        self.send(*[self.report_of(step, said, metrics) for step in self.plan.active])
        self.plan.rest()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def an_outcome_comes_again(self, data: st.DataObject) -> None:
        report = data.draw(st.sampled_from(self.sent))
        live = self.plan.active.get(report.outcome.step_id)
        if report.attempt is None and live and self.plan.steps[report.outcome.step_id].digest != report.digest:
            return  # it names no attempt and is not the last: nobody can tell it from a new one
        before = len(self.plan.log)

        assert set(self.plan.report(report)) <= {"duplicate", "late", "refused"}
        self.nothing_came_in_since(before)

    @rule(step=st.sampled_from(["s-0", "s-5", "nobody"]), attempt=st.integers(1, 9))
    def somebody_guesses(self, step: str, attempt: int) -> None:
        before = len(self.plan.log)

        assert self.plan.report(a_report(step, attempt, "guessed")) != ["applied"]
        self.nothing_came_in_since(before)

    @precondition(lambda self: self.plan.active)
    @rule(data=st.data(), controller=st.sampled_from(["ctl-1", "ctl-2", "ctl-3", "ctl-4"]))
    def a_controller_claims_or_renews(self, data: st.DataObject, controller: str) -> None:
        self.plan.store.claim(PLAN, data.draw(st.sampled_from(sorted(self.plan.active))), controller)

    @rule(data=st.data(), said=ORDERS)
    def an_operator_orders(self, data: st.DataObject, said: tuple[str, Any]) -> None:
        about = sorted({*self.plan.record.waits} or {*self.states})
        self.order(said, data.draw(st.sampled_from(about)) if said[0] in ABOUT_STEPS else None)

    @rule(said=AROUND)
    def something_wider_changes(self, said: tuple[str, Any]) -> None:
        self.number += 1
        alter(self.plan, self.number, *said)

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def an_order_comes_again(self, data: st.DataObject) -> None:
        before = len(self.plan.log)

        self.plan.obey(data.draw(st.sampled_from(self.orders)))

        self.nothing_came_in_since(before)

    def order(self, said: tuple[str, Any], step: str | None = None) -> None:
        self.orders.append(an_order(len(self.orders), said, step, self.plan.store.now))
        self.plan.obey(self.orders[-1])

    @rule(ms=st.sampled_from([1000, SILENT_MS // 2, SILENT_MS, 10 * SILENT_MS, QUEUED_MS]))
    def time_passes(self, ms: int) -> None:
        self.plan.store.wait(min(ms, 3_000_000))
        self.plan.sweep()

    @invariant()
    def all_is_well(self) -> None:
        self.a_revision_only_narrows()
        self.only_legal_moves_were_made()
        self.attempts_in_flight_share_no_file_and_are_not_too_many()
        self.counters_equal_a_recount()
        self.what_was_used_equals_a_recount()
        self.a_step_waits_for_what_is_not_over()
        self.a_plan_that_is_over_is_still_and_another_has_a_clock()
        self.a_delivery_is_behind_all_else_and_halts_nothing()

    @property
    def planned(self) -> dict[str, PlannedStep]:
        """The steps as they stand in the store, with those that revisions inserted."""
        return {step: PlannedStep(**facts) for step, facts in self.plan.facts.items()}

    def a_revision_only_narrows(self) -> None:
        for name, step in self.planned.items():
            if name in LAST:
                self.states.setdefault(name, "PENDING")
                continue
            origin = self.given[step.inserted_by or name]
            files = self.files.setdefault(name, set(origin.allowed_files))
            assert set(step.allowed_files) <= files
            self.files[name] = set(step.allowed_files)
            assert step.inserted_by not in self.planned or self.planned[step.inserted_by].inserted_by is None
            if step.inserted_by:
                self.states.setdefault(name, "PENDING")
            assert not any(set(";&|<>$") & set(word) for tool in step.verify_tools for word in tool.argv)

    def only_legal_moves_were_made(self) -> None:
        for line in self.plan.log[self.lines :]:
            for step, before, after in line["moves"]:
                if step:
                    assert (before, after) in STEP_MOVES
                    assert self.states[step] == before
                    self.states[step] = after
                else:
                    assert (before, after) in PLAN_MOVES
                    assert self.state == before
                    self.state = after
                    self.ends += after in PLAN_ENDS
        self.lines = len(self.plan.log)
        assert (self.plan.states, self.plan.state) == (self.states, self.state)
        assert self.ends == (self.state in PLAN_ENDS)

    def attempts_in_flight_share_no_file_and_are_not_too_many(self) -> None:
        active = self.plan.active
        assert len(active) <= self.limits["max_parallel"]
        for one, other in combinations(active.values(), 2):
            assert not set(one.files) & set(other.files)
        assert all(self.states[step] == "ACTIVE" for step in active)
        sent = [(spec["step_id"], spec["attempt"]) for spec in (*self.plan.specs, *self.plan.waiting("deliver"))]
        assert sorted(sent) == sorted((step, attempt.attempt) for step, attempt in active.items())

    def counters_equal_a_recount(self) -> None:
        record, active = self.plan.record, self.plan.active
        states = list(self.states.values())
        assert {state: count for state, count in record.counts.items() if count} == {s: states.count(s) for s in states}
        assert record.reserved["tokens"] == sum(attempt.tokens for attempt in active.values())
        assert record.reserved["patch_cycles"] == sum(attempt.patch_cycles for attempt in active.values())

    def what_was_used_equals_a_recount(self) -> None:
        changes = self.plan.changes[self.counted :]
        self.counted += len(changes)
        for change in changes:
            assert not (self.over and change.dispatches)
            self.over = self.over or change.ends
            for _, told in change.events:
                EventData.model_validate_json(told)
            self.count(change)
        spent = {name: amount for name, amount in self.plan.record.spent.items() if amount}
        assert spent == {name: amount for name, amount in self.used.items() if amount}

    def count(self, change: Changeset) -> None:
        """Add what each attempt that ended used: as it was told, or all that it held."""
        line = codec.loads(change.log) if change.log else {"in": [], "moves": []}
        told = {said[2]["step_id"]: said[2] for what, *said in line["in"] if what == "outcome"}
        unclaimed = {said[0] for what, *said in line["in"] if what == "expired" and not said[2]}
        unclaimed |= {said[0] for what, *said in line["in"] if what == "unclaimed"}
        handed_back = {said[0]: said[3] for what, *said in line["in"] if what == "handed back"}
        for step, attempt in change.ended.items():
            if step in handed_back:
                metrics, held = told[step]["metrics"], line["now"] - (handed_back[step] or attempt.at) > SILENT_MS
                self.book(max(metrics.get("tokens_used", 0), held * attempt.tokens))
                self.used["patch_cycles"] += max(0, metrics.get("patch_cycles", 0), held * attempt.patch_cycles)
                self.used["tool_calls"] += max(0, metrics.get("tool_calls", 0))
            elif step in told:
                metrics = told[step].get("metrics", {})
                self.book(metrics.get("tokens_used", attempt.tokens))
                self.used["patch_cycles"] += max(0, metrics.get("patch_cycles", attempt.patch_cycles))
                self.used["tool_calls"] += max(0, metrics.get("tool_calls", 0))
                self.used["failing_outcomes"] += step not in LAST and [step, "ACTIVE", "DONE"] not in line["moves"]
            elif step not in unclaimed:
                self.book(attempt.tokens)
                self.used["patch_cycles"] += attempt.patch_cycles

    def book(self, tokens: int) -> None:
        """Count tokens up to what the limit leaves: below nothing is nothing."""
        limit = self.plan.record.limits["tokens"]
        assert limit is not None
        self.used["tokens"] += max(0, min(tokens, limit - self.used["tokens"]))

    def a_step_waits_for_what_is_not_over(self) -> None:
        if self.state in PLAN_ENDS:
            return
        planned = self.planned
        for name, status in self.plan.steps.items():
            waits_for = {each for each in planned[name].depends_on if self.states[each] not in OVER}
            if status.state != "SKIPPED" and not status.skipped_by:
                assert status.unmet == len(waits_for)
                prepared = any(planned[each].inserted_by == name for each in waits_for)
                assert status.state == ("ACTIVE" if prepared else "BLOCKED" if waits_for else status.state)
                assert waits_for or status.state != "BLOCKED"

    def a_plan_that_is_over_is_still_and_another_has_a_clock(self) -> None:
        timers = clocks(self.plan.store)
        if self.state in PLAN_ENDS:
            assert not self.plan.active
            assert not self.plan.specs + self.plan.waiting("deliver")
            explained = {"value", "limit", "policy_version", "events", "unblock"}
            assert self.state != "HALTED" or explained <= self.plan.halt["evidence"].keys()
            assert timers == {}
        elif not (self.plan.record.paused or self.plan.record.held.startswith(PAUSED)):
            record, soon = self.plan.record, self.plan.store.now + FULL_MS
            rests = self.plan.store.paused_queues() and "still" in record.times  # until `resume` has it looked at
            assert self.plan.active or record.waits or record.backoffs or record.held or rests or timers[PLAN] <= soon
            assert rests or timers[PLAN] > self.plan.store.now or self.plan.store.due() == [PLAN]

    def a_delivery_is_behind_all_else_and_halts_nothing(self) -> None:
        if not LAST.isdisjoint(self.states):
            assert all(self.states[name] == "DONE" or self.plan.steps[name].skipped_by for name in self.given)
            assert self.state != "HALTED" or self.plan.halt["rule"] == "manual"
            assert "still" in self.plan.record.times
        if self.state == "COMPLETED":
            assert bool(self.plan.record.delivery.outcome) == self.delivers

    def teardown(self) -> None:
        """Answer every attempt and every question: the plan must come to its end."""
        clear(self.plan)
        for number in range(MOST_STEPS * 10):
            if self.plan.record.paused:
                self.order(("resume", None))
            for step in self.plan.record.waits:
                self.order(("approve", None), step)
            self.plan.rest()
            live = self.plan.active.items()
            last: Any = LANDED if "land" in self.plan.active else DELIVERED if "deliver" in self.plan.active else {}
            said: Any = {"diff_hash": f"last {number}", **last}
            self.plan.report(*[a_report(step, None, one.lease, **said) for step, one in live])
            self.all_is_well()
            if self.plan.state in PLAN_ENDS:
                break
        assert self.plan.state in ("COMPLETED", "HALTED")
        assert not any(self.plan.record.reserved.values())
        satisfied = all(
            step.state == "DONE" or step.skipped_by for name, step in self.plan.steps.items() if name not in LAST
        )
        assert satisfied or self.plan.state == "HALTED"
        may_halt = ("file_growth", "manual") if self.delivers else ("file_growth",)  # by an operator, in its delivery
        assert not satisfied or self.plan.state == "COMPLETED" or self.plan.halt["rule"] in may_halt


AnyPlan.TestCase.settings = settings(
    max_examples=50, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyPlan = AnyPlan.TestCase
