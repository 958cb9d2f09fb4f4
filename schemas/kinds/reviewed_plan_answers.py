"""The answers of a reviewed plan's roles as JSON Schema: operations, findings, a reconciliation, and work reports.

Each schema is made from the models that read the answer, has no references, and contains an example.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from schemas.kinds.reviewed_plan import MAX_OPERATIONS, ContextAnswer, Reconciliation, WorkAnswer, WorkReport
from schemas.kinds.reviewed_plan_files import (
    MILESTONE_ID,
    CodeChange,
    CodeIntent,
    Constraint,
    Decision,
    Documentation,
    Entity,
    InvisibleKnowledge,
    MilestoneDependencies,
    MilestoneFacts,
    Overview,
    RejectedAlternative,
    Review,
    Risk,
)

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntityType:
    """A row of the table of entities."""

    model: type[Entity]
    place: tuple[str, ...]
    prefix: str | None = None  # of its ids; None: it is the only one of its place
    owned: bool = False  # by a milestone, which contains it

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of its value; an operation also names its id and version."""
        return tuple(name for name in self.model.model_fields if name not in ("id", "version"))

    @property
    def required(self) -> tuple[str, ...]:
        """The required fields of a new one, its milestone first."""
        owner = ("milestone",) if self.owned and self.prefix else ()
        return (*owner, *(name for name in self.fields if self.model.model_fields[name].is_required()))


ENTITIES: Mapping[str, EntityType] = MappingProxyType(
    {
        "overview": EntityType(Overview, ("overview",)),
        "decision": EntityType(Decision, ("planning_context", "decision_log"), "DL"),
        "rejected_alternative": EntityType(RejectedAlternative, ("planning_context", "rejected_alternatives"), "RA"),
        "constraint": EntityType(Constraint, ("planning_context", "constraints"), "C"),
        "risk": EntityType(Risk, ("planning_context", "known_risks"), "R"),
        "invisible_knowledge": EntityType(InvisibleKnowledge, ("invisible_knowledge",)),
        "milestone": EntityType(MilestoneFacts, ("milestones",), "M"),
        "code_intent": EntityType(CodeIntent, ("code_intents",), "CI", owned=True),
        "milestone_dependencies": EntityType(MilestoneDependencies, ("milestone_dependencies",)),
        "code_change": EntityType(CodeChange, ("code_changes",), "CC", owned=True),
        "documentation": EntityType(Documentation, ("documentation",), owned=True),
    }
)

_LEFT_OUT = ("title", "default", "description", "$defs")  # of pydantic's output
_MILESTONE = "M-001"
_DIFF = "--- a/src/hello.py\n+++ b/src/hello.py\n@@ -1,1 +1,2 @@\n def hello():\n+    return 'hello'\n"
_EXAMPLES: tuple[Schema, ...] = (
    {"op": "set", "entity": "overview", "version": 1,
     "value": {"title": "Greet", "problem": "Nobody is greeted", "approach": "Add hello() and call it"}},
    {"op": "add", "entity": "decision", "id": "DL-001",
     "value": {"decision": "Greet in English", "reasoning_chain": "All users read it -> no translation is needed"}},
    {"op": "add", "entity": "milestone", "id": _MILESTONE,
     "value": {"number": 1, "name": "Say hello", "files": ["src/hello.py"],
               "tests": {"files": ["tests/test_hello.py"], "type": "unit"},
               "acceptance_criteria": ["tests/test_hello.py passes"], "depends_on": []}},
    {"op": "add", "entity": "code_intent", "id": "CI-001",
     "value": {"milestone": _MILESTONE, "file": "src/hello.py", "function": "hello", "behavior": "Return a greeting",
               "decision_refs": ["DL-001"]}},
    {"op": "add", "entity": "code_change", "id": "CC-001",
     "value": {"milestone": _MILESTONE, "intent_ref": "CI-001", "file": "src/hello.py", "diff": _DIFF,
               "why_comments": ["DL-001: in English"]}},
    {"op": "set", "entity": "documentation", "id": _MILESTONE, "version": 1,
     "value": {"module_comment": "Greets.", "docstrings": [{"function": "hello", "docstring": "Return a greeting."}]}},
)  # fmt: skip


@cache
def operations_schema(writes: tuple[str, ...] = tuple(ENTITIES)) -> Schema:
    """Return the schema of operations on the entities that their writer may write."""
    operations = [each for name in ENTITIES if name in writes for each in _operations_on(name)]
    example = {"operations": [each for each in _EXAMPLES if each["entity"] in writes], "more": False}
    listed = {"type": "array", "maxItems": MAX_OPERATIONS, "items": {"anyOf": operations}}
    properties = {**_plain(WorkAnswer)["properties"], "operations": listed}
    return {**_object(properties, ("operations",)), "examples": [example]}


