"""The strict form of every answer's schema is what OpenAI's and Codex's structured output takes, and says the same.

The rules are those of OpenAI's guide to structured output (tests/support/structured_output.py): beside the form of
each place at most 5000 properties, ten levels, 120,000 characters of names, 1000 values of enumerations.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from schemas import codec
from schemas.contract.messages import ANSWERS, documents
from schemas.contract.strict import leave_out_nulls, strict_form
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from schemas.kinds.reviewed_plan_answers import PUBLISHED as ROLES
from tests.support.structured_output import faults, places

PUBLISHED = {name: codec.loads(text) for name, text in documents() if name.endswith(".strict.schema.json")}


def test_there_is_one_for_the_answers_of_every_kind_that_has_a_schema() -> None:
    assert {name.partition(".")[0] for name in PUBLISHED} == ANSWERS.keys() | ROLES.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_structured_output_takes_it(name: str) -> None:
    schema = PUBLISHED[name]
    all_places = list(places(schema))
    names = [name for _, part in all_places for name in part.get("properties", ())]
    values = [value for _, part in all_places for value in part.get("enum", ())]

    Draft202012Validator.check_schema(schema)
    assert list(faults(schema)) == []
    assert max(depth for depth, part in all_places if "properties" in part) <= 10
    assert len(names) <= 5000
    assert len(values) <= 1000
    assert len("".join(map(str, [*names, *values]))) <= 120_000


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_library_of_the_drafter_has_nothing_to_change_in_it(name: str) -> None:
    found = OpenAIJsonSchemaTransformer(copy.deepcopy(PUBLISHED[name]), strict=None)

    walked = found.walk()

    assert found.is_strict_compatible
    assert walked == {word: value for word, value in PUBLISHED[name].items() if word != "$schema"}


@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_the_checker_finds_in_the_schema_itself_is_gone(name: str) -> None:
    assert list(faults(ANSWERS[name]))
    assert not list(faults(strict_form(ANSWERS[name])))


def test_an_answer_in_which_optional_fields_are_null_is_one_without_them() -> None:
    step = {"id": "a", "title": "A", "intent": "Do a", "actions": ["do it"], "validation": ["look"]}
    whole: dict[str, Any] = {"plan_summary": "S", "rationale": "R", "steps": [step], "fallback_plan": None}
    whole |= {name: ["x"] for name in ("focus_metrics", "guardrails", "risks", "validation")}
    nulls = {"files": None, "references": None, "dependencies": None, "risks": None}
    said: dict[str, Any] = {**whole, "steps": [step | nulls], "handoff_notes": None}

    Draft202012Validator(strict_form(PLANNING_OUTPUT_SCHEMA) or {}).validate(said)
    assert leave_out_nulls(said, PLANNING_OUTPUT_SCHEMA) == whole
    Draft202012Validator(PLANNING_OUTPUT_SCHEMA).validate(whole)


def test_null_stays_where_it_is_an_answer_of_its_own_or_a_mistake() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}},
    }

    assert leave_out_nulls({"a": None, "b": None, "c": None}, schema) == {"a": None, "b": None, "c": None}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}},
        },
        {"type": "object", "properties": {"a": {"$ref": "elsewhere"}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": ["a"]},
    ],
)
def test_what_has_none_is_told_from_what_has_one(schema: dict[str, Any]) -> None:
    assert strict_form(schema) is None


def test_references_and_choices_are_written_out() -> None:
    choice: dict[str, Any] = {"oneOf": [{"$ref": "#/$defs/One"}, {"type": "integer", "minimum": 1}]}
    one: dict[str, Any] = {
        "type": "object",
        "properties": {"kind": {"const": "one"}, "more": {"enum": ["x"]}},
        "required": ["kind"],
    }
    schema: dict[str, Any] = {"type": "object", "properties": {"choice": choice}, "required": [], "$defs": {"One": one}}

    found = strict_form(schema)
    assert found
    assert not list(faults(found))
    Draft202012Validator(found).validate({"choice": None})
    Draft202012Validator(found).validate({"choice": {"kind": "one", "more": None}})
    assert not Draft202012Validator(found).is_valid({"choice": {"kind": "two", "more": None}})
