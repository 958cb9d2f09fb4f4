"""A drafter's answer read in each mode, held to every limit of the schema, and made a plan of where it is free text."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from schemas import codec
from schemas.kinds.evolution import (
    PLANNING_OUTPUT_SCHEMA,
    CommitPlanningContext,
    PlanningAgentRequest,
    PlanningOutput,
    PlanningPlan,
    ValidationMode,
)
from tasks.strategies.drafting.cycle import Refusal
from tasks.strategies.evolution.plan_parser import NO_GUARDRAIL, NO_METRIC, TEST_LINE, ParsedPlan, parse
from tests.support.kinds.evolution import ATTACK, a_plan, a_step

STRICT, LENIENT, NONE = ValidationMode
VALIDATOR = Draft202012Validator(PLANNING_OUTPUT_SCHEMA)


def a_request(**fields: Any) -> PlanningAgentRequest:
    return PlanningAgentRequest.model_validate({"base": {"commit_hash": "b"}, "goal": "Make it faster"} | fields)


def plan_of(output: Any, mode: ValidationMode = STRICT, **request: Any) -> PlanningPlan:
    found = parse(output, mode, a_request(**request))
    assert isinstance(found, ParsedPlan)
    return found.plan


def as_answer(plan: PlanningPlan) -> dict[str, Any]:
    """Say a plan in the words of the schema."""
    told = plan.model_dump(mode="json")
    steps = [{"id": step.pop("step_id"), **step} for step in told.pop("steps")]
    return {"plan_summary": told.pop("summary"), **told, "steps": steps}


def item(size: int) -> list[str]:
    return ["x" * size]


def without(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in whole.items() if each != name}


# field, its least, its most: strings by characters, lists by items and by the characters of one
TEXTS = [("plan_summary", 512), ("rationale", 2048)]
STEP_TEXTS = [("id", 64), ("title", 120), ("intent", 400)]
LISTS = [
    ("focus_metrics", 1, 10, 200),
    ("guardrails", 1, 20, 200),
    ("risks", 1, 20, 200),
    ("validation", 1, 20, 200),
    ("handoff_notes", 0, 20, 200),
]
STEP_LISTS = [
    ("actions", 1, 12, 200),
    ("validation", 1, 12, 200),
    ("files", 0, 30, 256),
    ("references", 0, 12, 256),
    ("dependencies", 0, 12, 200),
    ("risks", 0, 12, 200),
]
OF_TEXTS = [(name, "x" * size, ok) for name, most in TEXTS for size, ok in ((0, 0), (1, 1), (most, 1), (most + 1, 0))]
OF_STEP_TEXTS = [
    (name, "x" * size, ok) for name, most in STEP_TEXTS for size, ok in ((0, 0), (1, 1), (most, 1), (most + 1, 0))
]
CASES = [
    *((a_plan(**{name: value}), ok) for name, value, ok in OF_TEXTS),
    *((a_plan(a_step(**{name: value})), ok) for name, value, ok in OF_STEP_TEXTS),
    *((a_plan(**{name: ["x"] * least}), 1) for name, least, _, _ in LISTS),
    *((a_plan(**{name: []}), 0) for name, least, _, _ in LISTS if least),
    *((a_plan(**{name: ["x"] * most}), 1) for name, _, most, _ in LISTS),
    *((a_plan(**{name: ["x"] * (most + 1)}), 0) for name, _, most, _ in LISTS),
    *((a_plan(**{name: item(size)}), 1) for name, _, _, size in LISTS),
    *((a_plan(**{name: item(size + 1)}), 0) for name, _, _, size in LISTS),
    *((a_plan(a_step(**{name: []})), int(not least)) for name, least, _, _ in STEP_LISTS),
    *((a_plan(a_step(**{name: ["x"] * most})), 1) for name, _, most, _ in STEP_LISTS),
    *((a_plan(a_step(**{name: ["x"] * (most + 1)})), 0) for name, _, most, _ in STEP_LISTS),
    *((a_plan(a_step(**{name: item(size)})), 1) for name, _, _, size in STEP_LISTS),
    *((a_plan(a_step(**{name: item(size + 1)})), 0) for name, _, _, size in STEP_LISTS),
    *(({**a_plan(), "steps": [a_step(f"s{n}") for n in range(count)]}, int(1 <= count <= 6)) for count in (0, 1, 6, 7)),
    (a_plan(a_step(extra=1)), 0),
    (a_plan(fallback_plan=None), 1),
    (a_plan(fallback_plan="x" * 1200), 1),
    (a_plan(fallback_plan="x" * 1201), 0),
    (a_plan(fallback_plan=7), 0),
    (a_plan(rationale=7), 0),
    (a_plan(guardrails="x"), 0),
    (a_plan(a_step(actions=[None])), 0),
    *((without(a_plan(), gone), 0) for gone in a_plan()),
    *((a_plan(without(a_step(), gone)), int(gone == "files")) for gone in a_step()),
    ([], 0),
    ("text", 0),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "holds"), CASES)
def test_the_schema_the_model_and_the_strict_mode_draw_one_line(answer: Any, holds: int) -> None:
    try:
        PlanningOutput.model_validate(answer)
        accepted = True
    except ValidationError:
        accepted = False

    assert VALIDATOR.is_valid(answer) is accepted is bool(holds)
    assert isinstance(parse(answer, STRICT, a_request()), ParsedPlan) is bool(holds)


@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        "  {}\n",
        "```\n{}\n```",
        "```json\n{}\n```",
        "\n  ```json\n{}\n  ```\n",
        "Here it is:\n```json\n{}\n```\nGood luck.",
        "Here it is:\n```\n{}\n```\nand\n```\nls\n```",
        "cut off:\n```json\n{}",
    ],
)
@pytest.mark.parametrize("mode", [STRICT, LENIENT])
def test_fences_and_the_words_around_them_are_taken_off(wrapped: str, mode: ValidationMode) -> None:
    text = wrapped.replace("{}", codec.dumps(a_plan()).decode())

    assert plan_of(text, mode) == plan_of(a_plan())


@pytest.mark.parametrize("text", ["no", "{", '{"plan_summary": "x",}', "```json\n```", "```\n{\n```", "{} {}"])
def test_json_is_not_repaired(text: str) -> None:
    found = parse(text, STRICT, a_request())

    assert isinstance(found, Refusal)
    assert found.errors


def test_every_error_is_told_where_it_is() -> None:
    found = parse(a_plan(a_step(title=""), risks=[], rationale=7), STRICT, a_request())

    assert {error.pointer for error in found.errors} == {"/steps/0/title", "/risks", "/rationale"}


def test_errors_speak_of_json() -> None:
    found = parse(a_plan(steps=[], risks="none"), STRICT, a_request())

    assert {error.pointer: error.message for error in found.errors} == {
        "/steps": "Array should have at least 1 item, not 0",
        "/risks": "Input should be an array",
    }


def test_errors_are_bounded_and_repeat_no_attack() -> None:
    found = parse(a_plan(**{f"{ATTACK} {number}": 1 for number in range(50)}), STRICT, a_request())

    assert len(found.errors) == 20
    assert all("revious" not in error.pointer and len(error.pointer) < 80 for error in found.errors)


def test_lenient_cuts_what_is_too_long_and_drops_what_nobody_asked_for() -> None:
    answer = a_plan(a_step(title="long " * 40, extra=1), a_step("b", actions=["x"] * 40), mood="good")

    found = parse(answer, LENIENT, a_request())

    assert isinstance(found, ParsedPlan)
    assert [len(step.actions) for step in found.plan.steps] == [1, 12]
    assert len(found.plan.steps[0].title) <= 120
    assert found.notes == ("Parts that were too long or not requested were cut.",)
    assert found.errors


def test_lenient_takes_a_step_id_for_an_id() -> None:
    step = {"step_id": "s", **a_step()}
    del step["id"]

    assert plan_of(a_plan(step), LENIENT).steps[0].step_id == "s"


def test_lenient_keeps_the_fields_that_are_right() -> None:
    answer = {"steps": [a_step("kept")], "focus_metrics": ["latency"], "risks": [], "rationale": 7}

    plan = plan_of(answer, LENIENT)

    assert [step.step_id for step in plan.steps] == ["kept"]
    assert plan.focus_metrics == ("latency",)
    assert plan.validation == (TEST_LINE,)


@pytest.mark.parametrize(("mode", "step_id"), [(LENIENT, "lenient-1"), (NONE, "free-1")])
def test_free_text_is_made_a_plan(mode: ValidationMode, step_id: str) -> None:
    base = {"commit_hash": "b", "metrics": [{"name": f"m{n}", "value": n} for n in range(5)]}

    plan = plan_of("Use a heap.", mode, base=base, constraints=["no C"], acceptance_criteria=["2x"])

    assert (plan.summary, plan.focus_metrics, plan.guardrails) == ("Use a heap.", ("m0", "m1", "m2"), ("no C",))
    assert (plan.validation, plan.fallback_plan) == (("2x",), "Use a heap.")
    (step,) = plan.steps
    assert (step.step_id, step.actions, step.validation) == (step_id, ("Use a heap.",), ("2x",))


def test_what_a_request_leaves_open_is_filled_in() -> None:
    plan = plan_of("x", NONE)

    assert (plan.focus_metrics, plan.guardrails, plan.validation) == ((NO_METRIC,), (NO_GUARDRAIL,), (TEST_LINE,))


def test_the_mode_none_reads_no_json() -> None:
    assert plan_of(a_plan(), NONE).steps[0].step_id == "free-1"


@pytest.mark.parametrize("mode", [LENIENT, NONE])
@pytest.mark.parametrize(
    "output", ["x" * 9000, "a b " * 9000, "\n" * 50 + "x", 7, [1, {"a": None}], "é" * 5000, ATTACK]
)
def test_a_plan_of_free_text_is_within_the_limits_of_any_plan(mode: ValidationMode, output: Any) -> None:
    long = {"constraints": ["c" * 200] * 20, "acceptance_criteria": ["a" * 200] * 20, "goal": "g" * 4096}

    answer = as_answer(plan_of(output, mode, **long))

    assert list(VALIDATOR.iter_errors(answer)) == []


def test_no_attack_in_an_answer_reaches_its_plan() -> None:
    step = a_step(title=ATTACK, actions=[ATTACK], risks=[ATTACK], references=[ATTACK], files=[f"a {ATTACK}.py"])
    lists = {name: [ATTACK] for name in ("focus_metrics", "guardrails", "risks", "validation", "handoff_notes")}

    plan = plan_of(a_plan(step, plan_summary=ATTACK, rationale=ATTACK, fallback_plan=ATTACK, **lists))

    assert "revious" not in str(plan.model_dump(mode="json"))


def test_a_plan_is_told_with_lists_as_json_has_them() -> None:
    told = plan_of(a_plan()).model_dump(mode="json")

    assert codec.loads(codec.dumps(told)) == told
    assert isinstance(told["steps"][0]["actions"], list)


def test_a_request_keeps_its_lists_as_tuples() -> None:
    context = CommitPlanningContext.model_validate(
        {"commit_hash": "c", "key_files": ["a"], "highlights": ["h"], "trajectory": ["t"], "measures": [1]}
    )

    assert (context.key_files, context.highlights, context.trajectory) == (("a",), ("h",), ("t",))
    assert context.measures == (1.0,)
