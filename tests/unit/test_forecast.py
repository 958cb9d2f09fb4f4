"""What a plan is expected to need yet."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.plan import Budget, BudgetLine
from tasks.rules.forecast import OPEN, Expected, forecast

STATES = ("PENDING", "BLOCKED", "ACTIVE", "DONE", "FAILED", "SKIPPED")


def budget(tokens: int = 0, seconds: int = 0) -> Budget:
    def line(spent: int) -> BudgetLine:
        return BudgetLine(limit=100_000, reserved=0, spent=spent)

    return Budget(tokens=line(tokens), patch_cycles=line(0), failing_outcomes=line(0), wall_clock_s=line(seconds))


def expected(
    state: str, attempts: int = 0, *, flies: bool = False, tokens: int = 1000, kind: str = "PATCH"
) -> Expected:
    facts: dict[str, Any] = {
        "controller_task_spec": {"type": kind}, "estimate": {"tokens": tokens, "patch_cycles": 1}
    }  # fmt: skip
    return Expected(facts, state, attempts, flies)


def test_open_steps_need_their_estimates_and_what_is_in_flight_holds_its_own() -> None:
    steps = [expected("DONE", 1), expected("ACTIVE", 1, flies=True), expected("ACTIVE", 2), expected("BLOCKED")]

    found = forecast(steps, budget(tokens=1500))

    assert (found.steps, found.tokens.needed, found.patch_cycles.needed) == (3, 2000, 2)
    assert found.tokens.likely == 1000  # three attempts have ended, of 3000 estimated tokens 1500 were spent


def test_a_delivery_needs_nothing() -> None:
    found = forecast([expected("PENDING", kind="DELIVER")], budget())

    assert (found.steps, found.tokens.needed) == (0, 0)


def test_the_clock_is_told_by_the_pace_so_far_alone() -> None:
    assert forecast([expected("PENDING")], budget(seconds=60)).wall_clock_s.likely is None
    found = forecast([expected("DONE", 1), expected("DONE", 3), expected("PENDING")], budget(seconds=60))
    assert (found.wall_clock_s.needed, found.wall_clock_s.likely) == (None, 30)


@given(st.lists(st.tuples(st.sampled_from(STATES), st.integers(0, 5), st.integers(0, 10_000)), max_size=20))
def test_nothing_is_needed_where_nothing_is_open_and_never_less_than_nothing(
    steps: list[tuple[str, int, int]],
) -> None:
    found = forecast([expected(state, tries, tokens=tokens) for state, tries, tokens in steps], budget(tokens=500))

    assert found.tokens.needed == sum(tokens for state, _, tokens in steps if state in OPEN)
    assert found.tokens.likely is None or found.tokens.likely >= 0
