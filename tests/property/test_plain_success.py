"""Any plan in which most attempts succeed: whoever takes an outcome for plain decides about it as everybody does."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.outcome import Outcome
from schemas.plain_outcome import read_plain
from schemas.step import PlannedStep
from tests.support import plain
from tests.support.any_plan import FILES, LIMITS, METRICS, SAID, drafts
from tests.support.plans import Running, a_report, a_step

PASSED, OTHER = {"tool": "pytest", "exit_code": 0}, {"tool": "ruff", "exit_code": 0}
RECEIPTS = [[PASSED]] * 6 + [[], [OTHER], [PASSED, OTHER], [{"tool": "pytest", "exit_code": 1}]]
SUCCESS = st.fixed_dictionaries(
    {
        "success": st.just(True),
        "verify": st.sampled_from(RECEIPTS),
        "touched_files": st.sampled_from(["own"] * 9 + [[], [FILES[0]]]),
    },
    optional={
        "tests_passed": st.sampled_from([True] * 5 + [None, False]),
        "created_files": st.sampled_from([[], [], [], ["src/a.py"]]),
        "controller": st.just("c-1"),
    },
)
FIGURES = st.one_of(METRICS, st.fixed_dictionaries({"tokens_used": st.integers(0, 400), "patch_cycles": st.just(1)}))
DOING = st.tuples(st.integers(0, 3), st.one_of(*[SUCCESS] * 9, SAID), FIGURES)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=drafts(),
    limits=st.one_of(*[st.builds(dict, max_parallel=st.integers(1, 4))] * 3, LIMITS),
    doings=st.lists(DOING, min_size=3, max_size=14),
)
def test_a_plain_success_is_decided_as_any_outcome_is(
    steps: list[PlannedStep], limits: dict[str, Any], doings: list[tuple[int, dict[str, Any], dict[str, int]]]
) -> None:
    plan = Running(*steps, **limits)
    before = plain.seen["plain"]
    for number, (place, said, figures) in enumerate(doings):
        active = sorted(plan.active)
        if not active:
            break
        step = active[place % len(active)]
        if said.get("touched_files") == "own":
            said = {**said, "touched_files": plan.active[step].files}
        live = plan.active[step]
        report = a_report(step, live.attempt, live.lease, **said, metrics=figures, diff_hash=str(number))
        plan.report(report)  # both ways are compared there
        plan.rest()
        plan.store.wait(1000 * place)
    event(f"plain: {min(3, plain.seen['plain'] - before)}")


def test_a_chain_of_successes_is_plain_up_to_its_last_step() -> None:
    names = [f"s-{number}" for number in range(6)]
    plan = Running(*[a_step(name, *names[max(0, place - 1) : place]) for place, name in enumerate(names)])
    before = plain.seen["plain"]

    for name in names:
        live = plan.active[name]
        plan.report(a_report(name, live.attempt, live.lease, touched_files=live.files, metrics={"tokens_used": 10}))

    assert plan.state == "COMPLETED"
    assert plain.seen["plain"] - before == len(names) - 1  # the last one ends the plan


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
    said = read_plain(data)
    if said is None:
        return

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
    return [] if repr(found) == "UNSET" else found
