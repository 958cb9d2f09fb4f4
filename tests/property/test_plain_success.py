"""Any plan in which most attempts succeed: whoever takes an outcome for plain decides about it as everybody does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schemas import codec
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from schemas.stored import PlanRecord
from tasks.policy import halt_rules, pipeline
from tasks.policy.halt_rules import Counter, Success
from tasks.policy.pipeline import Feature
from tests.support import plain
from tests.support.any_plan import FILES, LIMITS, METRICS, SAID, drafts
from tests.support.commands import order
from tests.support.halts import die
from tests.support.plans import PYTEST, Running, a_check, a_report, a_step, fail_and_rest
from worker.streams.decode import read_plain_outcome
from worker.streams.inbox import StreamEntry


def mostly(usual: st.SearchStrategy[Any], seldom: st.SearchStrategy[Any], times: int) -> st.SearchStrategy[Any]:
    """Draw what is usual so many times as often as what is seldom; `one_of` counts the same strategy once."""
    return st.sampled_from([usual] * times + [seldom]).flatmap(lambda drawn: drawn)


PASSED, OTHER = {"tool": "pytest", "exit_code": 0}, {"tool": "ruff", "exit_code": 0}
RECEIPTS = [[PASSED]] * 16 + [[], [OTHER], [PASSED, OTHER], [{"tool": "pytest", "exit_code": 1}]]
SUCCESS = st.fixed_dictionaries(
    {
        "success": st.just(True),
        "verify": st.sampled_from(RECEIPTS),
        "touched_files": st.sampled_from(["own"] * 28 + [[], [FILES[0]]]),
    },
    optional={
        "tests_passed": st.sampled_from([True] * 14 + [None, False]),
        "created_files": st.sampled_from([[]] * 9 + [["src/a.py"]]),
        "controller": st.just("c-1"),
    },
)
FIGURES = st.one_of(METRICS, st.fixed_dictionaries({"tokens_used": st.integers(0, 400), "patch_cycles": st.just(1)}))


@st.composite
def patches(draw: st.DrawFn) -> list[PlannedStep]:
    """A few steps that all patch, so that most of their successes are plain, up to the one that ends the plan."""
    names = [f"s-{number}" for number in range(draw(st.integers(1, 6)))]
    return [
        a_step(
            name,
            *draw(st.sets(st.sampled_from(names[:number]), max_size=2)) if number else (),
            files=draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True)),
            tools=draw(st.sampled_from([(), (PYTEST,)])),
        )
        for number, name in enumerate(names)
    ]


DOING = st.tuples(st.integers(0, 3), mostly(SUCCESS, SAID, times=19), FIGURES)


@given(
    steps=mostly(patches(), drafts(), times=2),
    limits=mostly(st.builds(dict, max_parallel=st.integers(1, 4)), LIMITS, times=3),
    doings=st.lists(DOING, min_size=10, max_size=14),
)
def test_a_plain_success_is_decided_as_any_outcome_is(
    steps: list[PlannedStep], limits: dict[str, Any], doings: list[tuple[int, dict[str, Any], dict[str, int]]]
) -> None:
    plan = Running(*steps, **limits)
    before, completed = plain.seen["plain"], plain.seen["completed"]
    for number, (place, said, figures) in enumerate(doings):
        active = sorted(plan.active)
        if not active:
            break
        step = active[place % len(active)]
        if said.get("touched_files") == "own":
            said = {**said, "touched_files": plan.active[step].files}
        live = plan.active[step]
        report = a_report(step, live.attempt, live.lease, **said, metrics=figures, diff_hash=f"{number:032x}")
        plan.report(report)  # both ways are compared there
        plan.rest()
        plan.store.wait(1000 * place)
    event(f"plain: {min(3, plain.seen['plain'] - before)}, to the end: {plain.seen['completed'] > completed}")


def test_a_chain_of_successes_is_plain_to_its_end() -> None:
    names = [f"s-{number}" for number in range(6)]
    plan = Running(*[a_step(name, *names[max(0, place - 1) : place]) for place, name in enumerate(names)])
    before, in_parts = plain.seen["plain"], plain.seen["in parts"]

    for name in names:
        succeed(plan, name)

    assert plan.state == "COMPLETED"
    assert plain.seen["in parts"] - in_parts == len(names) * len(plain.AHEAD)
    assert plain.seen["plain"] - before == len(names)


def test_the_end_of_a_plan_is_not_plain_where_it_tells_later_plans_something() -> None:
    plan = Running(a_step("a"), repo="acme/shop", draft={"streak": "gap"})
    before = plain.seen["plain"]

    succeed(plan, "a")

    assert plan.state == "COMPLETED"
    assert plain.seen["plain"] == before


def test_the_end_of_a_plan_is_not_plain_where_an_operator_has_skipped_a_step() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    order(plan, "skip", "b")
    before = plain.seen["plain"]

    succeed(plan, "a")

    assert plan.state == "COMPLETED"
    assert plain.seen["plain"] == before


def with_a_death(*steps: PlannedStep) -> Running:
    """A plan of which one controller died over its attempt, which is in flight once more."""
    plan = Running(*steps, max_parallel=2)
    die(plan, "a")
    plan.rest()
    assert plan.record.counters.lease_deaths == 1
    return plan


def test_a_counter_that_a_success_resets_needs_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_deaths(record: PlanRecord, _: Success) -> None:
        record.counters.lease_deaths = 0

    monkeypatch.setattr(halt_rules, "COUNTERS", (*halt_rules.COUNTERS, Counter(forget_deaths)))
    plan = with_a_death(a_step("a"), a_step("b"))
    before = plain.seen["plain"]

    succeed(plan, "b")  # both ways are compared there

    assert plain.seen["plain"] - before == 1
    assert plan.record.counters.lease_deaths == 0


def test_a_success_is_not_plain_where_a_rule_may_fire_for_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    loud = Counter(lambda *_: None, lambda record, _: not record.counters.lease_deaths)
    monkeypatch.setattr(halt_rules, "COUNTERS", (*halt_rules.COUNTERS, loud))
    plan = with_a_death(a_step("a"), a_step("b"))
    before = plain.seen["plain"]

    succeed(plan, "b")

    assert plain.seen["plain"] == before


def test_what_is_counted_of_a_step_goes_with_its_plain_end() -> None:
    plan = Running(a_check("a"), a_step("b", "a"), a_step("c"), max_parallel=2)
    fail_and_rest(plan, "a", "TEST_TIMEOUT")
    succeed(plan, "c")  # which makes another tree, so that its verification does not flip
    before, counted = plain.seen["plain"], dict(plan.record.counters.timeouts)

    live = plan.active["a"]
    plan.report(a_report("a", live.attempt, live.lease, verify=[PASSED], metrics={"tokens_used": 10}))

    assert plain.seen["plain"] - before == 1
    assert (counted, plan.record.counters.timeouts) == ({"a": 1}, {})


def test_a_success_is_not_plain_beside_a_feature_that_does_not_say_when_it_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = Feature("new", ())
    monkeypatch.setattr(pipeline, "IDLE", [*pipeline.IDLE, (new.is_idle, new.is_idle_about)])
    plan = Running(a_step("a"), a_step("b", "a"))
    before = plain.seen["plain"]

    succeed(plan, "a")

    assert plain.seen["plain"] == before
    assert plan.states == {"a": "DONE", "b": "ACTIVE"}


def succeed(plan: Running, step: str) -> None:
    live = plan.active[step]
    plan.report(a_report(step, live.attempt, live.lease, touched_files=live.files, metrics={"tokens_used": 10}))


def test_steps_that_are_free_start_in_the_place_of_one_that_is_done() -> None:
    plan = Running(*[a_step(f"s-{number}") for number in range(12)], max_parallel=3)
    before = plain.seen["plain"]

    for _ in range(9):
        step, live = next(iter(plan.active.items()))
        plan.report(a_report(step, live.attempt, live.lease, touched_files=live.files))

    assert plain.seen["plain"] - before == 9


ANYTHING = st.one_of(
    st.sampled_from(["", "x", "\ud800", "x" * 201, "\x00", True, False, None, 0, 1, -1, 5.0, 0.5, 1e400, float("nan")]),
    st.sampled_from([10**12, 10**12 + 1, 2**63, 2**64, 10**400, [], [1], ["x"], [""], {}, {"x": 1}, [{}], [[]]]),
    st.integers(),
    st.text(max_size=4),
)
WHOLE = {
    "step_id": "s-1",
    "success": True,
    "plan_id": "plan_00-" + "0" * 32,
    "attempt": 1,
    "lease": "abc",
    "tests_passed": True,
    "touched_files": ["src/a.py"],
    "created_files": [],
    "diff_hash": "abc",
    "metrics": {"tokens_used": 800, "duration_ms": 1, "patch_cycles": 1, "tool_calls": 0, "cost_usd": 0.5},
    "verify": [{"tool": "pytest", "exit_code": 0, "output_digest": "abc"}],
    "controller": "c-1",
    "transcript": {"path": "/tmp/a", "digest": "abc", "host": "here"},
    "commit": "abc",
    "output": None,
}
SPOILT = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(WHOLE.keys() - {"step_id", "plan_id"}, ANYTHING),
        **dict.fromkeys(("growth_kb", "evaluation", "new"), ANYTHING),
    },
)


@given(
    SPOILT, st.sampled_from(["metrics", "verify", "transcript", ""]), SPOILT, st.integers(0, 400), st.binary(max_size=2)
)
def test_what_is_read_as_plain_means_the_same_to_everybody(
    spoilt: dict[str, Any], within: str, inner: dict[str, Any], place: int, noise: bytes
) -> None:
    body: dict[str, Any] = {**WHOLE, **spoilt}
    if within and isinstance(body[within], dict):
        body[within] = {**body[within], **inner}
    data = codec.dump_unbounded(body)
    data = data[:place] + noise + data[place:]
    report = read_plain_outcome(StreamEntry("", b"1-0", {b"data": data}))
    if report is None:
        return
    said = report.said

    outcome = Outcome.model_validate_json(data)
    kept = codec.loads(data)

    assert outcome.success
    assert not outcome.__pydantic_extra__
    for name in said.__struct_fields__:
        told, meant = getattr(said, name), getattr(outcome, name)
        assert (name in outcome.model_fields_set) == (name in kept)
        assert _value(told) == _value(meant)


def _value(found: Any) -> Any:
    if hasattr(found, "__struct_fields__"):
        return {name: _value(getattr(found, name)) for name in found.__struct_fields__}
    if hasattr(found, "model_dump"):
        assert not found.__pydantic_extra__
        return {name: _value(getattr(found, name)) for name in type(found).model_fields}
    if isinstance(found, list | tuple):
        return [_value(each) for each in found]
    return found
