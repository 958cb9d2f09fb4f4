"""Roles whose model is held to the strict form of a schema: it is what structured output takes, and read as ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemas.kinds.reviewed_plan_answers import ENTITIES, PUBLISHED, operations_schema
from schemas.kinds.reviewed_plan_strict import plain_answer, strict_answer
from tests.support.kinds.reviewed_plan import Play, a_goal, begin, failing, intent, milestone, op, run
from tests.support.kinds.reviewed_plan_values import VALUES
from tests.support.structured_output import faults, written

DESIGN_ROW = "plan-design-execute"
PARAMS = {"name": "who is greeted", "loud": "whether to shout"}
ALL = strict_answer(operations_schema())


def held(play: Play, step_id: str, answer: Any) -> Any:
    """Write an answer as a model does that is held to what its step gives it."""
    form = play.given(step_id)["strict_schema"]
    assert list(faults(form)) == []
    found = written(answer, form)
    Draft202012Validator(form).validate(found)
    return found


def sent(*operations: Any) -> Any:
    """Write operations in the strict form, and read them again."""
    answer = written({"operations": list(operations)}, ALL)
    Draft202012Validator(ALL).validate(answer)
    return plain_answer(answer, operations_schema())["operations"]


def bare(value: Any) -> Any:
    """Take away what is null: left after reading is only what a model has no other word for than none."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: bare(each) for name, each in value.items() if each is not None}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_example_of_each_is_read_the_same(name: str) -> None:
    schema = PUBLISHED[name]()
    form = strict_answer(schema)

    for example in schema["examples"]:
        answer = written(example, form)
        Draft202012Validator(form).validate(answer)
        assert bare(plain_answer(answer, schema)) == example
        assert plain_answer(example, schema) == example


def test_a_plan_of_such_answers_is_the_plan_of_plain_ones() -> None:
    asked: list[str] = []
    wrong = failing(plan_design=1)

    def role(play: Play, step_id: str) -> Any:
        answer = wrong(play, step_id)
        asked.append(step_id)
        if answer is None and "strict_schema" in play.given(step_id):
            held(play, step_id, {"summary": "Done"})
        return held(play, step_id, answer) if answer is not None else None

    strict, plain = run(begin(a_goal()), role), run(begin(a_goal()), failing(plan_design=1))

    assert {"plan-design-execute-r2", "plan-docs-qr", "impl-m-001", "reconcile"} <= set(asked)
    assert strict.document["report"]["status"] == "COMPLETED"
    ids = "plan_id", "created_at", "frozen_at"
    for play in (strict, plain):
        play.document["plan"] |= dict.fromkeys(ids)
    assert strict.document == plain.document


@pytest.mark.parametrize("entity", [name for name, kind in ENTITIES.items() if kind.prefix])
def test_of_a_new_entity_what_is_null_is_left_out(entity: str) -> None:
    kind = ENTITIES[entity]
    value = {name: each for name, each in VALUES[entity].items() if name in kind.required}

    (found,) = sent(op("add", entity, value))

    nulls = {name for name, each in found["value"].items() if each is None}
    assert {name: each for name, each in found["value"].items() if name not in nulls} == value
    assert all(kind.model.model_fields[name].default is None for name in nulls)  # which is what null is there


def test_what_is_null_stays_as_it_is_and_what_is_unset_goes() -> None:
    given = milestone(1, "src/a.py", delegated_to="Ada", tests={"files": ["tests/test_a.py"], "type": "unit"})
    play = begin(a_goal())
    play.end(DESIGN_ROW, held(play, DESIGN_ROW, {"operations": [given], "more": True}))
    before = play.plan["milestones"][0]

    renamed = op("set", "milestone", {"name": "Said"}, id="M-001", version=1)
    play.end("plan-design-execute-p2", held(play, "plan-design-execute-p2", {"operations": [renamed], "more": True}))

    assert play.plan["milestones"][0] == before | {"name": "Said", "version": 2}

    alone = op("set", "milestone", {"delegated_to": None}, id="M-001", version=2)
    play.end("plan-design-execute-p3", held(play, "plan-design-execute-p3", {"operations": [alone], "more": True}))

    assert play.plan["milestones"][0] == before | {"name": "Said", "version": 3, "delegated_to": None}


def test_parameters_are_pairs_and_plain_maps_are_read_as_before() -> None:
    plain = intent(1, "src/a.py", params=PARAMS)

    (found,) = sent(plain)

    assert found["value"]["params"] == PARAMS
    assert plain_answer({"operations": [plain]}, operations_schema()) == {"operations": [plain]}
    play = begin(a_goal())
    play.end(DESIGN_ROW, held(play, DESIGN_ROW, {"operations": [milestone(1, "src/a.py"), plain], "more": True}))
    assert play.plan["milestones"][0]["code_intents"][0]["params"] == PARAMS


@pytest.mark.parametrize(
    "pairs",
    [
        [{"name": "a", "value": "x"}, {"name": "a", "value": "y"}],
        [{"name": "a"}],
        [{"name": 1, "value": "x"}],
        ["a"],
    ],
)
def test_pairs_that_make_no_map_are_refused(pairs: Any) -> None:
    answer = {"operations": [milestone(1, "src/a.py"), intent(1, "src/a.py", params=pairs)]}

    assert "params" in (begin(a_goal()).refusal(DESIGN_ROW, answer) or "")


@pytest.mark.parametrize("unset", [["name"], ["no such field"], [[]], "name", [None]])
def test_what_cannot_be_unset_is_refused_or_passed_over(unset: Any) -> None:
    play = begin(a_goal())
    play.end(DESIGN_ROW, {"operations": [milestone(1, "src/a.py")], "more": True})
    operation: Mapping[str, Any] = {**op("set", "milestone", {}, id="M-001", version=1), "unset": unset}

    refused = play.refusal("plan-design-execute-p2", {"operations": [operation], "more": True})

    assert bool(refused) == (unset in (["name"], ["no such field"]))


def test_null_in_a_plain_answer_empties_a_field_as_it_did() -> None:
    plain = op("set", "milestone", {"delegated_to": None}, id="M-001", version=1)

    assert plain_answer({"operations": [plain]}, operations_schema()) == {"operations": [plain]}
