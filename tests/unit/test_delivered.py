"""The states of a delivered change, and the tasks that follow from a look: a table, and decisions without a forge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.base import GoalVerdict
from schemas.delivered import DeliveryState as S
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange
from tasks.delivered.decide import LAG_MS, SELDOM_MS, Terms, decide, next_look
from tasks.delivered.lifecycle import MOVES, Fact, move
from tasks.delivered.seen import Checks, Commit, Failure, SeenChange

PLAN, OTHER = "plan_3c-0199aaaabbbbccccddddeeeeffff0000", "plan_3c-0199aaaabbbbccccddddeeeeffff1111"
PAGE = Path(__file__).parents[2] / "docs/delivery.md"
OURS = Commit("1" * 40, f"Fix it\n\nPlan: {PLAN}\nStep: fix\nAttempt: 1")
RED = SeenChange(7, "1" * 40, checks=Checks.RED, commits=(OURS,), failure=Failure(("tests",), ("t::a",), "log", "99"))
NOW = 1_000_000_000


def a_change() -> DeliveredChange:
    return DeliveredChange(
        plan_id=PLAN, goal_id="ci-1", tenant="acme", repo="acme/shop", branch="b", times={S.OPEN: NOW - 1000}
    )


def kinds(change: DeliveredChange) -> list[str]:
    return [act.kind for act in change.todo]


def test_the_picture_of_the_states_has_the_moves_of_the_table() -> None:
    picture = PAGE.read_text().partition("## After delivery")[2].partition("```mermaid")[2].partition("```")[0]
    drawn = {(S(a), S(b)) for a, b in re.findall(r"^ +([A-Z_]+) --> ([A-Z_]+)", picture, re.MULTILINE)}
    moves = {(before, after) for before, row in MOVES.items() for after in row.values() if before is not after}

    assert drawn <= moves
    assert moves - drawn <= {(S.CLOSED, S.CHECKS_RED), (S.CLOSED, S.CHANGES_ASKED)}


@pytest.mark.parametrize("fact", Fact)
def test_a_merged_change_can_only_be_reverted_and_a_reverted_one_stays_so(fact: Fact) -> None:
    assert move(S.MERGED, fact) is (S.REVERTED if fact is Fact.REVERTED else S.MERGED)
    assert move(S.REVERTED, fact) is S.REVERTED


def test_checks_that_flaky_tests_made_red_run_again_once_before_a_plan_is_made() -> None:
    first, _ = decide(a_change(), RED, {}, frozenset({"t::a"}), Terms(), NOW)
    first.todo.clear()
    second, _ = decide(first, RED, {}, frozenset({"t::a"}), Terms(), NOW)

    assert (first.run_again, first.follow_ups) == (["1" * 40], [])
    assert kinds(second) == ["follow_up"]


def test_a_rewritten_commit_is_a_persons() -> None:
    theirs = Commit(OURS.commit, OURS.message, is_rewritten=True)
    seen = SeenChange(7, "1" * 40, checks=Checks.RED, commits=(theirs,))

    found, _ = decide(a_change(), seen, {}, frozenset(), Terms(), NOW)

    assert found.handed_over == f"a person has a commit on the branch, {'1' * 12}"
    assert kinds(found) == ["comment"]


def test_a_follow_up_that_halted_hands_over_and_one_that_delivered_nothing_ends_after_a_while() -> None:
    begun, _ = decide(a_change(), RED, {}, frozenset(), Terms(), NOW)
    goal = begun.follow_ups[0].goal_id
    halted = GoalAnswer(
        goal_id=goal, plan_id=OTHER, verdict=GoalVerdict.PLANNED, reason="", state="HALTED", halt_reason="no budget",
        ended_at="t",
    )  # fmt: skip
    delivered = halted.model_copy(update={"state": "COMPLETED", "branch": "b", "halt_reason": None})

    failed, _ = decide(begun, RED, {goal: halted}, frozenset(), Terms(), NOW)
    waiting, _ = decide(begun, RED, {goal: delivered}, frozenset(), Terms(), NOW)
    over, _ = decide(waiting, RED, {goal: delivered}, frozenset(), Terms(), NOW + LAG_MS)

    assert failed.handed_over == f"its checks are red, and plan {OTHER} did not repair them: no budget"
    assert (waiting.in_flight is None, over.in_flight is None) == (False, True)
    assert over.handed_over == f"its checks are red, and the branch has no commit of plan {OTHER}"


def test_a_merge_drops_what_was_to_be_done_and_is_looked_at_seldom() -> None:
    begun, _ = decide(a_change(), RED, {}, frozenset(), Terms(), NOW)
    merged = SeenChange(7, "1" * 40, merged_at=NOW, merged_as=("d" * 40,))

    found, moved = decide(begun, merged, {}, frozenset(), Terms(), NOW)

    assert moved
    assert (moved.before, moved.after) == (S.CHECKS_RED, S.MERGED)
    assert found.todo == [
        Act(kind="cancel", about=begun.follow_ups[0].goal_id, text="the change is MERGED"),
    ]
    assert next_look(found, merged, Terms(), NOW) == SELDOM_MS
    assert next_look(found, merged, Terms(), NOW + 31 * 86_400_000) is None
