"""What attempts leave to later plans of their repository: what is recorded, under which name, and in how many bytes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.goal import Goal
from schemas.times import DAY_MS
from tasks.features.outcome_memory import where
from tasks.memory.flaky_tests import MAX_DAYS
from tasks.memory.outcomes import (
    MAX_RECORD,
    Attempted,
    Place,
    fingerprint_of,
    read_records,
    write_record,
)
from tests.support.memory_store import EPOCH_MS, MemoryStore
from tests.support.plans import PARTITION, PYTEST, Running, a_check, a_report, a_step, plan_id

SHOP, TEST = "acme/shop", "tests/test_cart.py::test_sum"
PYPROJECT = '[project]\nname = "shop"\nversion = "1.2"\n'


def a_goal(**context: Any) -> Goal:
    return Goal.model_validate({"goal": "Fix the sum", "context": {"repo": SHOP, **context}})


def recorded(plan: Running, tenant: str = "default") -> list[Attempted]:
    """What the list of the plan's repository has, oldest first."""
    goal = Goal.model_validate({"goal": "Fix it", "tenant": tenant, "context": {"repo": SHOP}})
    raw = plan.store.items(PARTITION.memory(where(goal) or ""))
    return read_records(raw, plan.store.now)[::-1]


def fail(plan: Running, step: str, category: str = "TEST_REGRESSION", **said: Any) -> None:
    live = plan.active[step]
    evidence = {"category": category, "top_failing_tests": said.get("failing_tests", ())}
    plan.report(a_report(step, live.attempt, live.lease, success=False, failure_evidence=evidence, **said))
    plan.rest()


def succeed(plan: Running, step: str, **said: Any) -> None:
    live = plan.active[step]
    plan.report(a_report(step, live.attempt, live.lease, touched_files=["src/a.py"], **said))


@pytest.mark.parametrize(
    ("context", "is_same"),
    [
        ({"manifests": {"pyproject.toml": PYPROJECT.replace("1.2", "2.0")}}, True),
        ({"manifests": {"pyproject.toml": PYPROJECT.replace("shop", "store")}}, False),
        ({"manifests": {"pyproject.toml": PYPROJECT, "web/package.json": '{"name": "web"}'}}, False),
        ({"test_command": "pytest -q"}, False),
        ({"base_sha": "abc1234", "failing_tests": [TEST]}, True),
    ],
)
def test_a_repository_is_known_by_its_manifests_its_name_and_its_test_command(
    context: dict[str, Any], is_same: bool
) -> None:
    before = a_goal(manifests={"pyproject.toml": PYPROJECT})
    after = a_goal(**{"manifests": {"pyproject.toml": PYPROJECT}, **context})
    assert (fingerprint_of(before) == fingerprint_of(after)) is is_same
    assert len(fingerprint_of(before)) == 24


def test_another_tenant_or_repository_with_equal_manifests_has_a_list_of_its_own() -> None:
    goal = a_goal(manifests={"pyproject.toml": PYPROJECT})
    fork = a_goal(manifests={"pyproject.toml": PYPROJECT}, repo="mallory/shop")
    assert len({where(goal), where(fork), where(goal.model_copy(update={"tenant": "other"}))}) == 3
    assert where(Goal.model_validate({"goal": "Fix the sum"})) is None


def test_every_ended_attempt_is_recorded_with_what_it_came_to() -> None:
    step = a_step("a", tools=(PYTEST,)).model_copy(update={"title": "Mend the sum"})
    plan = Running(step, repo=SHOP, identical_failures=9, consecutive_failures=9)
    fail(plan, "a", "TEST_REGRESSION", failing_tests=[TEST, "rm -rf /"], metrics={"tokens_used": 70})
    fail(plan, "a", "TYPE_ERROR")
    succeed(plan, "a", metrics={"tokens_used": 300})

    today = EPOCH_MS // DAY_MS
    about = today, "fix_test", "Mend the sum", ("src/a.py",), ("pytest",)
    assert recorded(plan) == [
        Attempted(*about, 70, "TEST_REGRESSION", (TEST,)),
        Attempted(*about, 0, "TYPE_ERROR"),
        Attempted(*about, 300),
    ]


def test_what_says_nothing_of_the_work_is_not_recorded() -> None:
    store = MemoryStore(PARTITION)
    plan = Running(a_step("a"), repo=SHOP, store=store)
    fail(plan, "a", "FLAKY_TEST")
    live = plan.active["a"]
    plan.report(a_report("a", live.attempt, live.lease, success=False, released={"reason": "no model"}))
    assert recorded(plan) == []

    elsewhere = Running(a_step("a"), plan=plan_id(2), store=store)
    succeed(elsewhere, "a")
    assert not any(value for key, value in store.keys.items() if ":memory:" in key)


def test_failures_that_a_judge_hands_on_are_recorded_too() -> None:
    plan = Running(a_check("t"), repo=SHOP)
    fail(plan, "t", "TEST_REGRESSION", failing_tests=[TEST])
    assert [(each.title, each.category) for each in recorded(plan)] == [("t", "TEST_REGRESSION")]


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600", '"'])
def test_a_record_has_no_more_bytes_than_it_may(letter: str) -> None:
    facts: dict[str, Any] = {"title": letter * 100, "allowed_files": [letter * 200] * 9}
    facts["verify_tools"] = [{"tool": letter * 60}] * 9
    record = write_record(Place("n", "fix_test"), facts, 10**9, EPOCH_MS, "TEST_REGRESSION", [letter * 90] * 2)
    assert len(record) <= MAX_RECORD
    (read,) = read_records([record], EPOCH_MS)
    assert (read.kind, read.tokens, read.category) == ("fix_test", 10**9, "TEST_REGRESSION")


def test_old_and_broken_records_are_passed_over() -> None:
    today = EPOCH_MS // DAY_MS
    raw = [codec.dumps([today - age, "fix_test", "a", [], [], 1]) for age in (0, MAX_DAYS, MAX_DAYS + 1)]
    found = read_records([b"{", b"[1]", b'["x","","",[],[],0]', *raw], EPOCH_MS)
    assert [today - each.day for each in found] == [0, MAX_DAYS]
