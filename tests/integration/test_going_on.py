"""A goal that goes on `from` another plan begins with the commit that landed there."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tests.support.planner import Planner
from worker.sources.retry import NoRetry, follow_up_of, with_changes
from worker.store import kept_goals
from worker.store.keys import Partition, partition_of

FIRST, SECOND = "1" * 40, "2" * 40
GOAL: dict[str, Any] = {"goal": "Fix the cart", "tenant": "acme", "allowed_files": ["src/a.py"]}


@pytest.fixture
def planner(redis_url: str) -> Planner:
    return Planner(redis_url, partitions=4)


@pytest.fixture
def before(planner: Planner) -> str:
    """A plan of which two steps landed something, and the last one nothing."""
    steps = [
        {"step_id": name, "title": name, "intent": name, "allowed_files": ["src/a.py"], "depends_on": after}
        for name, after in (("a", []), ("b", ["a"]), ("c", ["b"]))
    ]
    plan_id = planner.submit(**GOAL, goal_id="g-1", steps=steps, context={"repo": "acme/shop", "base_sha": "0" * 40})
    for step, said in (("a", {"commit": FIRST}), ("b", {"commit": SECOND}), ("c", {})):
        planner.report(step, plan_id, touched_files=["src/a.py"], **said)
    return plan_id


def begin(planner: Planner, begins: dict[str, Any], **fields: Any) -> Any:
    """Submit a goal that goes on, and return its plan's head, or the code with which it was refused."""
    goal = {**GOAL, "goal_id": "g-2", "steps": None, "context": {"test_command": "pytest -q"}, **fields, "from": begins}
    plan_id = planner.submit(**goal)
    key = Partition(partition_of(plan_id, 4)).plan(plan_id).plan
    found: Any = planner.client.hmget(key, "state", "halt", "head")
    state, halt, head = found
    return codec.loads(halt)["reason"] if state == b"REJECTED" else codec.loads(head)


@pytest.mark.parametrize(("step", "commit"), [(None, SECOND), ("c", SECOND), ("b", SECOND), ("a", FIRST)])
def test_a_plan_goes_on_from_what_landed_last_or_until_a_step(
    planner: Planner, before: str, step: str | None, commit: str
) -> None:
    head = begin(planner, {"plan_id": before, **({"step_id": step} if step else {})})

    assert (head["context"]["base_sha"], head["repo"]) == (commit, "acme/shop")


@pytest.mark.parametrize(
    ("begins", "fields", "code"),
    [
        ({"plan_id": f"plan_00-{'0' * 32}"}, {}, "unknown_plan"),
        ({}, {"tenant": "other"}, "unknown_plan"),
        ({}, {"context": {"repo": "acme/till"}}, "another_repository"),
        ({"step_id": "never"}, {}, "nothing_landed"),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(
    planner: Planner, before: str, begins: dict[str, Any], fields: dict[str, Any], code: str
) -> None:
    assert begin(planner, {"plan_id": before, **begins}, **fields) == code


@pytest.mark.parametrize("commit", ["-x", "a..b", "c" * 201])
def test_a_commit_that_is_no_revision_is_not_gone_on_from(planner: Planner, before: str, commit: str) -> None:
    (step,) = [{"step_id": "a", "title": "a", "intent": "a", "allowed_files": ["src/a.py"]}]
    plan_id = planner.submit(**GOAL, goal_id="g-3", steps=[step], context={"repo": "acme/shop"})
    planner.report("a", plan_id, touched_files=["src/a.py"], commit=commit)

    assert begin(planner, {"plan_id": plan_id}) == "nothing_landed"


def test_a_retry_goes_on_from_the_same_plan_unless_it_begins_at_another_commit() -> None:
    body = {"goal": "Fix the cart", "from": {"plan_id": f"plan_00-{'0' * 32}"}}

    assert with_changes(body, limits={"tokens": 9000})["from"] == body["from"]
    assert with_changes(body, base_sha=FIRST) == {"goal": "Fix the cart", "context": {"base_sha": FIRST}}


def test_a_retry_from_a_step_takes_over_what_was_done_before_it(planner: Planner, before: str) -> None:
    body, left_out = kept_goals.read_rest(planner.client, 4, before, "c")

    assert left_out == ()
    assert [(step["step_id"], step["depends_on"]) for step in body["steps"]] == [("c", [])]
    assert begin(planner, body["from"], steps=body["steps"])["context"]["base_sha"] == SECOND
    assert [step["step_id"] for step in kept_goals.read_rest(planner.client, 4, before, "b")[0]["steps"]] == ["b", "c"]
    whole, _ = kept_goals.read_rest(planner.client, 4, before, "a")
    assert ([step["step_id"] for step in whole["steps"]], "from" in whole) == (["a", "b", "c"], False)


def test_a_step_that_is_not_there_is_no_place_to_retry_from(planner: Planner, before: str) -> None:
    with pytest.raises(kept_goals.NoRest, match="no planned step 'never'"):
        kept_goals.read_rest(planner.client, 4, before, "never")


def test_a_follow_up_goes_on_with_the_files_and_the_context_of_the_plan_before(planner: Planner, before: str) -> None:
    kept, _ = kept_goals.read(planner.client, 4, before)

    made = follow_up_of(planner.view(before), kept, "Test the cart", "g-2", ["tests/test_a.py"]).body

    assert made["allowed_files"] == ["src/a.py", "tests/test_a.py"]
    assert (made["context"]["repo"], "base_sha" in made["context"]) == ("acme/shop", False)
    assert begin(planner, made["from"], **{**made, "steps": None})["context"]["base_sha"] == SECOND


def test_a_plan_that_goes_on_has_no_follow_up(planner: Planner) -> None:
    plan_id = planner.submit(goal_id="g-live")

    with pytest.raises(NoRetry, match="goes on from a plan that has ended"):
        follow_up_of(planner.view(plan_id), {}, "More", "g-2", [])
