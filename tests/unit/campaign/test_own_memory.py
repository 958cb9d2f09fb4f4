"""A campaign that brings no memory goes by what the planner itself remembers of its repository."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.handlers import goals
from tasks.rules.strategy import Consult, Draft, Setting
from tests.support.kinds.campaign import a_goal, an_exploration

PAST = (
    {"title": "Add the session store", "files": ["src/store.py"], "attempts": 5, "succeeded": 1}
    | {"failed": {"TYPE_ERROR": 4}, "wasted_tokens": 10_000, "verify": ["mypy"], "score": 0.5},
    {"title": "Read the session", "files": [], "attempts": 2, "succeeded": 2, "failed": {}}
    | {"wasted_tokens": 0, "verify": [], "score": 0.4},
)
EMPTY = an_exploration(memory={"status": "ok"})
OTHER = {"failures": [{"name": "slow clock", "cost": 5000, "fix": "freeze it"}]}


def asked_with(setting: Setting, **fields: Any) -> str:
    answer = goals.plan(a_goal(**fields), setting=setting)
    assert isinstance(answer, Consult), answer
    return answer.prompt


@pytest.mark.parametrize("exploration", [None, EMPTY, an_exploration(memory=None)])
def test_without_a_memory_of_the_goal_the_planners_own_stands_in(exploration: dict[str, Any] | None) -> None:
    fields = {"exploration": exploration} if exploration else {}
    told = asked_with(Setting(drafter="http", memory=PAST), **fields)
    assert "Add the session store: look out for TYPE_ERROR" in told
    assert "Read the session: Read the session (no files): 2 of 2 succeeded" in told

    without = asked_with(Setting(drafter="http"), **fields)
    assert "session store" not in without


def test_a_memory_that_the_goal_or_its_exploration_brings_goes_before_it() -> None:
    for fields in ({"memory": OTHER}, {"exploration": an_exploration(memory={"status": "ok", **OTHER})}):
        told = asked_with(Setting(drafter="http", memory=PAST), **fields)
        assert "slow clock: freeze it" in told
        assert "session store" not in told


def test_what_failed_before_makes_a_campaign_more_complex_by_the_tokens_that_it_cost() -> None:
    found = [goals.plan(a_goal(exploration=EMPTY), setting=Setting(memory=memory)) for memory in ((), PAST)]
    costs = [(each.document or {})["complexity"] for each in found if isinstance(each, Draft)]
    assert costs[1] - costs[0] == 2  # five thousand tokens are one
