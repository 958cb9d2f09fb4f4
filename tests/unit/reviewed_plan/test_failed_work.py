"""Work that fails for good while a reviewed plan is carried out: a person decides how the plan goes on."""

from __future__ import annotations

from typing import Any

from schemas import codec
from schemas.command import Command
from tasks.rules.strategy import Draft
from tests.support.kinds.reviewed_plan import FAIL, FILES, PASS, a_goal, a_plan, drafted
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running, a_report

LIMITS = {"consecutive_failures": 3, "identical_failures": 2}  # those of a goal that says nothing


def executing(limits: dict[str, int] = LIMITS, **fields: Any) -> Running:
    """A plan whose two milestones are worked on side by side."""
    plan: Any = a_plan(milestone_dependencies={})
    for each in plan["milestones"]:
        each["depends_on"] = []
    made = drafted(a_goal("execute", plan=plan, limits=LIMITS, **fields))
    assert isinstance(made, Draft)
    draft = {"state": made.state, "document": made.document}
    kind: Any = {"kind": "reviewed_plan", "files": FILES}
    return Running(*made.steps, draft=draft, store=MemoryStore(PARTITION), mend=False, **kind, **limits)


def report(plan: Running, step_id: str, **fields: Any) -> None:
    assert plan.report(a_report(step_id, diff_hash=f"x-{plan.record.version}", **fields)) == ["applied"]
    plan.rest()


def fail(plan: Running, step_id: str, test: str = "tests/test_a.py::test_a") -> None:
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": [test], "stack_trace_head": "AssertionError"}
    report(plan, step_id, success=False, failure_evidence=evidence)


def say(plan: Running, value: str, number: int = 1) -> None:
    order = {"command_id": f"o-{number}", "command": "answer", "scope": "plan", "plan_id": plan.plan_id}
    plan.obey(Command.model_validate({**order, "actor": "ada", "reason": "why", "value": value}))
    plan.rest()


def document(plan: Running) -> Any:
    return codec.loads(plan.store.hash(plan.keys.plan)["strategy_state"])["document"]


def to_the_end(plan: Running) -> None:
    answers = {"impl-code-qr": [PASS], "impl-docs-qr": [PASS]}
    while plan.state == "EXECUTING" and plan.record.question is None:
        step_id = next(name for name, state in plan.states.items() if state == "ACTIVE")
        output: Any = {"items": answers[step_id]} if step_id in answers else None
        if step_id == "reconcile":
            output = {"milestones": [{"id": name, "outcome": "SATISFIED"} for name in ("M-001", "M-002")]}
        report(plan, step_id, output=output)


def stuck(**fields: Any) -> Running:
    """A plan that asks: one milestone failed twice in the same way, the other is done."""
    plan = executing(**fields)
    fail(plan, "impl-m-001")
    fail(plan, "impl-m-001")
    assert (plan.state, plan.states["impl-m-001"]) == ("EXECUTING", "FAILED")
    assert plan.record.question is None  # the other one is worked on
    report(plan, "impl-m-002")
    return plan


def test_a_wave_that_fails_for_good_asks_a_person() -> None:
    plan = stuck()

    asked = plan.record.question
    assert asked is not None
    first, *lines = asked["questions"]
    assert first.startswith("impl-execute does not succeed: 2 of its steps failed or were skipped. Decide: continue")
    assert lines == [
        "impl-m-001 FAILED: TEST_REGRESSION: tests/test_a.py::test_a: AssertionError",
        "test-wave-1 SKIPPED",
    ]
    assert document(plan)["report"]["status"] == "BLOCKED"
    assert plan.state == "EXECUTING"


def test_a_row_of_failures_takes_no_retries_from_work_and_hides_no_other_rule() -> None:
    plan = executing(limits={**LIMITS, "consecutive_failures": 2, "max_growth_kb": 1})

    fail(plan, "impl-m-001")
    fail(plan, "impl-m-002", "tests/test_b.py::test_b")

    assert (plan.state, plan.states["impl-m-001"], plan.states["impl-m-002"]) == ("EXECUTING", "ACTIVE", "ACTIVE")

    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": ["tests/test_c.py::test_c"]}
    report(plan, "impl-m-002", success=False, failure_evidence=evidence, growth_kb=5)

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "file_growth")


def test_what_failed_is_tried_again_with_what_the_person_says() -> None:
    plan = stuck()

    say(plan, "continue: use the other module")

    assert plan.states["impl-m-001-t1"] == "ACTIVE"
    assert b'"work_asked":false' in plan.record.strategy_state  # the answer was taken
    assert plan.states["test-wave-1-t1"] == "BLOCKED"
    assert "impl-m-002-t1" not in plan.states
    (spec,) = [spec for spec in plan.waiting("developer") if spec["step_id"] == "impl-m-001-t1"]
    assert spec["controller_task_spec"]["hint"] == "use the other module"
    assert "| - use the other module" in spec["input"]["prompt"]
    assert spec["input"]["milestone"]["milestone"]["id"] == "M-001"

    to_the_end(plan)

    assert plan.state == "COMPLETED", plan.halt
    assert [row["outcome"] for row in document(plan)["report"]["milestones"]] == ["DONE", "DONE"]


