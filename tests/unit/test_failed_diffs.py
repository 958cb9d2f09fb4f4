"""The regression firewall: which changes attempts are told of, what a repeat counts for, and what other plans hear."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.step import PlannedStep
from tasks.features.failed_changes import (
    FAILED_DIFFS,
    MOST,
    MOST_KEPT,
    FailedDiff,
    name_of,
    read_kept,
)
from tasks.policy.flips import name_verification
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, PYTEST, Running, a_report, a_step, plan_id
from tests.support.replay import export_of

BASE, OTHER_BASE = "a" * 40, "b" * 40
DIFF, OTHER = "d" * 64, "e" * 64
MYPY = PYTEST.model_copy(update={"tool": "mypy", "argv": ("mypy", "src")})
HERE: dict[str, Any] = {"repo": "acme/shop", "base_sha": BASE}
NAME = name_verification({"verify_tools": [{"argv": ["pytest"]}]})
LIMITS: dict[str, Any] = {"identical_failures": 2, "consecutive_failures": 9}


def a_patch(step_id: str, *after: str, **fields: Any) -> PlannedStep:
    return a_step(step_id, *after, **{"tools": (PYTEST,), "retries": 3, **fields})


def a_plan(*steps: PlannedStep, number: int = 1, store: MemoryStore | None = None, **fields: Any) -> Running:
    """A plan of shop's that begins with what is remembered of its base, as a worker makes it."""
    about = {**HERE, **LIMITS, **fields}
    store = store or MemoryStore(PARTITION)
    return Remembering(*steps, plan=plan_id(number), store=store, **about)


class Remembering(Running):
    def __init__(self, *steps: PlannedStep, **about: Any) -> None:
        tenant, repo, base = about.get("tenant", "default"), about["repo"], about["base_sha"]
        name = name_of(tenant, repo, base)
        kept = about["store"].keys.get(PARTITION.kept(name), {}) if name else {}
        super().__init__(*steps, failed_diffs=read_kept(kept, base or ""), **about)


def fail(plan: Running, step: str = "a", diff: str | None = DIFF, trace: str = "assert 1 == 2", **said: Any) -> None:
    live = plan.active[step]
    evidence = {"category": said.pop("category", "TEST_REGRESSION"), "stack_trace_head": trace}
    body = {"success": False, "tests_passed": False, "touched_files": live.files[:1], "diff_hash": diff}
    plan.report(a_report(step, live.attempt, live.lease, **{**body, "failure_evidence": evidence, **said}))
    plan.rest()


def succeed(plan: Running, step: str = "a", diff: str = DIFF, **said: Any) -> None:
    live = plan.active[step]
    body = {"tests_passed": True, "touched_files": live.files[:1], "diff_hash": diff}
    plan.report(a_report(step, live.attempt, live.lease, **{**body, **said}))


def told(plan: Running, step: str = "a") -> list[str]:
    """What the attempt in flight of a step was told of."""
    (spec,) = [each for each in plan.specs if (each["plan_id"], each["step_id"]) == (plan.plan_id, step)]
    found: list[str] = spec["context"].get("failed_diffs", [])
    return found


def kept(plan: Running) -> list[str]:
    """The changes that later plans of the default tenant's shop hear of."""
    name = name_of("default", "acme/shop", BASE)
    return [field.split(" ")[2] for field in plan.store.hash(PARTITION.kept(name or ""))]


def test_a_first_attempt_of_which_nothing_is_known_is_told_nothing() -> None:
    plan = a_plan(a_patch("a"))

    assert "failed_diffs" not in plan.specs[0]["context"]
    assert plan.record.failed_diffs.known == []


def test_the_next_attempt_is_told_of_the_change_that_failed() -> None:
    plan = a_plan(a_patch("a"))

    fail(plan)

    assert told(plan) == [DIFF]


def test_a_change_that_is_made_again_and_fails_is_an_identical_failure_whatever_its_trace() -> None:
    plan = a_plan(a_patch("a"), a_step("z", "a"))

    fail(plan, trace="assert 1 == 2")
    fail(plan, trace="TimeoutError: the database was slow")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "identical_failure")
    assert plan.halt["evidence"]["diff_hash"] == DIFF
    assert f"made the change {DIFF[:12]} again" in plan.halt["reason"]


def test_another_change_that_fails_otherwise_is_no_identical_failure() -> None:
    plan = a_plan(a_patch("a"), a_step("z", "a"))

    fail(plan, trace="assert 1 == 2")
    fail(plan, diff=OTHER, trace="TimeoutError: the database was slow")

    assert plan.state == "EXECUTING"
    assert told(plan) == [DIFF, OTHER]


def test_a_plan_on_the_same_base_hears_of_what_failed_in_another_one() -> None:
    first = a_plan(a_patch("a"))
    fail(first)
    second = a_plan(a_patch("a"), a_patch("m", tools=(MYPY,)), a_step("plain"), number=2, store=first.store)

    assert told(second) == [DIFF]
    assert told(second, "m") == told(second, "plain") == []


def test_a_repeat_of_what_failed_in_another_plan_counts_as_the_second_at_once() -> None:
    first = a_plan(a_patch("a"))
    fail(first)
    second = a_plan(a_patch("a"), a_step("z", "a"), number=2, store=first.store)

    fail(second, trace="another trace")

    assert (second.state, second.halt["rule"]) == ("HALTED", "identical_failure")
    assert second.halt["evidence"]["value"] == 2


