"""Plans of one repository that begin, grow and end in any order: who waits for files goes on, and never too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.step import PlannedStep
from tasks.plan.file_claims import before, plans_of
from tasks.policy import expansion
from tests.support.overlapping import FILES, Neighbours
from tests.support.plans import Running, a_step

MOST_PLANS = 6
FILE_LISTS = st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True)
STEPS = st.lists(st.tuples(FILE_LISTS, st.booleans()), min_size=1, max_size=3)
MODES = st.sampled_from(["wait", "wait", "wait", "allow", "refuse"])


class AnyNeighbours(RuleBasedStateMachine):
    @initialize()
    def set_up(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.here = Neighbours()
        self.patch.setattr(expansion, "strategy_of", lambda _: self.here.script)
        self.number = 0
        self.worked: dict[str, set[str]] = {}  # plan -> files that its attempts have held so far

    def steps(self, drawn: Sequence[tuple[list[str], bool]]) -> list[PlannedStep]:
        """Steps with these files, each after the one before it where that is said."""
        made: list[PlannedStep] = []
        for files, follows in drawn:
            self.number += 1
            after = [made[-1].step_id] if made and follows else []
            made.append(a_step(f"s-{self.number}", *after, files=files))
        return made

    @precondition(lambda self: len(self.here.plans) < MOST_PLANS)
    @rule(drawn=STEPS, overlap=MODES)
    def begin(self, drawn: Any, overlap: str) -> None:
        self.here.begin(*self.steps(drawn), overlap=overlap)

    @precondition(lambda self: self.flying())
    @rule(data=st.data(), drawn=st.one_of(st.none(), STEPS))
    def a_step_succeeds(self, data: st.DataObject, drawn: Any) -> None:
        plan, step = data.draw(st.sampled_from(self.flying()))
        self.here.succeed(plan, step, self.steps(drawn) if drawn and self.number < 40 else ())

    @precondition(lambda self: self.here.live)
    @rule(data=st.data(), name=st.sampled_from(["cancel", "pause", "resume"]))
    def an_operator_commands(self, data: st.DataObject, name: str) -> None:
        plan = self.here.plans[data.draw(st.sampled_from(sorted(self.here.live)))]
        plan.obey(self.here.command(f"{name}", plan))

    @precondition(lambda self: any(plan.record.claims.waits.keys() - {""} for plan in self.here.live.values()))
    @rule()
    def a_step_that_waits_is_skipped(self) -> None:
        plan = next(each for each in self.here.live.values() if each.record.claims.waits.keys() - {""})
        step = next(name for name in plan.record.claims.waits if name)
        plan.obey(self.here.command("skip", plan, step))

    @rule()
    def time_passes(self) -> None:
        self.here.store.wait(1000)
        self.here.sweep()

    def flying(self) -> list[tuple[Running, str]]:
        return [(plan, step) for plan in self.here.live.values() for step in sorted(plan.active)]

    @invariant()
    def no_two_plans_that_wait_work_on_one_file(self) -> None:
        live = self.here.live
        for name in [name for name in self.worked if name not in live]:
            del self.worked[name]
        for name, plan in live.items():
            self.worked.setdefault(name, set()).update(*(attempt.files for attempt in plan.active.values()))
        waiting = {name: plan for name, plan in live.items() if self.here.modes[name] == "wait"}
        for file in FILES:
            working = [name for name in waiting if file in self.worked[name]]
            circles = [name for name in working if self.is_told_as_circle(waiting[name], file)]
            assert len(working) - len(circles) <= 1, (file, working, circles)

    def is_told_as_circle(self, plan: Running, file: str) -> bool:
        return any(told["file"] == file and told.get("circle") for told in self.here.told(plan))

    @invariant()
    def claims_are_those_of_live_plans(self) -> None:
        claims, live = self.here.claims(), self.here.live
        assert {plan for file in self.here.claimed for plan in plans_of(claims.of(file))} <= live.keys()
        for name, plan in live.items():
            may_patch = {file for facts in plan.facts.values() for file in facts["allowed_files"]}
            assert {file for file in FILES if name in plans_of(claims.of(file))} == may_patch

    @invariant()
    def nobody_waits_in_a_circle(self) -> None:
        claims = self.here.claims()
        assert [name for name in self.here.live if name in claims.waiting_for(name)] == []

    @invariant()
    def who_waits_is_told_and_who_need_not_goes_on(self) -> None:
        self.here.sweep()
        claims = self.here.claims()
        for name, plan in self.here.live.items():
            for file, plan_before in plan.record.claims.waits.values():
                assert before(claims.of(file), f"?{name}") == plan_before != ""
            if "" in plan.record.claims.waits:
                assert not plan.active
                assert plan.state == "READY"

    def teardown(self) -> None:
        if not hasattr(self, "here"):
            return
        try:
            for plan in self.here.live.values():
                plan.obey(self.here.command("resume", plan))
            for _ in range(200):
                self.here.sweep()
                if not self.flying():
                    break
                plan, step = self.flying()[0]
                self.here.succeed(plan, step)
            assert self.here.live == {}, "plans wait for ever"
            assert self.here.left() == {}
            for name in self.here.plans:
                self.here.fold_again(name)
        finally:
            self.patch.undo()


TestAnyNeighbours = AnyNeighbours.TestCase
TestAnyNeighbours.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
