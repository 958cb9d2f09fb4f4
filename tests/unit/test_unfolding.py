"""A plan that goes on from what its steps answer: asked, refused, unfolded, rescued; always within its limits."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.command import Command
from tasks.policy.waits import APPROVAL_MS
from tasks.rules.strategy import MAX_EXPANSION, Phase, Question
from tests.support.growing import Script, goes_on, growing
from tests.support.plans import Running, a_check, a_failure, a_report, a_step

ASKED = Question("clarify", ("Which file?",), "## Blocking Questions\n1. Which file?\n")
RECALL = "recall:"


def done(plan: Running, step: str, output: Any = None, **said: Any) -> None:
    assert plan.report(a_report(step, output=output, diff_hash=f"{step}-{plan.record.version}", **said)) == ["applied"]


def order(plan: Running, command: str, value: Any = None, order_id: str = "o-1") -> str:
    body = {"command_id": order_id, "command": command, "scope": "plan", "plan_id": plan.plan_id, "value": value}
    plan.obey(Command.model_validate({**body, "actor": "ada", "reason": "why"}))
    return plan.events[-1] if plan.events[-1].startswith("dev.planner.command") else told(plan)[-1]


def told(plan: Running) -> list[str]:
    return [name for name in plan.events if ".command." in name]


def counters(plan: Running) -> dict[str, int]:
    (found,) = [dict(value) for key, value in plan.store.keys.items() if RECALL in key] or [{}]
    return found


def test_what_a_step_answers_becomes_the_next_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_end=lambda _, end: goes_on(a_step("b"), a_step("c", "b")) if end.step_id == "a" else None)
    plan = growing(monkeypatch, script, a_step("a"))

    done(plan, "a", {"found": ["src/b.py"]})

    assert script.ends[0].output == {"found": ["src/b.py"]}
    assert plan.states == {"a": "DONE", "b": "ACTIVE", "c": "BLOCKED"}
    assert plan.record.revision == 2
    assert plan.log[-1]["revisions"][0]["diff"] == {"added": ["b", "c"]}
    done(plan, "b")
    done(plan, "c")
    assert plan.state == "COMPLETED"


def test_an_unfolding_passes_through_revising_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = (Phase("DESIGN", "Step: design"),)
    script = Script(on_end=lambda _, end: goes_on(a_step("b"), phases=phases) if end.step_id == "a" else None)
    plan = growing(monkeypatch, script, a_step("a"))

    done(plan, "a")

    assert plan.log[-1]["moves"][1:3] == [["", "EXECUTING", "REVISING"], ["", "REVISING", "EXECUTING"]]
    assert {"dev.planner.plan.unfolded.v1", "dev.planner.plan.phase.v1"} <= {*plan.events}


def test_each_end_is_judged_by_what_the_one_before_left(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_end=lambda growth, _: goes_on(state={"count": growth.state.get("count", 0) + 1}))
    plan = growing(monkeypatch, script, a_step("a"), a_step("b"), a_step("c"))

    plan.report(*[a_report(step) for step in "abc"])

    growth = codec.loads(plan.store.hash(plan.keys.plan)["strategy_state"])
    assert growth["state"] == {"count": 3}


def test_an_answer_of_no_use_is_a_failed_attempt_that_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(refuses=lambda output: None if output else "the answer is empty"), a_step("a"))

    done(plan, "a", {})

    (spec,) = plan.specs
    assert spec["attempt"] == 2
    assert spec["context"]["previous_failure"]["category"] == "OUTPUT_REFUSED"
    assert spec["context"]["previous_failure"]["suggestion"] == "the answer is empty"
    done(plan, "a", {"found": 1})
    assert plan.state == "COMPLETED"


def test_the_same_refusal_twice_is_no_identical_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(refuses=lambda _: "never good", on_end=lambda *_: goes_on(a_step("b")))
    plan = growing(monkeypatch, script, a_step("a", retries=1), identical_failures=2)

    done(plan, "a")
    done(plan, "a")

    assert script.ends[0].state == "FAILED"
    assert plan.states == {"a": "FAILED", "b": "ACTIVE"}


def test_what_a_step_is_given_beside_its_spec_is_as_the_plan_stands_then(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(
        on_end=lambda _, end: goes_on(a_step("b"), state={"version": 2}) if end.step_id == "a" else None,
        gives=lambda growth: {"version": growth.state.get("version", 1)},
    )
    plan = growing(monkeypatch, script, a_step("a"))
    assert plan.specs[0]["input"] == {"version": 1}

    done(plan, "a")

    assert plan.specs[0]["input"] == {"version": 2}


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([a_step("b", files=("etc/passwd",))], "outside_allowlist"),
        ([a_step("a")], "duplicate_step_id"),
        ([a_step("b", "a")], "unknown_dependency"),
        ([a_step("b", "c"), a_step("c", "b")], "cyclic_dependency"),
        ([a_step(name) for name in "bcdef"], "too_many_steps"),
    ],
)
def test_what_unfolds_is_judged_like_any_plan(monkeypatch: pytest.MonkeyPatch, steps: list[Any], code: str) -> None:
    plan = growing(monkeypatch, Script(on_end=lambda *_: goes_on(*steps)), a_step("a"), max_steps=4)

    done(plan, "a")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "invalid_unfolding")
    assert code in {error["code"] for error in plan.halt["evidence"]["errors"]}


def test_no_more_unfolds_at_once_than_one_commit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [a_step(f"s-{number}", files=("src/b.py",)) for number in range(MAX_EXPANSION + 1)]
    plan = growing(monkeypatch, Script(on_end=lambda *_: goes_on(*steps)), a_step("a"))

    done(plan, "a")

    assert plan.halt["rule"] == "invalid_unfolding"


def test_a_strategy_can_halt_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    halt = ("answer_deadline", "it is over", {"until": "now"})
    plan = growing(monkeypatch, Script(on_end=lambda *_: goes_on(halt=halt)), a_step("a"), a_step("b"))

    done(plan, "a")

    assert (plan.state, plan.halt["reason"]) == ("HALTED", "it is over")
    assert plan.states == {"a": "DONE", "b": "HALTED"}


def test_steps_that_failed_can_be_replaced_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    again = a_step("a-r2", files=["src/a.py"]), a_step("b-r2", "a-r2", files=["src/b.py"])
    script = Script(on_stuck=lambda live: goes_on(*again, replaces=True) if live.steps == 2 else None)
    plan = growing(monkeypatch, script, a_step("a", retries=0), a_step("b", "a"))

    plan.report(a_failure("a"))
    assert plan.states == {"a": "FAILED", "b": "SKIPPED", "a-r2": "ACTIVE", "b-r2": "BLOCKED"}
    done(plan, "a-r2")
    done(plan, "b-r2")

    assert plan.state == "COMPLETED"


def test_a_plan_that_cannot_be_rescued_halts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), a_step("a", retries=0))

    plan.report(a_failure("a"))

    assert plan.halt["rule"] == "cannot_revise"


def test_a_strategy_hears_of_what_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    plan = growing(monkeypatch, script, a_step("a", retries=0), a_step("b", "a"))

    plan.report(a_failure("a"))

    assert [(end.step_id, end.state) for end in script.ends] == [("a", "FAILED"), ("b", "SKIPPED")]


def test_a_plan_that_asks_first_waits_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_answer=lambda _, value: goes_on(a_step("a")) if value == "src/a.py" else "say a file")
    plan = growing(monkeypatch, script, question=ASKED)
    assert (plan.state, plan.states) == ("CREATED", {})

    assert order(plan, "answer", "whatever").endswith("refused.v1")
    assert plan.state == "CREATED"
    assert order(plan, "answer", "src/a.py", "o-2").endswith("obeyed.v1")

    assert (plan.state, plan.states) == ("EXECUTING", {"a": "ACTIVE"})
    assert plan.changes[-1].settles == "PLANNED"
    assert plan.record.question is None


def test_an_answer_may_lead_to_the_next_question(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Question("confirm", ("Sure?",))
    plan = growing(monkeypatch, Script(on_answer=lambda *_: goes_on(question=again)), question=ASKED)

    order(plan, "answer", "src/a.py")

    assert plan.state == "CREATED"
    assert plan.record.question is not None
    assert plan.record.question["kind"] == "confirm"


@pytest.mark.parametrize("command", ["cancel", "halt"])
def test_a_plan_that_asks_first_can_be_cancelled(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    plan = growing(monkeypatch, Script(), question=ASKED)

    order(plan, command)

    assert (plan.state, plan.halt["rule"]) == ("REJECTED", "manual")
    assert plan.halt["reason"].startswith(f"{command} by ada: ")
    assert plan.halt["evidence"]["actor"] == "ada"
    assert plan.changes[-1].settles == "REJECTED"


@pytest.mark.parametrize("command", ["pause", "resume", "top_up", "tighten"])
def test_other_orders_wait_until_the_plan_is_made(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    plan = growing(monkeypatch, Script(), question=ASKED)

    assert order(plan, command).endswith("refused.v1")
    assert plan.state == "CREATED"


def test_a_question_that_nobody_answers_ends_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), question=ASKED)

    plan.store.wait(APPROVAL_MS - 1)
    plan.sweep()
    assert plan.state == "CREATED"
    plan.store.wait(1)
    plan.sweep()

    assert (plan.state, plan.halt["rule"]) == ("REJECTED", "answer_deadline")
    assert plan.halt["evidence"]["questions"] == [*ASKED.questions]


def test_the_operator_says_how_long_a_question_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), question=ASKED, answer_wait_s=3600)

    plan.store.wait(3_599_999)
    plan.sweep()
    assert plan.state == "CREATED"
    plan.store.wait(1)
    plan.sweep()

    assert (plan.state, plan.halt["rule"]) == ("REJECTED", "answer_deadline")


def test_an_answer_that_leads_to_nothing_rejects_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(on_answer=lambda *_: goes_on()), question=ASKED)

    order(plan, "answer", "x")

    assert (plan.state, plan.halt["rule"]) == ("REJECTED", "invalid_unfolding")


def test_a_running_plan_asks_and_its_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(
        on_end=lambda _, end: goes_on(question=ASKED) if end.step_id == "a" else None,
        on_answer=lambda *_: goes_on(a_step("b")),
    )
    plan = growing(monkeypatch, script, a_step("a"), wall_clock_s=600)
    done(plan, "a")
    plan.store.wait(3600 * 1000)
    plan.sweep()
    assert plan.state == "EXECUTING"

    order(plan, "answer", "yes")

    assert plan.states == {"a": "DONE", "b": "ACTIVE"}
    done(plan, "b")
    assert plan.state == "COMPLETED"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ({"touched_files": ["src/a.py"]}, ("src/a.py",)),
        ({}, ("src/a.py", "src/b.py")),  # who does not tell may have changed all
        ({"touched_files": []}, ()),
    ],
)
def test_a_strategy_hears_how_a_mend_ended(
    said: dict[str, Any], heard: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    steps = (a_step("a"), a_step("b"), a_check("t", "a", "b"))
    plan = growing(monkeypatch, script, *steps)
    for step in "ab":
        done(plan, step)
    plan.report(a_failure("t"))

    plan.report(a_report("t-mend", **said))

    told = {end.step_id: end for end in script.ends}
    assert told["t-mend"].touched_files == heard
    assert "t-baseline" not in told


def test_a_running_plan_whose_question_nobody_answers_halts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(on_end=lambda *_: goes_on(question=ASKED)), a_step("a"))
    done(plan, "a")

    plan.store.wait(APPROVAL_MS)
    plan.sweep()

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "answer_deadline")


def test_a_plan_counts_up_what_its_like_share(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), a_step("a", retries=0), draft={"counted": "iterations", "streak": "gap:1"})
    assert counters(plan) == {"iterations": 1}

    plan.report(a_failure("a"))
    assert counters(plan) == {"iterations": 1, "gap:1": 1}


def test_a_completed_plan_ends_the_streak(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), a_step("a", retries=0), draft={"streak": "gap:1"})
    (name,) = {
        recall.name for recall in growing(monkeypatch, Script(), a_step("a"), draft={"counted": "n"}).changes[0].history
    }
    plan.store.hash(f"planner:{{0}}:recall:{name}")["gap:1"] = 2

    done(plan, "a")

    assert counters(plan) == {}


def test_an_operators_end_is_no_failure_of_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = growing(monkeypatch, Script(), a_step("a"), draft={"streak": "gap:1"})

    order(plan, "halt")

    assert counters(plan) == {}


def test_a_plan_that_has_ended_asks_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_end=lambda *_: goes_on(question=ASKED))
    plan = growing(monkeypatch, script, a_step("a"))
    done(plan, "a")
    assert plan.record.question is not None

    order(plan, "halt")

    assert plan.state == "HALTED"
    assert plan.record.question is None
