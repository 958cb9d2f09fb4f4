"""Deliveries on a real server: each makes one write, nothing becomes a goal twice, what is newer ends what is older."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.support import webhooks
from tests.support.webhooks import SHA, by_github, by_standard, issue_comment, pipeline, workflow_run
from worker.store import keys
from worker.webhooks import intake
from worker.webhooks.intake import Answer, WrongSignature
from worker.webhooks.sources_file import Source, SourcesFile


@pytest.fixture
def sources(tmp_path: Path) -> SourcesFile:
    return webhooks.sources(tmp_path)


@pytest.fixture
def github(sources: SourcesFile) -> Source:
    found = sources.named("github")
    assert found
    return found


def goals(redis: Redis) -> list[dict[str, Any]]:
    found: Any = redis.xrange(keys.GOALS)
    return [codec.loads(fields[b"data"]) for _, fields in found]


def jobs(redis: Redis) -> list[dict[str, Any]]:
    found: Any = redis.xrange(keys.WEBHOOK_JOBS)
    return [codec.loads(fields[b"data"]) for _, fields in found]


def deliver(redis: Redis, source: Source, payload: Any, delivery: str, event: str = "workflow_run") -> Answer:
    headers, raw = by_github(event, payload, delivery)
    return intake.take(redis, source, headers, raw, time.time())


def test_a_delivery_becomes_a_goal_once(redis: Redis, github: Source) -> None:
    first = deliver(redis, github, workflow_run(), "d-1")
    again = deliver(redis, github, workflow_run(), "d-1")
    replayed = deliver(redis, github, workflow_run(), "d-2")

    (goal,) = goals(redis)
    assert first == Answer(goal["goal_id"])
    assert goal["goal"] == "Fix the failing workflow CI"
    assert again.goal_id == replayed.goal_id == first.goal_id
    assert again.ignored == replayed.ignored == "duplicate: this was delivered before"
    assert redis.hgetall(keys.WEBHOOK_STATS) == {b"github:goal": b"1", b"github:duplicate": b"2"}
    lives = {key: redis.ttl(key) for key in redis.keys("{planner:goals}:webhook:[dbcl]*")}
    assert len(lives) == 4
    assert all(0 < int(left) <= 30 * 86_400 for left in lives.values())


def test_failures_of_one_commit_are_one_goal(redis: Redis, github: Source) -> None:
    made = [deliver(redis, github, workflow_run(id=n, name=f"CI {n}"), f"d-{n}") for n in range(20)]

    assert len(goals(redis)) == 1
    assert [each.ignored for each in made] == [None, *["coalesced: it is about the same as an earlier one"] * 19]
    assert len({each.goal_id for each in made}) == 1
    assert jobs(redis) == []


def test_a_newer_run_takes_the_place_of_an_older_one_and_an_older_one_is_ignored(redis: Redis, github: Source) -> None:
    first = deliver(redis, github, workflow_run(), "d-1")
    newer = deliver(redis, github, workflow_run(run_number=13, head_sha=SHA[::-1]), "d-2")
    rerun = deliver(redis, github, workflow_run(run_number=9, head_sha="a" * 40), "d-3")
    same = deliver(redis, github, workflow_run(run_number=13, head_sha="b" * 40), "d-4")
    elsewhere = deliver(redis, github, workflow_run(run_number=2, head_sha="c" * 40, head_branch="other"), "d-5")

    assert newer.cancels == first.goal_id
    assert newer.ignored is elsewhere.ignored is None
    assert rerun.ignored == same.ignored == "not_newer: the stored one is as new or newer"
    assert [goal["goal_id"] for goal in goals(redis)] == [first.goal_id, newer.goal_id, elsewhere.goal_id]
    assert jobs(redis) == [
        {"cancels": first.goal_id, "tenant": "acme", "source": "github", "by": newer.goal_id},
    ]


def test_a_later_success_ends_it_and_a_failure_before_that_counts_no_more(redis: Redis, github: Source) -> None:
    first = deliver(redis, github, workflow_run(), "d-1")
    solved = deliver(redis, github, workflow_run(run_number=12, conclusion="success", id=2), "d-2")
    late = deliver(redis, github, workflow_run(run_number=11, head_sha="a" * 40), "d-3")
    again = deliver(redis, github, workflow_run(run_number=14, conclusion="success"), "d-4")

    assert solved == Answer(None, None, first.goal_id)
    assert late.ignored == "not_newer: the stored one is as new or newer"
    assert again.ignored == "resolved: nothing is to be cancelled"
    assert [job["cancels"] for job in jobs(redis)] == [first.goal_id]


@pytest.fixture
def by_workflow(tmp_path: Path) -> Source:
    rule = webhooks.RULE.replace("{{ workflow_run.head_branch }}", "{{ workflow_run.name }}")
    found = webhooks.sources(tmp_path, webhooks.source("github", "github", rule)).named("github")
    assert found
    return found


def test_nothing_coalesces_with_a_goal_that_was_cancelled(redis: Redis, by_workflow: Source) -> None:
    first = deliver(redis, by_workflow, workflow_run(name="W1"), "d-1")
    second = deliver(redis, by_workflow, workflow_run(name="W2"), "d-2")
    solved = deliver(redis, by_workflow, workflow_run(name="W1", conclusion="success"), "d-3")
    rerun = deliver(redis, by_workflow, workflow_run(name="W2", run_attempt=2), "d-4")
    third = deliver(redis, by_workflow, workflow_run(name="W3"), "d-5")

    assert second == Answer(first.goal_id, "coalesced: it is about the same as an earlier one")
    assert solved.cancels == first.goal_id
    assert rerun.ignored is None
    assert third.goal_id == rerun.goal_id  # what is new coalesces again
    assert [goal["goal_id"] for goal in goals(redis)] == [first.goal_id, rerun.goal_id]


def test_a_goal_of_another_commit_frees_the_commit_of_the_one_that_it_overtakes(
    redis: Redis, by_workflow: Source
) -> None:
    first = deliver(redis, by_workflow, workflow_run(name="W1"), "d-1")
    newer = deliver(redis, by_workflow, workflow_run(name="W1", run_number=13, head_sha="a" * 40), "d-2")
    other = deliver(redis, by_workflow, workflow_run(name="W2"), "d-3")
    same = deliver(redis, by_workflow, workflow_run(name="W2", head_sha="a" * 40), "d-4")

    assert newer.cancels == first.goal_id
    assert other.ignored is None
    assert same == Answer(newer.goal_id, "coalesced: it is about the same as an earlier one")


def test_a_success_older_than_what_coalesced_cancels_nothing(redis: Redis, by_workflow: Source) -> None:
    first = deliver(redis, by_workflow, workflow_run(name="W1"), "d-1")
    newer = deliver(redis, by_workflow, workflow_run(name="W1", run_number=13), "d-2")
    older = deliver(redis, by_workflow, workflow_run(name="W1", run_number=11), "d-3")
    late = deliver(redis, by_workflow, workflow_run(name="W1", conclusion="success"), "d-4")
    solved = deliver(redis, by_workflow, workflow_run(name="W1", conclusion="success", run_number=13), "d-5")

    assert newer.goal_id == older.goal_id == first.goal_id
    assert late == Answer(first.goal_id, "not_newer: the stored one is as new or newer")
    assert solved.cancels == first.goal_id


def test_numbers_are_compared_as_numbers(redis: Redis, github: Source) -> None:
    made = [
        deliver(redis, github, workflow_run(run_number=n, head_sha=f"{at:040x}"), f"d-{n}")
        for at, n in enumerate((9, 10, 100, 11, 100.5, "x"), 1)
    ]

    assert [each.ignored is None for each in made] == [True, True, True, False, True, False]
    assert made[-1].ignored == "order: its type differs from the stored one, a number or a text"


def test_a_text_of_digits_is_compared_as_a_number(redis: Redis, github: Source) -> None:
    orders = ("9", "10", 11, "9", "0012", "9" * 20, "1" + "0" * 20, "9" * 20)
    made = [
        deliver(redis, github, workflow_run(run_number=order, head_sha=f"{at:040x}"), f"d-{at}")
        for at, order in enumerate(orders, 1)
    ]

    assert [each.ignored is None for each in made] == [True, True, True, False, True, True, True, False]


def test_what_is_ignored_is_counted_and_may_come_again(redis: Redis, github: Source) -> None:
    refused = deliver(redis, github, issue_comment("/plan fix it", role="NONE"), "d-1", "issue_comment")
    deliver(redis, github, {"zen": "x"}, "d-2", "ping")

    assert refused.goal_id is None
    assert goals(redis) == []
    assert redis.hgetall(keys.WEBHOOK_STATS) == {b"github:from": b"1", b"github:no_rule": b"1"}
    assert deliver(redis, github, issue_comment("/plan fix it"), "d-1", "issue_comment").ignored is None


def test_nothing_is_read_of_what_is_not_signed(redis: Redis, github: Source) -> None:
    headers, raw = by_github("workflow_run", b"\xff no JSON", secret="wrong")

    with pytest.raises(WrongSignature):
        intake.take(redis, github, headers, raw, time.time())

    assert redis.keys("*webhook*") == []


def test_gitlab_and_any_other_service(redis: Redis, sources: SourcesFile) -> None:
    gitlab, standard, now = sources.named("gitlab"), sources.named("standard"), int(time.time())
    assert gitlab
    assert standard

    by_token = {"x-gitlab-token": webhooks.SECRET, "idempotency-key": "i-1"}
    assert intake.take(redis, gitlab, by_token, codec.dumps(pipeline()), now).ignored is None
    signed, raw = by_standard(pipeline(sha="a" * 40), now)
    assert intake.take(redis, gitlab, signed, raw, now).ignored is None
    data = {"title": "the till", "repository": "acme/shop", "monitor": "m", "log": "l"}
    signed, raw = by_standard({"type": "incident.opened", "data": data}, now)
    assert intake.take(redis, standard, signed, raw, now).ignored is None
    assert [goal["goal"] for goal in goals(redis)] == ["Fix the pipeline of main"] * 2 + ["Repair the till"]


def test_a_server_that_lost_its_functions_gets_them_again(redis: Redis, github: Source) -> None:
    redis.function_flush()

    assert deliver(redis, github, workflow_run(), "d-1").ignored is None
