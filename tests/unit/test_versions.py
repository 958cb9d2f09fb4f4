"""A plan goes on under the rules that it began with: the next version decides both, and this one leaves its plans."""

from __future__ import annotations

from pathlib import Path

from tasks.base.policy_version import POLICY_VERSION, ChangedRule, is_newer
from tests.support.next_version import NEXT_VERSION, NextRule, next_version
from tests.support.plans import Running, a_report, a_step

DOCS = Path(__file__).parents[2] / "docs/deployment.md"


def a_plan() -> Running:
    return Running(a_step("a"), a_step("b", "a"), tokens=1000)


def spend_most(plan: Running) -> None:
    plan.report(a_report("a", metrics={"tokens_used": 950}))


def test_a_new_plan_has_the_version_of_its_worker() -> None:
    with next_version():
        newer = a_plan()

    assert a_plan().record.head.policy_version == POLICY_VERSION
    assert newer.record.head.policy_version == NEXT_VERSION


def test_a_worker_of_the_next_version_decides_each_plan_by_the_rules_that_it_began_with() -> None:
    before = a_plan()
    with next_version():
        new = a_plan()
        spend_most(before)
        spend_most(new)

    assert (before.state, before.record.head.policy_version) == ("EXECUTING", POLICY_VERSION)
    assert (new.state, new.halt["rule"], new.halt["evidence"]["policy_version"]) == ("HALTED", "budget", NEXT_VERSION)


def test_a_changed_rule_holds_from_its_version_on() -> None:
    with next_version():
        new = a_plan().record

    assert NextRule.A_TENTH_IS_LEFT.holds(new)
    assert not NextRule.A_TENTH_IS_LEFT.holds(a_plan().record)


def test_only_plans_of_a_version_to_come_are_left_to_newer_workers() -> None:
    known = a_plan().record
    with next_version():
        new = a_plan().record
        assert not is_newer(known)
        assert not is_newer(new)

    assert not is_newer(known)
    assert is_newer(new)


def test_the_docs_list_every_changed_rule() -> None:
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in DOCS.read_text().splitlines()]

    assert {(str(rule.since), rule.sentence) for rule in ChangedRule} <= set(rows)
