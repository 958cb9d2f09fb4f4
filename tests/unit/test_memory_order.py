"""The order of independent steps by memory: who goes first, who stays, and that nothing starves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.goal import Goal
from schemas.step import PlannedStep
from schemas.times import DAY_MS
from tasks.features.outcome_memory import compare_steps, put_in_order, read
from tasks.memory.alike import ENOUGH, Past
from tasks.memory.order import LIKELY, RISKY, arrange
from tasks.rules.strategy import Draft
from tests.support.memory_store import EPOCH_MS
from tests.support.plans import a_check, a_plan_seed, a_step


def past(**rates: float) -> dict[str, Past]:
    return {name: Past(ENOUGH, rate, {}) for name, rate in rates.items()}


@pytest.mark.parametrize(
    ("by", "known", "expected"),
    [
        (LIKELY, past(a=0.2, b=0.9), ["b", "c", "a"]),
        (RISKY, past(a=0.9, b=0.2), ["b", "c", "a"]),
        (LIKELY, past(a=0.9, b=0.2), ["a", "c", "b"]),  # the mean, which c counts as, is 0.6
        (LIKELY, past(a=0.52, b=0.54, c=0.5), []),
        (LIKELY, {"a": Past(ENOUGH - 1, 0.0, {}), "b": Past(ENOUGH - 1, 1.0, {})}, []),
        (LIKELY, {}, []),
    ],
)
def test_independent_steps_go_by_how_often_their_like_succeeded(
    by: int, known: Mapping[str, Past], expected: list[str]
) -> None:
    assert arrange([a_step("a"), a_step("b"), a_step("c")], known, by) == expected


def test_what_depends_on_a_step_follows_it_and_another_mode_keeps_its_place() -> None:
    steps = [a_step("a"), a_step("a2", "a"), a_step("b"), a_step("b2", "b"), a_check("t")]
    assert arrange(steps, past(a=0.1, b=0.9, t=1.0), LIKELY) == ["b", "a", "a2", "b2", "t"]
    chain = [a_step("a"), a_step("b", "a"), a_step("c", "b")]
    assert arrange(chain, past(a=0.1, b=0.5, c=0.9), LIKELY) == []


@given(st.lists(st.tuples(st.sets(st.integers(0, 8)), st.floats(0, 1) | st.none()), max_size=9))
def test_every_step_stays_once_and_behind_what_it_depends_on(rows: list[tuple[set[int], float | None]]) -> None:
    steps = [a_step(f"s{n}", *[f"s{after}" for after in sorted(deps) if after < n]) for n, (deps, _) in enumerate(rows)]
    known = past(**{f"s{n}": rate for n, (_, rate) in enumerate(rows) if rate is not None})
    names = [step.step_id for step in steps]
    order = arrange(steps, known, LIKELY) or names
    assert sorted(order) == names
    place = {name: at for at, name in enumerate(order)}
    assert all(place[after] < place[step.step_id] for step in steps for after in step.depends_on)


def made(*categories: str, switches: Mapping[str, int] | None = None) -> tuple[PlannedStep, ...]:
    """The steps of a plan in a repository in which one of two, titled so, always ended in these."""
    title, today = "Mend the sum of the cart", EPOCH_MS // DAY_MS
    raw = [codec.dumps([today, "fix_test", title, ["src/a.py"], [], 1, *filter(None, [one])]) for one in categories]
    raw += [codec.dumps([today, "fix_test", "Price of shirts", ["src/b.py"], [], 1])] * 5
    goal = Goal.model_validate({"goal": "Fix the shop", "context": {"repo": "acme/shop"}})
    steps = a_step("a").model_copy(update={"title": title}), a_step("b").model_copy(update={"title": "Price of shirts"})
    born = replace(a_plan_seed(), recalled={"outcomes": read(raw, goal, EPOCH_MS)}, switches=switches or {})
    kept = compare_steps(born, goal, Draft(steps))
    ordered = put_in_order(kept, steps)
    assert put_in_order(compare_steps(kept, goal, Draft(ordered)), ordered) == ordered, "a replay decides alike"
    return ordered


def test_a_plan_begins_in_the_order_that_its_setting_asks_for() -> None:
    assert [step.step_id for step in made(*["LINT_ERROR"] * 5)] == ["b", "a"]
    assert [step.step_id for step in made(*["LINT_ERROR"] * 4)] == ["a", "b"]
    assert [step.step_id for step in made(*[""] * 5)] == ["a", "b"]
    assert [step.step_id for step in made(*["LINT_ERROR"] * 5, switches={"memory_order": 0})] == ["a", "b"]
    assert [step.step_id for step in made(*["LINT_ERROR"] * 5, switches={"memory_order": 2})] == ["a", "b"]
