"""A plan goes on under the rules that it began with; a changed rule holds from a version on, as the docs tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.base import policy_version
from tasks.base.policy_text import read_policy
from tasks.base.policy_version import POLICY_VERSION, ChangedRule, is_newer
from tests.support.plans import Running, a_report, a_step

DOCS = Path(__file__).parents[2] / "docs/deployment.md"
FIRST = 1  # before any rule had changed


def growing(policy_version: int) -> Running:
    """A plan that may grow by 10 kB: an attempt makes it smaller by 8, the next larger by 12."""
    plan = Running(a_step("a"), a_step("b"), a_step("c"), policy_version=policy_version, max_growth_kb=10)
    plan.report(a_report("a", growth_kb=-8))
    plan.report(a_report("b", growth_kb=12))
    return plan


def test_a_new_plan_has_the_newest_version() -> None:
    assert Running(a_step("a")).record.head.policy_version == POLICY_VERSION


def test_a_plan_is_decided_by_the_rules_of_its_version() -> None:
    assert growing(FIRST).state == "EXECUTING"
    assert growing(POLICY_VERSION).halt["rule"] == "file_growth"


@pytest.mark.parametrize("rule", ChangedRule)
def test_every_changed_rule_holds_for_new_plans_and_not_for_the_first(rule: ChangedRule) -> None:
    assert not rule.holds(Running(a_step("a"), policy_version=FIRST).record)
    assert rule.holds(Running(a_step("a")).record)


def test_only_plans_of_a_version_to_come_are_left_to_newer_workers() -> None:
    known = [Running(a_step("a"), policy_version=version).record for version in range(FIRST, POLICY_VERSION + 1)]

    assert not any(map(is_newer, known))
    assert is_newer(Running(a_step("a"), policy_version=POLICY_VERSION + 1).record)


def test_a_plan_under_a_policy_of_operators_is_left_alone_by_workers_that_know_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Running(a_step("a"), policy=read_policy(b"[most]\ntokens = 1000")).record
    assert plan.head.policy
    assert not is_newer(plan)

    monkeypatch.setattr(policy_version, "POLICY_VERSION", ChangedRule.POLICIES_ARE_KEPT.since - 1)

    assert is_newer(plan)


def test_the_docs_tell_every_changed_rule() -> None:
    told = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in DOCS.read_text().splitlines()]

    assert {(str(rule.since), rule.says) for rule in ChangedRule} <= set(told)
