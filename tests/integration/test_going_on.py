"""A goal that goes on `from` another plan begins with the commit that landed there."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tests.support.planner import Planner
from worker.sources.retry import with_changes
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
