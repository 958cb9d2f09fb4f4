"""Our requests to GitHub after a delivery, and the answers of the tests' forge, fit GitHub's published schemas.

They are looked for in PLANNER_TEST_NODE_MODULES (`npm install @octokit/openapi @octokit/graphql-schema`, 430 MB). A
fake's answer may lack fields.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.delivered import EARLIER, Begin, begin
from tests.support.forge_life import Thread
from tests.support.programs import NODE_MODULES, needs
from worker.delivered.github import READY

__all__ = ["begin"]
PACKAGE = "@octokit/openapi"
GRAPHQL = "@octokit/graphql-schema"
pytestmark = [pytest.mark.outages, pytest.mark.long]
VALIDATE = """
import { validate } from 'PACKAGE/index.js';
console.log(JSON.stringify(validate(process.argv[1]).map(each => each.message)));
"""


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


@needs("node", f"npm:{GRAPHQL}")
def test_the_call_that_ends_a_draft_fits_the_published_graphql_schema() -> None:
    module = VALIDATE.replace("PACKAGE", (NODE_MODULES / GRAPHQL).as_uri())

    def faults(query: str) -> list[str]:
        argv = ["node", "--input-type=module", "-e", module, query]
        found = subprocess.run(argv, check=True, capture_output=True, timeout=60)
        told: list[str] = json.loads(found.stdout)
        return told

    assert faults(READY) == []
    (fault,) = faults(READY.replace("isDraft", "isADraft"))
    assert fault.startswith('Cannot query field "isADraft"')


@needs(f"npm:{PACKAGE}")
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