@cache
def context_schema() -> Schema:
    """Return the schema of context.json; every list is optional."""
    example = {"task_spec": ["Greet the reader", "in scope: src/hello.py", "out of scope: other languages"],
               "entry_points": ["src/hello.py:hello - where it is printed"],
               "assumptions": ["the greeting is in English (high)"]}  # fmt: skip
    return {**_plain(ContextAnswer), "examples": [{"context": example}]}


@cache
def findings_schema() -> Schema:
    """Return the schema of a review with every item decided."""
    found = _plain(Review)
    decided: Schema = {"type": "string", "enum": ["PASS", "FAIL"]}
    found["properties"]["items"]["items"]["properties"]["status"] = decided
    found["properties"]["verdict"] = decided
    passed = {"id": "qa-001", "scope": "*", "check": "Every requirement is covered", "severity": "MUST"}
    failed = {"id": "qa-002", "scope": "file:src/hello.py:10", "check": "M-001 can be tested", "severity": "SHOULD"}
    items = [{**passed, "status": "PASS"}, {**failed, "status": "FAIL", "finding": "No test is named for it"}]
    return {**found, "examples": [{"items": items, "verdict": "FAIL"}]}


def reconciliation_schema(milestones: Sequence[str] = ()) -> Schema:
    """Return the schema of a comparison of plan and outcome, for these milestones if they are known."""
    found = _plain(Reconciliation)
    listed = found["properties"]["milestones"]
    if milestones:
        listed["items"]["properties"]["id"] = {"type": "string", "enum": list(milestones)}
        listed |= {"minItems": len(milestones), "maxItems": len(milestones)}
    judged = [{"id": name, "outcome": "SATISFIED", "deviations": []} for name in milestones or (_MILESTONE,)]
    return {**found, "examples": [{"milestones": judged, "summary": "As planned."}]}


@cache
def work_schema() -> Schema:
    """Return the schema of a report about a change: the files count, not the words."""
    example = {"summary": "hello() returns a greeting, as CC-001 has it.", "deviations": []}
    return {**_plain(WorkReport), "examples": [example]}


def _operations_on(name: str) -> list[Schema]:
    """Return the schema of each operation on an entity."""
    kind = ENTITIES[name]
    parts = _plain(kind.model)["properties"]
    milestone = {"type": "string", "pattern": MILESTONE_ID}
    identity = {"id": parts.get("id", milestone)} if kind.prefix or kind.owned else {}
    whole = {field: parts[field] for field in kind.fields}
    version = {"type": "integer", "minimum": 1}

    def operation(verb: str, **more: Schema) -> Schema:
        words = {"op": {"type": "string", "enum": [verb]}, "entity": {"type": "string", "enum": [name]}}
        needed = [each for each in ("op", "entity", *more) if not (verb == "add" and each == "id")]
        return _object({**words, **more}, needed)

    found = [operation("set", **identity, version=version, value=_object(whole, ()))]
    if kind.prefix is None:
        return found
    owner = {"milestone": milestone} if kind.owned else {}
    added = operation("add", **identity, value=_object({**owner, **whole}, kind.required))
    return [added, *found, operation("remove", **identity, version=version)]


def _object(properties: Mapping[str, Any], required: Collection[str]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _plain(model: type[BaseModel]) -> Schema:
    """Return the schema of a model without titles and defaults, with other models expanded."""
    whole = model.model_json_schema()
    found: Schema = _resolve(whole, whole.get("$defs", {}))
    return found


def _resolve(part: Any, models: Mapping[str, Any], *, names: bool = False) -> Any:
    if isinstance(part, list):
        return [_resolve(each, models) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _resolve(models[part["$ref"].rpartition("/")[2]], models)
    kept = {word: each for word, each in part.items() if names or word not in _LEFT_OUT}
    shape = {word: _resolve(each, models, names=word == "properties" and not names) for word, each in kept.items()}
    if "properties" in shape and not names:
        return _object(shape["properties"], shape.get("required", ()))
    return shape


# The published schemas, by the names of the files.
PUBLISHED: Mapping[str, Callable[[], Schema]] = MappingProxyType(
    {
        "review_operations": operations_schema,
        "review_context": context_schema,
        "review_findings": findings_schema,
        "review_reconciliation": reconciliation_schema,
        "review_work": work_schema,
    }
)
