"""A success that changed no file: when it counts, what the next attempt reads, and what nobody gets past it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import Mode, StepType
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.strategies.drafting.pieces import join_pieces
from tests.support.plans import PARTITION, PYTEST, Running, a_failure, a_report, a_step
from worker.store.history import story_of

PASSED: dict[str, Any] = {"tests_passed": True}
SHOWN: dict[str, Any] = {"verify": [{"tool": "pytest", "exit_code": 0}]}
WHY: dict[str, Any] = {"touched_files": [], "nothing_to_change": "The fix is there already."}

# what is said beside the success, the tools of the step, whether the step allows it, whether it counts
SAID: list[tuple[dict[str, Any], tuple[Any, ...], bool, bool]] = [
    ({}, (), False, True),
    ({**PASSED}, (PYTEST,), False, True),
    ({"touched_files": []}, (), False, False),
    ({"touched_files": [], **PASSED}, (PYTEST,), False, False),
    ({"touched_files": [], **SHOWN}, (PYTEST,), False, False),
    ({"touched_files": [], "created_files": ["src/a.py"]}, (), False, True),
    ({"touched_files": ["src/a.py"]}, (), False, True),
    ({"touched_files": []}, (), True, True),
    ({**WHY, **PASSED}, (PYTEST,), False, True),
    ({**WHY, **SHOWN}, (PYTEST,), False, True),
    (WHY, (PYTEST,), False, False),  # nothing says that the verification passed
    (WHY, (), False, False),  # nothing verifies the step
    ({**WHY, "nothing_to_change": " ", **SHOWN}, (PYTEST,), False, False),
    ({**WHY, "nothing_to_change": "", **SHOWN}, (PYTEST,), False, False),
    ({**WHY, "nothing_to_change": None, **SHOWN}, (PYTEST,), False, False),
]


def a_patch(step_id: str, *after: str, allow_empty: bool = False, **fields: Any) -> PlannedStep:
    return a_step(step_id, *after, **fields).model_copy(update={"allow_empty": allow_empty})


def story(plan: Running, step: str) -> list[dict[str, Any]]:
    facts = plan.facts
    return story_of(plan.log, facts)[step]


def done_events(plan: Running) -> list[dict[str, Any]]:
    entries = plan.store.stream(PARTITION.events).entries.values()
    return [codec.loads(each[b"data"]) for each in entries if each[b"type"] == b"dev.planner.step.done.v1"]


@pytest.mark.parametrize(("said", "tools", "allows", "counts"), SAID)
def test_a_success_that_changed_nothing(
    said: dict[str, Any], tools: tuple[Any, ...], allows: bool, counts: bool
) -> None:
    plan = Running(a_patch("a", tools=tools, allow_empty=allows), a_step("z", "a"))

    plan.report(a_report("a", **said))

    assert plan.states == ({"a": "DONE", "z": "ACTIVE"} if counts else {"a": "ACTIVE", "z": "BLOCKED"})


@pytest.mark.parametrize(("mode", "kind"), [(Mode.TEST, StepType.TEST), (Mode.READ_ONLY, StepType.READ)])
def test_steps_that_do_not_patch_change_nothing(mode: Mode, kind: StepType) -> None:
    step = a_step("a").model_copy(update={"mode": mode, "controller_task_spec": ControllerTaskSpec(type=kind)})
    plan = Running(step)

    plan.report(a_report("a", touched_files=[]))

    assert plan.state == "COMPLETED"


def test_the_next_attempt_reads_what_was_missing_and_the_plan_tells_it() -> None:
    plan = Running(a_step("a", retries=2), a_step("z", "a"))

    plan.report(a_report("a", touched_files=[]))

    (spec,) = plan.specs
    assert spec["attempt"] == 2
    assert spec["context"]["previous_failure"]["category"] == "NO_CHANGE"
    assert "nothing_to_change" in spec["context"]["previous_failure"]["suggestion"]
    assert spec["guidance"] == "The last attempt changed no file: make the change that the step asks for."
    (told,) = story(plan, "a")
    assert (told["result"], told["category"], told["reason"]) == ("RETRIED", "NO_CHANGE", "no file was changed")
    assert plan.record.spent["failing_outcomes"] == 1


def test_whoever_does_nothing_again_and_again_completes_no_plan() -> None:
    plan = Running(a_step("a", retries=2), a_step("z", "a"), identical_failures=2, consecutive_failures=5)

    for _ in range(3):
        plan.report(a_report("a", plan.steps["a"].attempt, touched_files=[]))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")
    assert plan.states == {"a": "FAILED", "z": "SKIPPED"}


def test_a_step_is_done_for_the_reason_that_there_is_nothing_to_change() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), a_step("b", tools=(PYTEST,)), a_patch("c", allow_empty=True))

    plan.report(a_report("a", **WHY, **SHOWN))
    plan.report(a_report("b", touched_files=["src/b.py"], nothing_to_change="But for this.", **SHOWN))
    plan.report(a_report("c", touched_files=[]))

    assert plan.state == "COMPLETED"
    assert {each["step_id"]: each.get("reason") for each in done_events(plan)} == {
        "a": "nothing_to_change",
        "b": None,
        "c": None,
    }


def test_where_receipts_are_required_a_reason_without_one_does_not_count() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), requires_receipts=True)

    plan.report(a_report("a", **WHY, **PASSED))

    assert plan.states == {"a": "ACTIVE"}


def split_in_three() -> list[PlannedStep]:
    chain = (a_step("p-1"), a_step("p-2", "p-1"), a_step("p-3", "p-2", retries=1))
    return [*join_pieces(chain), a_step("z", "p-3")]


@pytest.mark.parametrize("changing", ["p-1", "p-2", "p-3"])
def test_of_the_pieces_of_a_split_change_one_has_to_change_something(changing: str) -> None:
    plan = Running(*split_in_three())

    for step in ("p-1", "p-2", "p-3"):
        plan.report(a_report(step, touched_files=[f"src/{step}.py"] if step == changing else []))

    assert plan.states == {"p-1": "DONE", "p-2": "DONE", "p-3": "DONE", "z": "ACTIVE"}


def test_a_liar_who_does_nothing_on_every_piece_gains_nothing() -> None:
    plan = Running(*split_in_three(), consecutive_failures=9)

    for step in ("p-1", "p-2", "p-3", "p-3"):
        plan.report(a_report(step, plan.steps[step].attempt, touched_files=[]))

    assert (plan.state, plan.states["p-3"], plan.states["z"]) == ("HALTED", "FAILED", "SKIPPED")


def test_a_change_that_failed_is_none_of_its_pieces() -> None:
    plan = Running(*split_in_three())

    plan.report(a_failure("p-1", touched_files=["src/p-1.py"]))
    plan.report(a_report("p-1", 2, touched_files=[]))
    plan.report(a_report("p-2", touched_files=[]))
    plan.report(a_report("p-3", touched_files=[]))

    assert plan.states["p-3"] == "ACTIVE"


def test_one_piece_alone_is_no_split_change() -> None:
    assert join_pieces([a_step("a")]) == [a_step("a")]
