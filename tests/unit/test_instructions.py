"""The instructions that a goal fixes for its agents, and the doubt of a plan whose agents did not get them."""

from __future__ import annotations

import pytest

from tasks.toolchain.instructions import choose, choose_of_goal, digests_of
from tests.support.plans import Running, a_report, a_step

THERE = [
    "AGENTS.md",
    "CLAUDE.md",
    "web/AGENTS.md",
    "web/shop/CLAUDE.md",
    "web/till/AGENTS.md",
    "docs/AGENTS.md",
    "a.py",
]


def test_those_of_the_root_and_the_nearest_above_each_file_are_chosen() -> None:
    assert choose(["web/shop/src/cart.ts", "web/a.ts", "a.py"], THERE) == [
        *("AGENTS.md", "CLAUDE.md", "web/shop/CLAUDE.md", "web/AGENTS.md")
    ]
    assert choose(["web/a.ts"], ["web/README.md", "a.py"]) == []


def test_a_goal_fixes_what_a_new_file_of_its_patterns_may_be_given_too() -> None:
    assert choose_of_goal(["a.py"], ["web/**"], THERE) == [
        *("AGENTS.md", "CLAUDE.md", "web/AGENTS.md", "web/shop/CLAUDE.md", "web/till/AGENTS.md")
    ]
    assert choose_of_goal(["a.py"], [], THERE) == ["AGENTS.md", "CLAUDE.md"]


@pytest.mark.parametrize("fixed", [None, {}, digests_of({"AGENTS.md": "Two blanks."})])
def test_each_spec_has_what_the_goal_fixes(fixed: dict[str, str] | None) -> None:
    plan = Running(a_step("a"), a_step("b", "a"), context={"instructions": fixed})
    first = plan.specs
    plan.report(a_report("a", touched_files=["src/a.py"]))

    assert [spec["context"].get("instructions") for spec in (*first, *plan.specs)] == [fixed, fixed]


@pytest.mark.parametrize("success", [True, False])
def test_that_an_agent_was_not_given_them_stays_with_its_plan(success: bool) -> None:
    why = "Instructions are not given, since the goal has others: AGENTS.md at 9f1c2d4."
    plan = Running(a_step("a"))

    plan.report(a_report("a", success=success, touched_files=["src/a.py"], instructions={"left_out": why}))

    assert plan.record.doubt == why


def test_a_plain_success_may_tell_what_its_agent_was_given() -> None:
    plan = Running(a_step("a"))
    given = digests_of({"AGENTS.md": "Two blanks."})

    plan.report(a_report("a", touched_files=["src/a.py"], instructions={"given": given}))

    assert (plan.state, plan.record.doubt) == ("COMPLETED", None)