def test_an_attempt_that_began_before_the_change_failed_repeats_nothing() -> None:
    """It could not know of it."""
    plan = a_plan(a_patch("a", files=["src/a.py"]), a_patch("b", files=["src/b.py"]), max_parallel=2)
    plan.store.wait(1000)

    fail(plan, "a")
    fail(plan, "b")

    assert (plan.steps["a"].repeats, plan.steps["b"].repeats) == (1, 1)
    assert plan.state == "EXECUTING"


def test_a_success_is_never_refused_and_is_forgotten_as_a_failure() -> None:
    first = a_plan(a_patch("a"), a_step("z", "a"))
    fail(first)
    assert kept(first) == [DIFF]
    second = a_plan(a_patch("a"), a_step("z", "a"), number=2, store=first.store)

    succeed(second)

    assert second.states["a"] == "DONE"
    assert kept(second) == []
    assert told(a_plan(a_patch("a"), number=3, store=first.store)) == []


def test_a_change_that_lands_makes_another_tree_of_which_nothing_is_known() -> None:
    plan = a_plan(a_patch("a"), a_patch("b", "a"), a_step("z", "b"))
    fail(plan)
    succeed(plan, diff=OTHER)

    assert told(plan, "b") == []
    fail(plan, "b", diff=DIFF)
    assert plan.steps["b"].repeats == 1
    assert told(plan, "b") == [DIFF]
    assert kept(plan) == [DIFF], "what failed on the base; of a tree with changes no other plan hears"
    assert len(plan.store.hash(PARTITION.kept(name_of("default", "acme/shop", BASE) or ""))) == 1


@pytest.mark.parametrize(
    "said",
    [
        {"diff": None},
        {"diff": "two words"},
        {"diff": "x" * 200},
        {"touched_files": []},
        {"category": "FLAKY_TEST"},
        {"tests_passed": None},
        {"tests_passed": True},
    ],
)
def test_what_says_nothing_of_a_change_is_not_remembered(said: dict[str, Any]) -> None:
    plan = a_plan(a_patch("a"))

    fail(plan, **said)

    assert told(plan) == kept(plan) == []


def test_a_red_receipt_says_as_much_as_the_word_of_the_controller() -> None:
    plan = a_plan(a_patch("a"))

    fail(plan, tests_passed=None, verify=[{"tool": "pytest", "exit_code": 1}])

    assert told(plan) == [DIFF]


@pytest.mark.parametrize(
    ("other", "about"),
    [
        ("tenant", {"tenant": "other"}),
        ("repository", {"repo": "acme/other"}),
        ("base", {"base_sha": OTHER_BASE}),
        ("a base that is a name", {"base_sha": "main"}),
        ("no base", {"base_sha": None}),
    ],
)
def test_nobody_else_hears_of_it(other: str, about: dict[str, Any]) -> None:
    first = a_plan(a_patch("a"))
    fail(first)

    assert told(a_plan(a_patch("a"), number=2, store=first.store, **about)) == [], other


def test_a_plan_without_a_known_base_remembers_for_itself_alone() -> None:
    plan = a_plan(a_patch("a"), base_sha="main")

    fail(plan)

    assert told(plan) == [DIFF]
    assert not [key for key in plan.store.keys if ":kept:" in key]


def test_a_plan_that_is_made_where_nothing_is_remembered_remembers_nothing() -> None:
    first = a_plan(a_patch("a"), remembers_diffs=False)
    fail(first)

    assert told(first) == kept(first) == []


def test_a_plan_keeps_the_newest() -> None:
    known = tuple(FailedDiff("of another", f"{number:064x}", number) for number in range(MOST))
    plan = Running(a_patch("a"), failed_diffs=known, **HERE, **LIMITS)

    fail(plan)

    assert [each[1] for each in plan.record.failed_diffs.known] == [*(each.digest for each in known[1:]), DIFF]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_recording_comes_out_as_it_was_with_what_was_read_at_the_creation(remembers: bool) -> None:
    first = a_plan(a_patch("a"))
    fail(first)
    second = a_plan(a_patch("a"), a_step("z", "a"), number=2, store=first.store, remembers_diffs=remembers)
    fail(second, diff=OTHER, trace="no")
    fail(second, diff=OTHER, trace="neither")

    found = replay(RecordedPlan.read(export_of(second.store.held(second.plan_id))))

    assert (found.result, found.parts, found.why) == (Result.EQUAL, (), "")
    assert second.log[0]["born"].get(FAILED_DIFFS, []) == ([[NAME, DIFF, first.store.now]] if remembers else [])


def test_what_is_remembered_of_a_base_is_read_newest_last_and_bounded() -> None:
    fields = {f"{BASE} {NAME} {number:064x}": b"%d" % (1000 - number) for number in range(40)}
    odd = {"": b"1", "a": b"1", f"{BASE} {NAME} {DIFF}": b"not a time", f"{OTHER_BASE} {NAME} {DIFF}": b"9999"}

    found = read_kept({**fields, **odd}, BASE)

    assert len(found) == MOST
    assert [each.at for each in found] == list(range(1000 - MOST + 1, 1001))
    assert MOST < MOST_KEPT
