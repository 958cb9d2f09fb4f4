"""The log of a plan that unfolds is enough as well: what its strategy did comes again from the same answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.step import PlannedStep
from tasks.policy import expansion
from tasks.rules.strategy import End, Expansion, LivePlan, Question
from tests.support.any_plan import AROUND, DAY_TOKENS, LIMITS, METRICS, ORDERS, SAID, drafts
from tests.support.growing import FILES, Script, goes_on
from tests.support.plans import a_step
from tests.support.replay import fold_again, run
from tests.support.surroundings import surrounded

MOST = 6  # times that a plan goes on, so that each ends
WHAT = Question("clarify", ("What?",), "## What?\n")
OUTPUTS = st.sampled_from([{"add": 0}, {"add": 1}, {"add": 3}, {"add": 2, "ask": True}, {"ask": True}, "useless", None])
ANSWERS = st.sampled_from(["no", "yes", "nothing"])
DOINGS = st.lists(
    st.one_of(
        st.tuples(
            st.just("report"), st.integers(0, 3), OUTPUTS.map(lambda said: {"success": True, "output": said}), METRICS
        ),
        st.tuples(st.just("report"), st.integers(0, 3), SAID, METRICS),
        st.tuples(st.just("order"), st.integers(0, 11), st.tuples(st.just("answer"), ANSWERS)),
        st.tuples(st.just("order"), st.integers(0, 11), ORDERS),
        st.tuples(st.just("around"), AROUND),
        st.tuples(st.just("wait"), st.sampled_from([1, 2000, 3_600_000])),
    ),
    min_size=4,
    max_size=30,
)


def _on(live: LivePlan, *steps: PlannedStep, **said: Any) -> Expansion | None:
    count = live.state.get("count", 0)
    return goes_on(*steps, state={"count": count + 1}, **said) if count < MOST else None


def _named(live: LivePlan, letter: str, number: int = 0) -> PlannedStep:
    return a_step(f"{letter}-{live.state.get('count', 0)}-{number}", files=["src/a.py"])


def _on_end(live: LivePlan, end: End) -> Expansion | None:
    if not isinstance(end.output, dict):
        return None
    added = [_named(live, "u", number) for number in range(end.output.get("add", 0))]
    return _on(live, *added, question=WHAT if "ask" in end.output else None)


def _on_answer(live: LivePlan, value: Any) -> Expansion | str:
    if value == "no":
        return "no is no answer"
    return _on(live, *([_named(live, "a")] if value == "yes" else [])) or "enough was said"


STRATEGY = Script(
    on_end=_on_end,
    on_answer=_on_answer,
    on_stuck=lambda live: _on(live, _named(live, "r"), replaces=True),
    refuses=lambda output: "this is useless" if output == "useless" else None,
    gives=lambda live: {"count": live.state.get("count", 0)},
)


@given(steps=drafts(), limits=LIMITS, day_tokens=DAY_TOKENS, doings=DOINGS)
def test_the_log_of_a_plan_that_unfolds_gives_the_same_plan(
    steps: list[PlannedStep], limits: dict[str, Any], day_tokens: int | None, doings: list[Any]
) -> None:
    draft = {"state": {}, "document": {"kind": "test"}}
    more = {"kind": "campaign", "files": FILES, "draft": draft, "day_tokens": day_tokens, **limits}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expansion, "strategy_of", lambda _: STRATEGY)
        plan = surrounded(*steps, **more)
        run(plan, doings)

        fold_again(plan, surrounded(*steps, **more))