def test_where_only_the_test_of_a_wave_fails_its_work_comes_again() -> None:
    plan = executing()
    report(plan, "impl-m-001", touched_files=["src/a.py"])
    report(plan, "impl-m-002", touched_files=["src/b.py"])
    fail(plan, "test-wave-1")
    fail(plan, "test-wave-1")
    assert plan.record.question is not None
    assert plan.record.question["questions"][1:] == [
        "test-wave-1 FAILED: TEST_REGRESSION: tests/test_a.py::test_a: AssertionError"
    ]

    say(plan, "continue: b.py is to blame")

    again = {"impl-m-001-t1": "ACTIVE", "impl-m-002-t1": "ACTIVE", "test-wave-1-t1": "BLOCKED"}
    assert {name: state for name, state in plan.states.items() if name.endswith("-t1")} == again
    specs = {spec["step_id"]: spec for spec in plan.waiting("developer")}
    hint = specs["impl-m-002-t1"]["controller_task_spec"]["hint"]
    assert hint.startswith("b.py is to blame The work was done, and its test did not pass: test-wave-1 TEST_REGRESSION")
    assert "tests/test_a.py::test_a" in hint
    assert hint in specs["impl-m-002-t1"]["input"]["prompt"]

    report(plan, "impl-m-001-t1", touched_files=[])  # which is not to blame
    report(plan, "impl-m-002-t1", touched_files=["src/b.py"])
    fail(plan, "test-wave-1-t1")
    fail(plan, "test-wave-1-t1")
    say(plan, "continue", 2)
    assert plan.states["impl-m-002-t2"] == "ACTIVE"
    to_the_end(plan)

    assert plan.state == "COMPLETED", plan.halt
    found = document(plan)["report"]["milestones"]
    assert [(row["outcome"], row["untouched"]) for row in found] == [("DONE", []), ("DONE", [])]


def test_failures_in_a_row_are_counted_on_behind_an_answer() -> None:
    plan = stuck()
    say(plan, "continue")
    fail(plan, "impl-m-001-t1")
    fail(plan, "impl-m-001-t1")
    assert (plan.state, plan.record.counters.consecutive) == ("EXECUTING", 2)

    say(plan, "continue", 2)
    fail(plan, "impl-m-001-t2")

    assert (plan.state, plan.halt["rule"], plan.halt["evidence"]["value"]) == ("HALTED", "consecutive_failures", 3)


def test_an_answer_may_be_given_three_times_where_failures_in_a_row_may_be_many() -> None:
    plan = stuck(limits={**LIMITS, "consecutive_failures": 9})

    for number in range(1, 4):
        say(plan, "continue", number)
        fail(plan, f"impl-m-001-t{number}")
        fail(plan, f"impl-m-001-t{number}")
        assert plan.record.question is not None
        assert len(plan.record.question["questions"]) == 3

    say(plan, "continue", 4)
    assert plan.record.question is not None
    assert "impl-m-001-t4" not in plan.states
    say(plan, "accept: we mend it by hand", 5)
    to_the_end(plan)
    assert plan.state == "COMPLETED", plan.halt


def test_a_person_may_go_on_without_what_failed() -> None:
    plan = stuck()

    say(plan, "accept")
    assert plan.record.question is not None  # it takes a reason
    say(plan, "accept: we mend it by hand", 2)
    assert plan.states["impl-code-qr"] == "ACTIVE"
    to_the_end(plan)

    assert plan.state == "COMPLETED", plan.halt
    assert [row["outcome"] for row in document(plan)["report"]["milestones"]] == ["FAILED", "DONE"]


def test_a_person_may_stop_there() -> None:
    plan = stuck()

    say(plan, "stop: not this year")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "review_stopped")
    assert "not this year" in plan.halt["reason"]
    assert document(plan)["report"]["status"] == "ABORTED"


def test_failures_in_a_row_end_steps_and_not_the_plan() -> None:
    plan = executing()
    for number, step_id in enumerate(("impl-m-001", "impl-m-002", "impl-m-001", "impl-m-002")):
        fail(plan, step_id, f"tests/test_a.py::test_{number}")

    assert plan.record.question is not None
    assert plan.state == "EXECUTING"


def test_a_review_of_the_work_that_gives_no_answer_of_use_asks_a_person() -> None:
    plan = executing()
    for step_id in ("impl-m-001", "impl-m-002", "test-wave-1"):
        report(plan, step_id)
    for _ in range(3):
        report(plan, "impl-code-qr", output="I looked, and all is well.")

    assert plan.record.question is not None
    assert plan.record.question["questions"][0].startswith("The gate impl-code-qr-gate was not reviewed")
    say(plan, "continue")
    report(plan, "impl-code-qr-r2", output={"items": [PASS]})
    to_the_end(plan)
    assert plan.state == "COMPLETED", plan.halt


def test_a_gate_that_fails_still_sends_the_work_back() -> None:
    plan = stuck()
    say(plan, "continue")
    for step_id in ("impl-m-001-t1", "test-wave-1-t1"):
        report(plan, step_id)
    report(plan, "impl-code-qr", output={"items": [FAIL]})

    assert plan.states["impl-m-001-r2"] == "ACTIVE"
