"""What a newer version adds to a stored record does no harm to this one, which writes it again as it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from schemas import codec
from schemas.kinds.evolution import PlanningAgentResponse
from schemas.kinds.gap_report import IterationPlan
from schemas.kinds.reviewed_plan import ReviewDocument, ReviewState
from schemas.step import PlannedStep
from schemas.stored import PARTS, Attempt, PlanHead, StepStatus, decode_plan
from schemas.stored.step import store_step, unpack_step
from tasks.handlers import bulk_commands
from tasks.strategies.campaign.state import CampaignState
from tasks.strategies.evolution.state import EvolutionState
from tasks.strategies.gap_report.state import IterationState
from tasks.strategies.task.state import TaskState
from tests.support.growing import Script, goes_on, growing
from tests.support.plans import a_report, a_step

HEAD = {
    "goal_id": "g",
    "kind": "task",
    "tenant": "default",
    "repo": None,
    "seed": "seed",
    "context": {},
    "limits": {"tokens": 1},
}
LIVE: dict[str, Any] = {
    "reserved": {"tokens": 0},
    "spent": {"tokens": 0},
    "counts": {},
    "times": {"created": 1},
    "revision": 0,
    "wake": 0,
}
NEWER = {"newer": {"list": [1]}, "unknown": 1, "dirty": ["state"]}  # two of which are names of ours


def test_elements_behind_those_of_a_step_status_are_written_again() -> None:
    raw = codec.loads(StepStatus(1, "BLOCKED", 3, approval="asked").encode())

    status = StepStatus.decode(codec.dumps([*raw, {"newer": 1}, 2]))
    status.state = "PENDING"

    assert status.approval == "asked"
    assert codec.loads(status.encode()) == [raw[0], "PENDING", *raw[2:], {"newer": 1}, 2]


def test_elements_behind_those_of_an_attempt_are_passed_over() -> None:
    attempt = Attempt(1, "lease", "default", ["src/a.py"], 10, 1, 5, 6, entry="7-0")
    raw = codec.loads(attempt.encode())

    assert Attempt.decode(b"7-0 " + codec.dumps([*raw, "newer"])) == attempt


def test_every_field_of_a_step_and_of_an_attempt_comes_back_as_it_was() -> None:
    status = StepStatus(1, "BLOCKED", 2, 3, 4, "digest", "signature", 5, "alice", {"category": "UNKNOWN"}, "asked")
    attempt = Attempt(1, "lease", "default", ["src/a.py"], 2, 3, 4, 5, 6, "7-0")

    assert StepStatus.decode(status.encode()) == status
    assert Attempt.decode(b"7-0 " + attempt.encode()) == attempt


def test_keys_beside_those_of_a_head_and_of_the_changing_part_are_written_again() -> None:
    head, live = codec.dumps({**HEAD, **NEWER}), codec.dumps({**LIVE, **NEWER, "paused": "ada"})

    record = decode_plan([b"7", b"EXECUTING", head, live, b""])
    record.revision = 5

    assert (record.head.goal_id, record.paused, record.dirty) == ("g", "ada", set())
    assert codec.loads(record.encode("live")) == {**LIVE, **NEWER, "paused": "ada", "revision": 5}
    assert codec.loads(record.encode("head")).items() >= {**HEAD, **NEWER}.items()
    assert decode_plan([b"7", b"EXECUTING", record.encode("head"), record.encode("live"), b""]) == record


@pytest.mark.parametrize("part", [part for part in PARTS if part != "log"])
def test_keys_of_a_part_of_a_plan_are_written_again_whether_it_was_read_or_not(part: str) -> None:
    live = {**LIVE, part: NEWER}

    record = decode_plan([b"7", b"EXECUTING", codec.dumps(HEAD), codec.dumps(live), b""])

    assert codec.loads(record.encode("live")) == live
    assert getattr(record, part).unknown == NEWER
    assert codec.loads(record.encode("live")) == live


def test_a_part_of_which_nothing_is_kept_is_not_stored() -> None:
    record = decode_plan([b"7", b"EXECUTING", codec.dumps(HEAD), codec.dumps(LIVE), b""])

    for part in PARTS:
        assert getattr(record, part).stored() in ({}, ())
    assert codec.loads(record.encode("live")) == LIVE


def test_elements_behind_those_of_the_head_of_a_log_stay_with_the_log() -> None:
    record = decode_plan([b"7", b"EXECUTING", codec.dumps(HEAD), codec.dumps({**LIVE, "log": ["x", 3, "1.0", 7]}), b""])

    record.log.follow("y", "1.1")

    assert codec.loads(record.encode("live"))["log"] == ["y", 4, "1.1", 7]


def test_a_record_that_lacks_what_it_needs_is_still_refused() -> None:
    with pytest.raises(TypeError):
        PlanHead.decode(codec.dumps({"goal_id": "g", **NEWER}))


def test_keys_of_a_standing_order_are_passed_over() -> None:
    order = {"actor": "ada", "reason": "why", "command_id": "c", "until": 0, **NEWER}

    found = bulk_commands.find_standing({b"pause all": codec.dumps(order)}, "default", None, 1, 2)

    assert found is not None
    assert (found.command, found.actor) == ("pause", "ada")


def test_keys_of_a_step_are_written_again_with_those_of_its_parts() -> None:
    facts = unpack_step(store_step(a_step("s-1")))
    newer = {**facts, "newer": 1, "estimate": {**facts["estimate"], "newer": 2}}

    planned = PlannedStep.model_validate(newer).model_copy(update={"title": "other"})

    assert unpack_step(store_step(planned)) == {**newer, "title": "other"}


@pytest.mark.parametrize(
    "kept",
    [
        *(CampaignState, EvolutionState, IterationState, ReviewState, TaskState),
        *(ReviewDocument, PlanningAgentResponse, IterationPlan),
    ],
)
def test_what_strategies_keep_and_read_back_are_records_at_any_depth(kept: type[BaseModel]) -> None:
    forgetful = [model for model in _models(kept) if model.model_config.get("extra") != "allow"]

    assert forgetful == []


def test_keys_of_a_strategys_state_stay_although_its_strategy_makes_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_end=lambda growth, _: goes_on(state={"count": growth.state["count"] + 1}))
    plan = growing(monkeypatch, script, a_step("s-1"), a_step("s-2"), draft={"state": {"count": 1, "newer": [2]}})

    plan.report(a_report("s-1"))
    plan.report(a_report("s-2"))

    assert codec.loads(plan.record.strategy_state)["state"] == {"count": 3, "newer": [2]}


def _models(model: type[BaseModel], known: frozenset[Any] = frozenset()) -> Iterator[type[BaseModel]]:
    if model not in known:
        yield model
        for field in model.model_fields.values():
            for part in _parts(field.annotation):
                yield from _models(part, known | {model})


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _parts(part)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, each.name) for kind in PARTS.values() if kind().stored() == {} for each in fields(kind) if each.init],
)
def test_a_part_stores_each_of_its_fields_also_where_it_is_the_only_one(kind: type[Any], name: str) -> None:
    empty, part = getattr(kind(), name), kind()
    setattr(part, name, {int: 1, str: "a", bool: True, list: [1], dict: {"a": 1}}.get(type(empty), 1))

    assert part.stored() == {name: getattr(part, name)}
