"""The states of a delivered change, and the tasks that follow from a look: a table, and decisions without a forge."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.base import GoalVerdict
from schemas.delivered import DeliveryState as S
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange
from tasks.delivered.decide import DAY_MS, IN_FLIGHT_MS, LAG_MS, SELDOM_MS, Terms, decide, next_look
from tasks.delivered.lifecycle import MOVES, Fact, move
from tasks.delivered.seen import Checks, Commit, Failure, Remark, SeenChange, Stale

PLAN, OTHER = "plan_3c-0199aaaabbbbccccddddeeeeffff0000", "plan_3c-0199aaaabbbbccccddddeeeeffff1111"
PAGE = Path(__file__).parents[2] / "docs/delivered-changes.md"
OURS = Commit("1" * 40, f"Fix it\n\nPlan: {PLAN}\nStep: fix\nAttempt: 1")
RED = SeenChange(
    7, "1" * 40, checks=Checks.RED, commits=(OURS,), failure=Failure(("tests",), ("t::a",), "log", ("99",))
)
NOW = 1_000_000_000
ASKED, NO_TEST = Remark("1:1", "alice", "Name it.", NOW - DAY_MS), frozenset[str]()


def a_change() -> DeliveredChange:
    return DeliveredChange(
        plan_id=PLAN, goal_id="ci-1", tenant="acme", repo="acme/shop", branch="b", times={S.OPEN: NOW - 1000}
    )


def kinds(change: DeliveredChange) -> list[str]:
    return [act.kind for act in change.todo if act.kind != "announce"]


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
    both = replace(RED, failure=replace(RED.failure, runs=("99", "98")))
    first = decide(a_change(), both, {}, frozenset({"t::a"}), Terms(), NOW)
    assert (kinds(first), first.follow_ups) == (["run_again", "run_again"], [])
    first.todo.clear()

    stale = decide(first, RED, {}, frozenset({"t::a"}), Terms(), NOW + 1000)
    running = decide(stale, replace(RED, checks=Checks.RUNNING), {}, frozenset(), Terms(), NOW + 2000)
    again = decide(running, RED, {}, frozenset({"t::a"}), Terms(), NOW + 3000)
    late = decide(stale, RED, {}, frozenset({"t::a"}), Terms(), NOW + LAG_MS)

    assert [kinds(each) for each in (stale, again, late)] == [[], ["follow_up"], ["follow_up"]]


def test_a_rewritten_commit_is_a_persons() -> None:
    theirs = Commit(OURS.commit, OURS.message, is_rewritten=True)
    seen = SeenChange(7, "1" * 40, checks=Checks.RED, commits=(theirs,))

    found = decide(a_change(), seen, {}, frozenset(), Terms(), NOW)

    assert found.handed_over == f"a person has a commit on the branch, {'1' * 12}"
    assert kinds(found) == ["comment"]


def test_a_follow_up_that_halted_hands_over_and_one_that_delivered_nothing_ends_after_a_while() -> None:
    begun = decide(a_change(), RED, {}, frozenset(), Terms(), NOW)
    goal = begun.follow_ups[0].goal_id
    halted = GoalAnswer(
        goal_id=goal, plan_id=OTHER, verdict=GoalVerdict.PLANNED, reason="", state="HALTED", halt_reason="no budget",
        ended_at="t",
    )  # fmt: skip
    delivered = halted.model_copy(update={"state": "COMPLETED", "branch": "b", "halt_reason": None})

    failed = decide(begun, RED, {goal: halted}, frozenset(), Terms(), NOW)
    waiting = decide(begun, RED, {goal: delivered}, frozenset(), Terms(), NOW)
    over = decide(waiting, RED, {goal: delivered}, frozenset(), Terms(), NOW + LAG_MS)

    assert failed.handed_over == f"its checks are red, and plan {OTHER} did not repair them: `no budget`"
    assert (waiting.in_flight is None, over.in_flight is None) == (False, True)
    assert over.handed_over == f"its checks are red, and the branch has no commit of plan {OTHER}"


def test_a_merge_drops_what_was_to_be_done_and_is_looked_at_seldom() -> None:
    begun = decide(a_change(), RED, {}, frozenset(), Terms(), NOW)
    merged = SeenChange(7, "1" * 40, merged_at=NOW, merged_as=("d" * 40,))

    found = decide(begun, merged, {}, frozenset(), Terms(), NOW)

    assert found.todo == [
        Act(kind="announce", about=S.OPEN, text=S.CHECKS_RED, at=NOW),
        Act(kind="announce", about=S.CHECKS_RED, text=S.MERGED, at=NOW),
        Act(kind="cancel", about=begun.follow_ups[0].goal_id, text="the change is MERGED"),
    ]
    assert next_look(found, merged, Terms(), NOW) == IN_FLIGHT_MS
    found.todo.clear()
    assert next_look(found, merged, Terms(), NOW) == SELDOM_MS
    assert next_look(found, merged, Terms(), NOW + 31 * 86_400_000) is None


def test_threads_that_do_not_fit_into_one_goal_are_left_for_the_next_one() -> None:
    remarks = tuple(Remark(f"{each}:{each}", "alice", f"{each} " + "word " * 150, NOW - DAY_MS) for each in range(8))
    seen = SeenChange(7, "1" * 40, commits=(OURS,), remarks=remarks)

    found = decide(a_change(), seen, {}, frozenset(), Terms(), NOW)

    (made,) = found.follow_ups
    assert 1 < len(made.threads) < len(remarks)
    assert [each.text.strip() in made.text for each in remarks] == [each.thread in made.threads for each in remarks]


def test_words_from_outside_are_code_in_an_answer() -> None:
    begun = decide(a_change(), SeenChange(7, "1" * 40, commits=(OURS,), remarks=(ASKED,)), {}, NO_TEST, Terms(), NOW)
    goal = begun.follow_ups[0].goal_id
    said = "packages/@acme/x `fixes #12`"
    end = GoalAnswer(goal_id=goal, plan_id=OTHER, verdict=GoalVerdict.REJECTED, reason=said)

    found = decide(begun, SeenChange(7, "1" * 40, commits=(OURS,)), {goal: end}, frozenset(), Terms(), NOW)

    assert "Not changed: `packages/@acme/x 'fixes #12'`." in [act.text for act in found.todo]


def test_after_a_hand_over_a_thread_is_answered_once_and_no_draft_is_made_ready() -> None:
    left = a_change().model_copy(update={"handed_over": "a person has a commit on the branch"})
    seen = SeenChange(7, "1" * 40, is_draft=True, checks=Checks.GREEN, commits=(OURS,), remarks=(ASKED,))

    first = decide(left, seen, {}, frozenset(), Terms(), NOW)
    second = decide(first, replace(seen, remarks=(replace(ASKED, thread="1:2"),)), {}, frozenset(), Terms(), NOW)

    assert (kinds(first), kinds(second)) == (["answer"], ["answer"])
    assert second.answered == ["1:1", "1:2"]


def test_a_draft_is_made_ready_once() -> None:
    seen = SeenChange(7, "1" * 40, is_draft=True, checks=Checks.GREEN, commits=(OURS,))
    first = decide(a_change(), seen, {}, frozenset(), Terms(), NOW)
    first.todo.clear()

    assert kinds(decide(first, seen, {}, frozenset(), Terms(), NOW)) == []


IN_CONFLICT = SeenChange(7, "1" * 40, "main", commits=(OURS,), stale=Stale.CONFLICT)


@pytest.mark.parametrize(
    ("stale", "lands_if", "wanted"),
    [
        (Stale.CONFLICT, Stale.CONFLICT, ["follow_up"]),
        (Stale.CONFLICT, Stale.BEHIND, ["follow_up"]),
        (Stale.BEHIND, Stale.BEHIND, ["follow_up"]),
        (Stale.BEHIND, Stale.CONFLICT, []),
        (Stale.CONFLICT, Stale.NO, []),
        (Stale.NO, Stale.BEHIND, []),
    ],
)
def test_a_change_lands_again_if_it_is_as_stale_as_the_operator_says(
    stale: Stale, lands_if: Stale, wanted: list[str]
) -> None:
    seen, terms = replace(IN_CONFLICT, stale=stale), Terms(lands_if=lands_if)

    found = decide(a_change(), seen, {}, frozenset(), terms, NOW, may_land=True)
    another_lands = decide(a_change(), seen, {}, frozenset(), terms, NOW)
    theirs = replace(seen, commits=(OURS, Commit("2" * 40, "By hand")))
    by_hand = decide(a_change(), theirs, {}, frozenset(), terms, NOW, may_land=True)

    assert kinds(found) == wanted
    assert [each.why for each in found.follow_ups] == ["target"] * len(wanted)
    assert kinds(another_lands) == []
    assert kinds(by_hand) == ["comment"]


def test_a_change_lands_again_twice_and_is_left_to_a_person_then() -> None:
    change, terms = a_change(), Terms()
    for number in range(2):
        change = decide(change, IN_CONFLICT, {}, frozenset(), terms, NOW, may_land=True)
        goal = change.follow_ups[-1].goal_id
        said: Any = {"verdict": GoalVerdict.PLANNED, "reason": "", "plan_id": OTHER, "branch": "b", "ended_at": "x"}
        ends = {goal: GoalAnswer(goal_id=goal, **said)}
        ends[goal] = ends[goal].model_copy(update={"state": "COMPLETED"})
        pushed = replace(IN_CONFLICT, head=str(number + 3) * 40)
        change = decide(change, pushed, ends, frozenset(), terms, NOW, may_land=False)
        assert (change.in_flight, change.handed_over) == (None, "")

    after = decide(change, replace(IN_CONFLICT, stale=Stale.BEHIND), {}, frozenset(), terms, NOW, may_land=True)
    assert after.handed_over == ""
    change = decide(change, IN_CONFLICT, {}, frozenset(), terms, NOW, may_land=True)

    assert change.handed_over == "it conflicts with its target branch after 2 rounds"


def test_a_plan_that_could_not_land_again_leaves_the_change_to_a_person() -> None:
    begun = decide(a_change(), IN_CONFLICT, {}, frozenset(), Terms(), NOW, may_land=True)
    goal = begun.follow_ups[0].goal_id
    halted: Any = {"state": "HALTED", "halt_reason": "both"}
    end = GoalAnswer(goal_id=goal, verdict=GoalVerdict.PLANNED, reason="", plan_id=OTHER, **halted)

    found = decide(begun, IN_CONFLICT, {goal: end}, frozenset(), Terms(), NOW, may_land=True)

    assert found.handed_over == f"plan {OTHER} did not put it on top of its target branch: `both`"
