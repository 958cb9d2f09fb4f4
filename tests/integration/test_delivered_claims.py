"""What open changes keep others from: claims on their files, duplicates of their goals, and new work to review."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from schemas import codec
from tests.support.delivered import DELIVERED, GOAL, Begin, Life, begin
from tests.support.engine import drain, plan
from tests.support.messages import answer, report, work
from tests.support.stored import P0
from worker.store import policies, queries, standing_still

__all__ = ["begin"]


def begin_plan(life: Life, goal_id: str, **more: Any) -> str:
    """Have another goal planned; returns its plan."""
    plan(life.here, life.redis, {**GOAL, "goal_id": goal_id, **more})
    said = queries.goal(life.here.client, goal_id, "acme")
    assert said
    return said.plan_id


def at_work(life: Life) -> set[str]:
    """Return the plans that have a step in a queue."""
    found: Any = life.redis.xrange(P0.steps("default"))
    return {codec.loads(fields[b"data"])["plan_id"] for _, fields in found}


@pytest.mark.parametrize("end", ["merged", "closed"])
def test_files_of_a_delivered_change_are_claimed_until_it_ends(end: str, begin: Begin) -> None:
    life = begin("github")
    second = begin_plan(life, "ci-2", goal="Round the total")
    found = queries.summary(life.here.client, 1, second)
    assert found
    assert (found.state, found.paused_by) == ("READY", f"waiting for src/app.py: {life.plan_id}")

    life.forge.state, life.forge.at = end, datetime.now(UTC).isoformat(timespec="seconds")
    life.happens()
    life.here.context(0).engine.sweep("test")

    found = queries.summary(life.here.client, 1, second)
    assert found
    assert (found.state, found.paused_by) == ("EXECUTING", None)


def test_a_goal_that_an_open_change_already_does_waits_for_it(begin: Begin) -> None:
    life = begin("github")
    second = begin_plan(life, "ci-2", goal="fix  the Total")
    found = queries.summary(life.here.client, 1, second)
    assert found
    assert (found.state, found.paused_by) == ("READY", f"waiting for the same goal: {life.plan_id}")
    assert begin_plan(life, "ci-3", overlap="allow") in at_work(life)

    life.forge.state, life.forge.at = "closed", datetime.now(UTC).isoformat(timespec="seconds")
    life.happens()
    life.here.context(0).engine.sweep("test")

    assert second in at_work(life)


def test_a_repository_with_all_the_changes_that_people_can_review_begins_no_new_plan(begin: Begin) -> None:
    life = begin("github", more=DELIVERED + "max_open_changes = 1\n")
    about = {"goal": "Round it", "allowed_files": ["src/b.py"]}
    second = begin_plan(life, "ci-2", **about)
    found = queries.summary(life.here.client, 1, second)
    assert found
    assert (found.state, found.paused_by) == ("READY", f"waiting for the review of an open change: {life.plan_id}")
    still = standing_still.find_standing_still(found, {}, None)
    assert still
    assert still.reason == "review"

    life.forge.state, life.forge.at = "merged", datetime.now(UTC).isoformat(timespec="seconds")
    life.happens()
    life.redis.zadd(P0.timers, {second: 0})
    life.here.context(0).engine.sweep("test")

    assert second in at_work(life)


@pytest.mark.parametrize(("choice", "verdict"), [("refuse", "REJECTED"), ("adopt", "NOTHING_TO_DO")])
def test_a_policy_refuses_a_second_goal_about_the_same_tests_or_adopts_the_first_change(
    choice: str, verdict: str, begin: Begin
) -> None:
    context: Any = GOAL["context"]
    about = {**context, "failing_tests": ["tests/test_app.py::test_total"]}
    life = begin("github")
    first = begin_plan(life, "ci-2", goal="Make it green", allowed_files=["src/b.py"], context=about)
    policies.apply(life.here.client, f'format = 1\n[repository."acme/shop"]\nduplicates = "{choice}"\n'.encode(), "ada")
    begin_plan(life, "ci-3", goal="Mend the total", allowed_files=["src/c.py"], context=about)

    said = queries.goal(life.here.client, "ci-3", "acme")
    assert said
    assert (said.verdict, said.same_as) == (verdict, first if choice == "adopt" else None)
    made = queries.summary(life.here.client, 1, said.plan_id)
    told = made.halt.evidence["errors"][0]["message"] if made and made.halt else said.reason
    assert told.partition(".")[0] == f"{first} is about the same failing tests"


@pytest.mark.parametrize("choice", ["refuse", "adopt", "wait"])
def test_a_goal_that_was_just_merged_is_a_duplicate_for_a_day_and_nothing_waits_for_it(
    choice: str, begin: Begin
) -> None:
    life = begin("github")
    policies.apply(life.here.client, f'format = 1\n[repository."acme/shop"]\nduplicates = "{choice}"\n'.encode(), "ada")
    life.forge.state, life.forge.at = "merged", datetime.now(UTC).isoformat(timespec="seconds")
    life.happens()
    life.look()  # the next one changes nothing
    about = {"goal": "fix  the Total", "allowed_files": ["src/app.py"]}

    at_once = begin_plan(life, "ci-2", **about)

    verdicts = {"refuse": "REJECTED", "adopt": "NOTHING_TO_DO", "wait": "PLANNED"}
    said = queries.goal(life.here.client, "ci-2", "acme")
    assert said
    assert (said.verdict, said.same_as) == (verdicts[choice], life.plan_id if choice == "adopt" else None)
    assert (at_once in at_work(life)) == (choice == "wait")
    if choice != "wait":
        life.redis.zadd("planner:{0}:claims:kept", {life.plan_id: 1})  # a day later
        life.look()
        assert begin_plan(life, "ci-3", **about) in at_work(life)


def test_a_person_who_is_asked_about_a_conflict_sees_both_sides(begin: Begin) -> None:
    life = begin("github")
    second = begin_plan(life, "ci-2", goal="Round it", allowed_files=["src/b.py"], approvals=["HIGH"])
    while work(life.redis):
        drain(life.here)
    found: Any = life.redis.xrange(P0.steps("deliver"))
    spec = next(each for _, fields in found if (each := codec.loads(fields[b"data"]))["plan_id"] == second)
    sides = [{"path": "docs/a.md", "ours": "-old\n+ours", "theirs": "-old\n+theirs"}]
    landed = {"target_sha": "b" * 40, "result_sha": "c" * 40, "conflicts": ["docs/a.md"], "commits": [], "sides": sides}
    report(life.redis, answer(spec, output=landed))
    drain(life.here)

    view = queries.plan(life.here.client, 1, second)

    assert view
    assert view.waiting
    assert view.waiting.document == "docs/a.md.ours.diff\n-old\n+ours\n\ndocs/a.md.theirs.diff\n-old\n+theirs"


def test_files_of_a_change_that_nobody_follows_are_not_claimed(begin: Begin) -> None:
    life = begin("github", more=DELIVERED.replace("acme/shop", "acme/blog"))
    second = begin_plan(life, "ci-2", goal="Round the total")

    found = queries.summary(life.here.client, 1, second)
    assert found
    assert (found.state, found.paused_by) == ("EXECUTING", None)
