"""What is asked of GitHub after a delivery, and what the forge of the tests answers, fit GitHub's published OpenAPI.

It is looked for in PLANNER_TEST_NODE_MODULES (`npm install @octokit/openapi`, 400 MB). A fake's answer may lack fields.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.delivered import EARLIER, Begin, begin
from tests.support.forge_life import Thread
from tests.support.programs import NODE_MODULES, needs

__all__ = ["begin"]
PACKAGE = "@octokit/openapi"
pytestmark = [pytest.mark.outages, pytest.mark.long, needs(f"npm:{PACKAGE}")]


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((NODE_MODULES / PACKAGE / "generated/api.github.com.json").read_text())
    return found


def lenient(schema: Any) -> Any:
    """Drop from a schema of OpenAPI 3.0 which fields are required, refuse fields that it lacks, and read `nullable`."""
    if isinstance(schema, list):
        return [lenient(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: lenient(value) for name, value in schema.items() if name != "required" or value is True}
    if isinstance(found.get("properties"), dict) and "allOf" not in found:
        found = {"additionalProperties": False, **found}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found


def operation(api: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """Find the operation of a call; raises LookupError."""
    for template, methods in api["paths"].items():
        pattern = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in methods:
            known: dict[str, Any] = methods[method.lower()]
            return known
    raise LookupError(f"{method} {path}")


def test_each_call_and_each_answer_fits_the_published_schema(begin: Begin, api: dict[str, Any]) -> None:
    life = begin("github", is_draft=True)
    life.forge.checks[life.forge.head] = "failure"
    life.happens()
    life.follow_up("2" * 40)
    life.forge.checks[life.forge.head] = "success"
    life.forge.threads.append(Thread(1, "src/app.py", [("alice", "Name it.", EARLIER)]))
    life.happens()
    life.follow_up("3" * 40)
    life.forge.pushed.append(life.forge.pushed[0].__class__("4" * 40, "By hand", ("Alice", "alice@example.com")))
    life.happens()
    life.forge.state = "merged"
    life.happens()

    components, kinds = {"components": lenient(api["components"])}, set()
    for method, path, body, status, answer in life.forge.calls:
        known = operation(api, method, path.removeprefix("/github"))
        kinds.add((method, known["operationId"]))
        if method != "GET" and "requestBody" in known:
            schema = known["requestBody"]["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": api["components"]}).validate(body)
        told = known["responses"].get(str(status), {}).get("content", {}).get("application/json")
        if told and not isinstance(answer, bytes):
            Draft202012Validator({**lenient(told["schema"]), **components}).validate(answer)
    assert len(kinds) >= 12
    assert ("POST", "pulls/create-reply-for-review-comment") in kinds
