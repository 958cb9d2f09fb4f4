"""Any plan, any reports, any clocks: what must hold after every step, and that every plan comes to an end."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.base import RiskLevel
from schemas.step import PlannedStep, unpack_step
from tasks.outcomes import Report
from tasks.policy.dispatch import QUEUED_MS, SILENT_MS
from tasks.policy.lifecycle import PLAN_ENDS, PLAN_MOVES, STEP_MOVES
from tests.support.plans import NO_HALT, PLAN, PYTEST, Running, a_report, a_step, clocks

MOST_STEPS = 12
OVER = {"DONE", "FAILED", "SKIPPED", "HALTED"}
FILES = ("src/a.py", "src/b.py", "tests/test_c.py", "src/d.py")
WORDS = (
    "TEST_REGRESSION",
    "TYPE_ERROR",
    "FLAKY_TEST",
    "UNKNOWN",
    "who knows",
    "TEST_TIMEOUT",
    "COMPILATION_ERROR",
    "LINT_ERROR",
    "IMPORT_ERROR",
)
TESTS = ("tests/test_c.py::test_it", "src/d.py::test_that", "x; rm -rf /", "/etc/passwd::test_root")


@st.composite
def drafts(draw: st.DrawFn) -> list[PlannedStep]:
    """Steps whose dependencies are among those before them."""
    names = [f"s-{number}" for number in range(draw(st.integers(1, MOST_STEPS)))]
    return [
        a_step(
            name,
            *draw(st.lists(st.sampled_from(names[:number]), max_size=3)) if number else (),
            files=draw(st.lists(st.sampled_from(FILES), max_size=2, unique=True)),
            risk=draw(st.sampled_from(RiskLevel)),
            retries=draw(st.sampled_from([2, 3, 1, 0])),
            tokens=draw(st.integers(0, 1500)),
            cycles=draw(st.integers(0, 2)),
            tools=draw(st.sampled_from([(), (PYTEST,)])),
        )
        for number, name in enumerate(names)
    ]


LIMITS = st.fixed_dictionaries(
    {"max_parallel": st.integers(1, 4), "wall_clock_s": st.sampled_from([600, 86_400])},
    optional={
        "tokens": st.integers(1000, 8000),
        "patch_cycles": st.integers(1, 15),
        "failing_outcomes": st.integers(1, 6),
        "tool_calls": st.integers(0, 5),
        **{name: st.integers(1, 8) for name in NO_HALT},
    },
)
FAILURE = st.builds(
    lambda word, trace, tests, files: {
        "success": False,
        "failure_evidence": {
            "category": word,
            "stack_trace_head": trace,
            "top_failing_tests": tests,
            "affected_files": files,
        },
    },
    st.sampled_from(WORDS),
    st.sampled_from(["", "assert 1 == 2", "assert 3 == 4", "Boom"]),
    st.lists(st.sampled_from(TESTS), max_size=2),
    st.lists(st.sampled_from([*FILES, "/etc/passwd", ".env"]), max_size=2),
)
ODD = st.sampled_from(
    [
        {"success": True, "tests_passed": False},
        {"success": True, "growth_kb": 1},
        {"success": True, "verify": [{"tool": "pytest", "exit_code": 1}]},
        {"success": True, "touched_files": ["elsewhere"]},
    ]
)
SAID = st.one_of(st.just({"success": True}), FAILURE, FAILURE, ODD)
METRICS = st.fixed_dictionaries(
    {},
    optional={"tokens_used": st.integers(0, 3000), "patch_cycles": st.integers(0, 3), "tool_calls": st.integers(0, 2)},
)


class AnyPlan(RuleBasedStateMachine):
    @initialize(steps=drafts(), limits=LIMITS)
    def create(self, steps: list[PlannedStep], limits: dict[str, Any]) -> None:
        self.given = {step.step_id: step for step in steps}
        self.limits = limits
        self.plan = Running(*steps, **limits)
        self.states = {step.step_id: "BLOCKED" if step.depends_on else "PENDING" for step in steps}
        self.state = "CREATED"
        self.sent: list[Report] = []
        self.lines = 0
        self.ends = 0
        self.number = 0

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

        assert self.send(self.report_of(step, said, metrics, named=named)) == ["applied"]

    @precondition(lambda self: len(self.plan.active) > 1)
    @rule(said=st.lists(SAID, min_size=2, max_size=4), metrics=METRICS)
    def several_controllers_report_at_once(self, said: list[Any], metrics: Any) -> None:
        reports = [self.report_of(step, each, metrics) for step, each in zip(self.plan.active, said, strict=False)]

        verdicts = self.send(*reports)

        applied = verdicts.count("applied")
        assert applied
        assert verdicts == ["applied"] * applied + ["late"] * (len(verdicts) - applied)
        assert applied == len(verdicts) or self.plan.state == "HALTED"

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def an_outcome_comes_again(self, data: st.DataObject) -> None:
        report = data.draw(st.sampled_from(self.sent))
        live = self.plan.active.get(report.outcome.step_id)
        if report.attempt is None and live and self.plan.steps[report.outcome.step_id].digest != report.digest:
            return  # it names no attempt and is not the last: nobody can tell it from a new one
        before = self.plan.record.version

        assert set(self.plan.report(report)) <= {"duplicate", "late", "refused"}
        assert self.plan.record.version == before

    @rule(step=st.sampled_from(["s-0", "s-5", "nobody"]), attempt=st.integers(1, 9))
    def somebody_guesses(self, step: str, attempt: int) -> None:
        before = self.plan.record.version

        assert self.plan.report(a_report(step, attempt, "guessed")) != ["applied"]
        assert self.plan.record.version == before

    @precondition(lambda self: self.plan.active)
    @rule(data=st.data())
    def a_controller_claims_or_renews(self, data: st.DataObject) -> None:
        self.plan.store.claim(PLAN, data.draw(st.sampled_from(sorted(self.plan.active))))

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
        self.a_step_waits_for_what_is_not_over()
        self.a_plan_that_is_over_is_still_and_another_has_a_clock()

    @property
    def planned(self) -> dict[str, PlannedStep]:
        """The steps as they stand in the store, with those that revisions inserted."""
        stored = self.plan.store.hash(self.plan.keys.steps)
        return {step: PlannedStep(**unpack_step(raw)) for step, raw in stored.items() if step[0] != ">"}

    def a_revision_only_narrows(self) -> None:
        for name, step in self.planned.items():
            origin = self.given[step.inserted_by or name]
            assert set(step.allowed_files) <= set(origin.allowed_files)
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
        assert {spec["step_id"]: spec["attempt"] for spec in self.plan.specs} == {
            step: attempt.attempt for step, attempt in active.items()
        }

    def counters_equal_a_recount(self) -> None:
        record, active = self.plan.record, self.plan.active
        states = list(self.states.values())
        assert {state: count for state, count in record.counts.items() if count} == {s: states.count(s) for s in states}
        assert record.reserved["tokens"] == sum(attempt.tokens for attempt in active.values())
        assert record.reserved["patch_cycles"] == sum(attempt.patch_cycles for attempt in active.values())

    def a_step_waits_for_what_is_not_over(self) -> None:
        if self.state in PLAN_ENDS:
            return
        planned = self.planned
        for name, status in self.plan.steps.items():
            waits_for = {each for each in planned[name].depends_on if self.states[each] not in OVER}
            if status.state != "SKIPPED":
                assert status.unmet == len(waits_for)
                prepared = any(planned[each].inserted_by == name for each in waits_for)
                assert status.state == ("ACTIVE" if prepared else "BLOCKED" if waits_for else status.state)
                assert waits_for or status.state != "BLOCKED"

    def a_plan_that_is_over_is_still_and_another_has_a_clock(self) -> None:
        timers = clocks(self.plan.store)
        if self.state in PLAN_ENDS:
            assert not self.plan.active
            assert not self.plan.specs
            assert (
                self.state != "HALTED" or {"policy_version", "events", "unblock"} <= self.plan.halt["evidence"].keys()
            )
            assert timers == {}
        else:
            assert self.plan.active
            assert timers[PLAN] > self.plan.store.now or self.plan.store.due() == [PLAN]

    def teardown(self) -> None:
        """Answer every attempt: the plan must come to its end."""
        for number in range(MOST_STEPS * 10):
            if not self.plan.active:
                break
            self.plan.report(*[a_report(step, diff_hash=f"last {number}") for step in self.plan.active])
            self.all_is_well()
        assert self.plan.state in ("COMPLETED", "HALTED")
        assert not any(self.plan.record.reserved.values())
        if self.plan.state == "COMPLETED":
            assert set(self.plan.states.values()) == {"DONE"}
        else:
            assert self.plan.halt["rule"] == "file_growth" or set(self.plan.states.values()) != {"DONE"}


AnyPlan.TestCase.settings = settings(
    max_examples=50, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyPlan = AnyPlan.TestCase
