"""A policy of operators: what its file may say, what is told of a wrong one, and what it does to goals and steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.goal import Goal
from schemas.stored import PlanHead
from tasks.base.policy import BUILT_IN, Policy
from tasks.base.policy_text import MAX_BYTES, MOST_TOLD, WrongPolicy, read_policy
from tasks.handlers import goals
from tasks.rules import budget
from tasks.rules.strategy import Draft, Setting
from tests.support.plans import Running, a_failure, a_plan_seed, a_step

EXAMPLE = Path(__file__).parents[2] / "docs/examples/policy.toml"


def policy(text: str) -> Policy:
    return read_policy(text.encode())


def a_goal(repo: str | None = None, **fields: Any) -> Goal:
    return Goal.model_validate({"goal": "Do it", "context": {"repo": repo, "language": "python"}, **fields})


def test_the_example_of_the_docs_is_a_policy_and_names_everything_that_a_policy_can_say() -> None:
    found = read_policy(EXAMPLE.read_bytes())

    goal = a_goal("acme/payments", kind="campaign", tenant="acme", limits={"tokens": 10**6, "failing_outcomes": 3})
    limits = budget.limits_of(goal, found)
    assert (limits["tokens"], limits["wall_clock_s"], limits["failing_outcomes"]) == (500_000, 14_400, 3)
    assert (limits["max_parallel"], limits["max_growth_kb"], limits["max_new_files"]) == (2, 200, 20)
    assert {*budget.approvals_of(goal, found)} == {RiskLevel.MED, RiskLevel.HIGH}
    assert (found.most_retries("HIGH", "TYPE_ERROR"), found.most_retries("LOW", "FLAKY_TEST")) == (0, 1)
    assert found.attempts[RiskLevel.LOW] == BUILT_IN.attempts[RiskLevel.LOW]


def test_an_empty_policy_changes_nothing_but_the_digest() -> None:
    found = policy("")

    assert (found.attempts, found.retries) == (BUILT_IN.attempts, BUILT_IN.retries)
    assert budget.limits_of(a_goal(), found) == budget.limits_of(a_goal())
    assert len(found.digest) == 32
    assert policy("# another text").digest != found.digest


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[defaults]\ntokns = 5000", ["line 2, defaults.tokns: there is no such key: it may be `tokens`."]),
        ("[kind.campain.most]\ntokens = 5000", ["line 1, kind.campain: there is no such key: it may be `campaign`."]),
        ("[risk.high]\nretries = 0", ["line 1, risk.high: there is no such key: it may be `HIGH`."]),
        ("[retries]\nFLAKY = 1", ["line 2, retries.FLAKY: there is no such key: it may be `FLAKY_TEST`."]),
        ("tenants = 1", ["line 1, tenants: there is no such key: it may be `tenant`."]),
        (
            "[most]\ntokens = '5000'\nmax_steps = 0",
            [
                "line 2, most.tokens: input should be an integer, not '5000'.",
                "line 3, most.max_steps: input should be greater than or equal to 1, not 0.",
            ],
        ),
        ("[risk.LOW]\nretries = 4", ["line 2, risk.LOW.retries: input should be less than or equal to 3, not 4."]),
        ("[risk.HIGH]\nretries = 2", ["line 2, risk.HIGH.retries: 2 is more than 1; a policy only tightens."]),
        ("[retries]\nUNKNOWN = 2", ["line 2, retries.UNKNOWN: 2 is more than 1; a policy only tightens."]),
        (
            '[repository."a/b"]\nmost.tokens = 5000\ndefaults.tokens = 6000',
            ['line 3, repository."a/b".defaults.tokens: 6000 is above most.tokens, 5000.'],
        ),
        (
            "[defaults]\ntokns = 1\n[risk.HIGH]\nretries = 3\n[kind]\nx = 1\n[tenant.a]\napprovals = ['low']",
            [
                "line 2, defaults.tokns: there is no such key: it may be `tokens`.",
                "line 4, risk.HIGH.retries: 3 is more than 1; a policy only tightens.",
                "line 6, kind.x: a table is wanted.",
                "line 6, kind.x: there is no such key; there are task, gap_report, campaign, reviewed_plan, evolution.",
                "line 8, tenant.a.approvals.0: input should be 'LOW', 'MED' or 'HIGH', not 'low'.",
            ],
        ),
        (
            "kind = 5\nrisk = [3]\nretries = 'x'\nmost = 1\ntenant.a = 3\nrepository.b.most.tokens = 2.5",
            None,
        ),
        ("allowed_files = ['src/*']", None),
        ("format = 2", ["line 1, format: it is format 2, and this version reads 1: take a newer planner."]),
        ("[defaults", None),
        ("x" * (MAX_BYTES + 1), None),
        ("\udcff", None),
        ("[" * 200_000, None),
        ("a = " + "[" * 100_000, None),
        ("[defaults]\ntokens = 1" + "0" * 5000, None),
    ],
)
def test_a_wrong_policy_is_told_with_line_key_and_the_nearest_name(text: str, told: list[str] | None) -> None:
    with pytest.raises(WrongPolicy) as found:
        read_policy(text.encode(errors="surrogateescape"))

    assert found.value.mistakes
    assert all(len(str(each)) < 1000 for each in found.value.mistakes)
    assert told in (None, [str(each) for each in found.value.mistakes])


@pytest.mark.parametrize("asked", [None, 1, 5, 19, 10_000])
def test_a_policy_never_gives_a_goal_more_than_it_asks_for(asked: int | None) -> None:
    found = policy("[defaults]\nmax_steps = 7\n[most]\nmax_steps = 12\n[tenant.acme.most]\nmax_steps = 10")
    goal = a_goal(tenant="acme", limits={} if asked is None else {"max_steps": asked})

    assert budget.limits_of(goal, found)["max_steps"] == (7 if asked is None else min(asked, 10))


def test_a_limit_of_nothing_stays_nothing_and_one_without_end_gets_one() -> None:
    found = policy("[most]\ntool_calls = 9\nmax_new_files = 9")

    limits = budget.limits_of(a_goal(limits={"max_new_files": 0}), found)

    assert (limits["max_new_files"], limits["tool_calls"]) == (0, 9)


def test_a_plan_has_the_limits_of_its_policy_and_keeps_its_goal_as_it_was_sent() -> None:
    found = policy('approvals = ["LOW"]\n[defaults]\ntokens = 900_000\n[most]\nmax_steps = 3')
    goal = a_goal(allowed_files=["src/a.py"], limits={"max_steps": 9})

    answer = goals.plan(goal, setting=Setting(policy=found))
    assert isinstance(answer, Draft)
    (change,) = goals.accept(replace(a_plan_seed(), policy=found), goal, answer)

    head = PlanHead.decode(change.fields["head"])
    assert (head.limits["tokens"], head.limits["max_steps"], head.approvals) == (900_000, 3, ["LOW"])
    assert head.policy == found.digest
    assert b'"limits":{"max_steps":9}' in change.fields["goal"]


def test_a_goal_of_more_steps_than_the_policy_allows_is_rejected() -> None:
    found = policy("[most]\nmax_steps = 1")
    steps = [{"step_id": name, "title": name, "intent": "Look", "mode": "read_only"} for name in "ab"]

    answer = goals.plan(a_goal(steps=steps, limits={"max_steps": 5}), setting=Setting(policy=found))

    assert getattr(answer, "reason", None) == "too_many_steps"


def test_retries_and_attempts_are_those_of_the_policy() -> None:
    found = policy("[risk.LOW]\ntokens = 1000\nmax_diff_lines = 9\n[retries]\nTYPE_ERROR = 0")
    step = a_step("a", tokens=4000, retries=3)
    free, bound = Running(step), Running(step, policy=found)

    assert (free.active["a"].tokens, bound.active["a"].tokens) == (4000, 1000)
    for plan in (free, bound):
        plan.report(a_failure("a", category="TYPE_ERROR"))
    assert (free.states["a"], bound.states["a"]) == ("ACTIVE", "FAILED")
    assert "retry_limit" not in (bound.halt or {}).get("evidence", {}).get("unblock", "")


def test_specs_of_a_risk_ask_for_the_mutants_of_the_policy_and_others_for_none() -> None:
    found = policy("[risk.LOW]\nmutants = 1")

    free, bound = Running(a_step("a")), Running(a_step("a"), policy=found)

    assert "mutants" not in free.specs[0]["limits"]
    assert bound.specs[0]["limits"]["mutants"] == 1
    with pytest.raises(WrongPolicy, match="mutants"):
        policy("[risk.LOW]\nmutants = 21")


def test_a_file_full_of_wrong_keys_is_told_at_once() -> None:
    text = "".join(f"key{number} = 1\n" for number in range(20_000)).encode()

    with pytest.raises(WrongPolicy) as caught:
        read_policy(text)

    assert [each.line for each in caught.value.mistakes] == [*range(1, MOST_TOLD + 1)]


def test_a_key_of_any_name_is_a_mistake() -> None:
    with pytest.raises(WrongPolicy, match="there is no such key"):
        read_policy(b'"[key]".tokens = 5')
