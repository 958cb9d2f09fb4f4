"""The published OpenAPI document: what the gateway says of itself, complete and true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from schemas import codec
from worker.gateway.app import contract

PUBLISHED = Path(__file__).parents[2] / "docs/schemas/openapi.json"
OPEN = {"/healthz", "/readyz", "/v1/token", "/v1/webhooks/{source}"}  # without a key


@pytest.fixture(scope="module")
def document() -> Any:
    return codec.loads(contract())


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from references(each)


def test_the_published_document_is_what_the_gateway_says() -> None:
    assert PUBLISHED.read_bytes() == contract(), "run: planner schemas --out docs/schemas"


def test_every_schema_is_one_and_every_reference_leads_somewhere(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert {each.removeprefix("#/components/schemas/") for each in references(document)} <= schemas.keys()


def test_no_schema_forbids_fields_that_a_later_version_may_add(document: Any) -> None:
    assert b'"additionalProperties": false' not in codec.pretty(document)


def test_every_path_takes_a_key_but_those_that_say_why_not(document: Any) -> None:
    keyless = {path for path, _, operation in operations(document) if "security" not in operation}
    assert keyless == OPEN


def test_every_problem_is_told_as_one(document: Any) -> None:
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
        if "security" in operation:
            assert {"401", "403", "429", "503"} <= operation["responses"].keys()
        if "requestBody" in operation:
            assert {"400", "413", "422"} <= operation["responses"].keys()
