"""Which trace a message belongs to: what W3C Trace Context allows is taken, and nothing is refused for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.envelope import Problem
from schemas.outcome import Outcome
from schemas.stored import PlanHead
from schemas.traceparent import read_traceparent
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (TRACE, TRACE),
        (TRACE.replace("00-", "cc-", 1), TRACE),
        (TRACE.replace("00-", "cc-", 1) + "-what-comes-later", TRACE),
        (TRACE + "-more", None),
        (TRACE + "\n", None),
        (TRACE.replace("00-", "cc-", 1) + "x", None),
        (TRACE.replace("00-", "ff-", 1), None),
        (TRACE.upper(), None),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01", None),
        ("00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01", None),
        ("0" * 1_000_000, None),
        ("", None),
        (7, None),
        ([TRACE], None),
    ],
)
def test_a_traceparent_is_taken_in_its_form_alone(said: Any, taken: str | None) -> None:
    assert read_traceparent(said) == taken
    goal = read_goal(StreamEntry("", b"", {b"data": codec.dumps({"goal": "g", "traceparent": said})}), 2_000_000)
    if len(codec.dumps(said)) < 200_000:
        assert not isinstance(goal, Problem)
        assert goal[0].traceparent == taken
    assert Outcome.model_validate({"step_id": "s", "success": True, "traceparent": said}).traceparent == taken


def test_a_goal_sent_again_in_another_trace_is_the_same_goal() -> None:
    digests = set()
    for trace in ({}, {"traceparent": TRACE}, {"traceparent": "nonsense"}):
        found = read_goal(StreamEntry("", b"", {b"data": codec.dumps({"goal": "g", **trace})}), 10_000)
        assert not isinstance(found, Problem)
        digests.add(found[1])
    assert len(digests) == 1


def test_a_plan_without_a_trace_is_stored_as_it_was_before_there_were_any() -> None:
    head = PlanHead("g", "task", "default", None, "seed", {}, {})
    assert b"traceparent" not in head.encode()
    head.traceparent = TRACE
    assert PlanHead.decode(head.encode()).traceparent == TRACE
