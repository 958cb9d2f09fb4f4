"""Which files an attempt created is the planner's to say where it knows the whole listing."""

from __future__ import annotations

from typing import Any

from tests.support.plans import Running, a_report, a_step
from tests.support.wide_steps import GLOBS, a_wide_step

LISTED = {"files": ["src/a.py", "src/b.py"], "files_complete": True}


def a_listed_plan(context: Any = LISTED, **limits: Any) -> Running:
    return Running(a_wide_step(), a_wide_step("b", "a"), files=GLOBS, context=context, **limits)


def test_a_controller_that_lies_about_created_files_is_not_believed() -> None:
    plan = a_listed_plan(max_new_files=1)

    plan.report(a_report("a", touched_files=["src/b.py", "src/new.py", "src/other.py"], created_files=[]))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "file_growth")
    assert plan.record.growth.created == 2


def test_a_file_that_is_listed_was_not_created_whatever_a_controller_says() -> None:
    plan = a_listed_plan(max_new_files=0)

    plan.report(a_report("a", touched_files=["src/b.py"], created_files=["src/b.py"]))

    assert (plan.state, plan.record.growth.created) == ("EXECUTING", 0)


def test_a_file_is_created_once() -> None:
    plan = a_listed_plan(max_new_files=1)

    plan.report(a_report("a", touched_files=["src/new.py"]))
    plan.report(a_report("b", touched_files=["src/new.py"]))

    assert (plan.state, plan.record.growth.created) == ("COMPLETED", 1)


def test_what_a_controller_says_counts_where_the_listing_is_not_whole() -> None:
    plan = a_listed_plan({"files": ["src/a.py"]}, max_new_files=1)

    plan.report(a_report("a", touched_files=["src/b.py", "src/new.py"], created_files=["src/new.py"]))

    assert plan.record.growth.created == 1


def test_a_plan_without_patterns_keeps_no_listing() -> None:
    plan = Running(a_step("a"), files=["src/a.py"], context=LISTED)

    assert "files_listed" not in plan.record.limits
    assert "=listing" not in plan.store.hash(plan.keys.steps)
