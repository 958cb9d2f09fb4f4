"""What an agent's prompt is given beside the question: every line of it is marked as data."""

from __future__ import annotations

from typing import Any

import pytest

from worker.controller.given_data import HEAD, given_data
from worker.controller.wire import Context, Spec

ANSWER = {"step_id": "look", "title": "Look", "output": "src/a.py:3\n# not a heading", "cut": True}
FAILURE: dict[str, Any] = {
    "category": "LINT_ERROR",
    "failing_tests": ["t"],
    "trace": "a.py:1\na.py:2",
    "suggestion": None,
}
SPEC: dict[str, Any] = {
    "plan_id": "plan_3c-0199aaaabbbbccccddddeeeeffff0000",
    "step_id": "look",
    "attempt": 1,
    "mode": "read_only",
    "lease": "lease",
    "lease_key": "key",
    "deadline": "2999-01-01T00:00:00Z",
    "reply_to": "outcomes",
}


def test_all_that_is_known_is_quoted_with_its_origin() -> None:
    documents = {"docs/a.md": "# A\n\nB\u2028C"}
    known = {"answers": [ANSWER], "failure_log": "E  1\nE  2\n", "documents": documents, "previous_failure": FAILURE}

    data = given_data(Context.model_validate(known))

    assert (
        data
        == f"""{HEAD}

## Answer of an earlier step, cut (from its agent)
| look, Look:
| src/a.py:3
| # not a heading

## The failure log of the goal, or its end (from a tool)
| E  1
| E  2

## A document, or its beginning (from the repository)
| docs/a.md:
| # A
|{" "}
| B
| C

## Why the last attempt failed, whose change is not in this folder (from its tools)
| category: LINT_ERROR
| failing_tests: ["t"]
| trace: a.py:1
| a.py:2"""
    )


def test_where_nothing_is_known_nothing_is_given() -> None:
    assert given_data(Context.model_validate({"repo": "acme/shop", "documents": {}, "failure_log": ""})) == ""


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, False),
        ({"context": {"answers": [ANSWER], "failure_log": "E", "documents": {"a.md": "a"}}}, False),
        ({"input": {"plan": {"summary": "s"}, "step": {"id": "a"}}}, False),
        ({"input": {"prompt": "Plan it.", "schema": {}}}, True),
        ({"input": {"plan": {}, "role": "architect"}}, True),
        ({"input": ["anything else"]}, True),
    ],
)
def test_only_what_the_plan_goes_on_with_has_to_be_whole(changes: dict[str, Any], asks: bool) -> None:
    assert Spec.model_validate(SPEC | changes).asks is asks
