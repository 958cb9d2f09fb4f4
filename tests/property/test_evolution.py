"""Any history is told within its limits, and any answer is read: a valid plan, or errors; never an exception."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from schemas.kinds.evolution import (
    PLANNING_OUTPUT_SCHEMA,
    CommitCard,
    PlanningAgentRequest,
    PlanningOutput,
    ValidationMode,
)
from tasks.handlers import goals
from tasks.rules.strategy import Consult, Draft, Drafted, End, Rejected, Setting
from tasks.rules.validation import validate
from tasks.strategies import evolution
from tasks.strategies.drafting.cycle import Refusal
from tasks.strategies.evolution.plan_parser import parse
from tasks.strategies.evolution.trajectory import History, TrajectoryOptions, rollup, spans
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.examples import few_and_many
from tests.support.kinds.evolution import ATTACK, FILES, a_goal, a_plan, a_step, after, grown, through_json

VALIDATOR = Draft202012Validator(PLANNING_OUTPUT_SCHEMA)
PLANNINGS = st.builds(
    TrajectoryOptions, block_size=st.integers(1, 12), max_chunks=st.integers(0, 5), max_raw_steps=st.integers(0, 12)
)
TEXT = st.one_of(
    st.sampled_from(["a", "b", "pytest", "src/a.py", ATTACK, "", " ", "\u200b", "```"]), st.text(max_size=12)
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
NAMES = st.sampled_from(["a", "b", "c", "A", "draft-plan", "verify-plan", "fall-back-1", "a-1", "Do a", "漢"])
STEP = st.builds(
    lambda name, fields: a_step(name, **fields),
    NAMES,
    st.fixed_dictionaries(
        {},
        optional={
            "files": st.lists(st.sampled_from([*FILES, "./src/a.py", "src/x.py", "/etc/passwd", ".env"]), max_size=4),
            "dependencies": st.lists(NAMES, max_size=3),
            "validation": st.lists(
                st.sampled_from(["pytest -q", "rm -rf /", "`mypy src`", "fine"]), min_size=1, max_size=3
            ),
            "actions": st.lists(TEXT.filter(bool), min_size=1, max_size=3),
            "title": TEXT,
            "odd": JSON,
        },
    ),
)  # fmt: skip
PLANS = st.builds(
    lambda steps, fields: {**a_plan(), "steps": steps, **fields},
    st.lists(STEP, max_size=7),
    st.dictionaries(st.sampled_from(["risks", "rationale", "fallback_plan", "validation", "odd"]), JSON, max_size=2),
)
OUTPUTS = st.one_of(JSON, PLANS, st.text(max_size=40))


@given(st.integers(1, 40), st.integers(0, 60), PLANNINGS)
def test_what_is_shown_and_what_is_omitted_add_up(first: int, count: int, options: TrajectoryOptions) -> None:
    found = spans(range(first, first + count), options)

    chunked = [step for start, end in found.chunks for step in range(start, end)]
    shown = {*range(found.earliest), *chunked, *range(found.recent, count)}
    assert len(shown) + found.omitted == count
    assert chunked == sorted(set(chunked))
    assert found.earliest <= found.recent
    assert all(step < found.recent for step in chunked)
    assert all(end - start == options.block_size for start, end in found.chunks)
    assert all((first + end - 1) % options.block_size == 0 for _, end in found.chunks)
    assert len(found.chunks) <= options.max_chunks
    assert found.earliest <= options.max_raw_steps
    assert count - found.recent <= options.max_raw_steps + max(0, options.block_size - 1)
    assert count - found.recent >= min(count, options.max_raw_steps)
    assert found.recent in (0, count) or (first + found.recent - 1) % options.block_size == 0


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(0, 45), st.integers(0, 45), PLANNINGS)
@settings(deadline=None)
def test_any_history_is_told_in_order_and_counts_add_up(
    parents: list[int], base: int, tip: int, options: TrajectoryOptions
) -> None:
    cards = [CommitCard(commit_hash=f"c{n}", parent_commit_hash=f"c{parent}") for n, parent in enumerate(parents)]

    found = rollup(History.of(cards, f"c{base}", "c3"), f"c{tip}", options)

    omitted = [line for line in found.lines if line.startswith("Omitted ")]
    assert len(omitted) == (1 if found.meta.get("omitted_steps") else 0)
    assert all(found.lines)
    if found.meta:
        assert found.lines[0].startswith(f"unique_steps_count: {found.meta['unique_steps_count']} (lca ")
        assert omitted == list(found.lines[-1:]) or not omitted
        assert 0 <= found.meta["omitted_steps"] <= found.meta["unique_steps_count"]


@given(OUTPUTS, st.sampled_from(ValidationMode))
def test_any_answer_is_read(output: Any, mode: ValidationMode) -> None:
    request = PlanningAgentRequest.model_validate({"base": {"commit_hash": "b"}, "goal": "Faster"})

    found = parse(output, mode, request)

    refused = isinstance(found, Refusal)
    assert refused <= bool(found.errors)
    assert mode is ValidationMode.STRICT or not refused or found.errors[0].code == "empty_output"
    assert mode is not ValidationMode.STRICT or refused is bool(found.errors)
    assert "revious instructions" not in str(found)


@given(st.one_of(JSON, PLANS))
def test_the_schema_and_the_model_agree(output: Any) -> None:
    try:
        PlanningOutput.model_validate(output)
        accepted = True
    except ValueError:
        accepted = False

    assert accepted is VALIDATOR.is_valid(output)


@few_and_many(
    75, 300, OUTPUTS, st.sampled_from(["strict", "lenient", "none"]), suppress_health_check=[HealthCheck.too_slow]
)
def what_is_not_refused_unfolds(output: Any, mode: str) -> None:
    growth = grown(a_goal(mode))
    if evolution.refusal(growth, {"step_id": "draft-plan"}, output):
        return

    found = evolution.advance(growth, End("draft-plan", {"step_id": "draft-plan"}, "DONE", output), CATALOGUE)

    assert found is not None
    assert found.halt is None
    assert found.steps
    assert validate(growth.goal, found.steps) == ()
    assert through_json(found.state) == found.state
    fallback = evolution.stuck(after(growth, found), CATALOGUE)
    if fallback:
        assert validate(growth.goal, fallback.steps) == ()
        assert not {step.step_id for step in fallback.steps} & {step.step_id for step in found.steps}


(
    test_what_is_not_refused_unfolds_into_steps_that_validate,
    test_what_is_not_refused_unfolds_into_steps_that_validate_at_length,
) = what_is_not_refused_unfolds


@given(OUTPUTS)
def test_any_answer_to_the_search_for_files_is_read(output: Any) -> None:
    files = [*FILES, *(f"src/m{number}.py" for number in range(9))]
    drafting = grown(a_goal("strict", files=files))
    plan = a_plan(a_step("a", files=[]), a_step("b"))
    growth = after(drafting, evolution.advance(drafting, End("draft-plan", {}, "DONE", plan), CATALOGUE))  # type: ignore[arg-type]

    refused = evolution.refusal(growth, {"step_id": "find-files"}, output)
    found = evolution.advance(growth, End("find-files", {}, "DONE", output), CATALOGUE)

    assert found is not None
    assert (found.halt is None) is (refused is None)
    assert found.halt or validate(growth.goal, found.steps) == ()


@given(
    st.lists(st.builds(Drafted, OUTPUTS, st.none() | TEXT, st.integers(0, 9), st.integers(0, 9)), max_size=4),
    st.sampled_from(["strict", "lenient", "none"]),
    st.integers(0, 4),
)
@example([Drafted({"a": -(2**63) - 1})], "strict", 2)
def test_a_drafter_is_asked_until_there_is_a_plan_and_no_longer(said: list[Drafted], mode: str, attempts: int) -> None:
    setting = Setting(drafter="http", drafted=tuple(said), options={"max_attempts": attempts})

    found = goals.plan(a_goal(mode), CATALOGUE, setting)

    assert isinstance(found, Draft | Rejected | Consult)
    assert said or isinstance(found, Consult)
    assert len(said) < max(1, attempts) or not isinstance(found, Consult)
    assert not isinstance(found, Consult) or "revious instructions" not in found.prompt
    if isinstance(found, Draft):
        assert said[-1].error is None
        assert found.document
        assert (found.document["attempts"], found.tokens) == (len(said), sum(each.tokens for each in said))
    if isinstance(found, Rejected):
        assert (found.reason, found.errors[0].pointer) == ("planning_failed", "/drafter")
