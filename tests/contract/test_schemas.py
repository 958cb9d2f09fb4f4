"""The contract: schemas equal to the models, examples that hold, limits exactly where docs/wire.md has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from schemas import codec
from schemas.base import name_unknown_fields, unknown_fields
from schemas.command import Command
from schemas.contract.messages import MESSAGES, documents, schema
from schemas.goal import Goal, SuppliedStep
from schemas.outcome import Outcome
from schemas.step import PlannedStep, StepSpec
from tasks.handlers import goals
from tasks.rules.strategy import Draft

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs/schemas"
FIXTURES = ROOT / "tests/fixtures"
HELD_ELSEWHERE = ("openapi.json", "patterns.json")
INBOUND = ("goal", "outcome", "command")
PLAN = "plan_3c-0199aaaabbbbccccddddeeeeffff0000"
STEP = {"step_id": "a", "title": "A", "intent": "Do a"}
ORDER = {"command_id": "c1", "command": "pause", "scope": "plan", "actor": "me", "reason": "lunch"}


def example(name: str) -> Any:
    return codec.loads((FIXTURES / name).read_bytes())


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def contains(whole: Any, part: Any) -> bool:
    """Tell whether every field and value of `part` is in `whole`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and contains(whole[name], value) for name, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def parts(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        yield document
    for part in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from parts(part)


def test_the_published_contract_is_what_the_models_say() -> None:
    published = {path.name: path.read_bytes() for path in PUBLISHED.iterdir() if path.name not in HELD_ELSEWHERE}
    assert published == dict(documents()), "run: planner schemas --out docs/schemas"


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_has_a_valid_schema_of_2020_12(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", MESSAGES)
def test_no_schema_forbids_fields_that_a_later_version_may_add(name: str) -> None:
    assert not [part for part in parts(schema(name)) if part.get("additionalProperties") is False]


@pytest.mark.parametrize("name", INBOUND)
def test_schemas_of_what_comes_in_say_that_more_fields_may_come(name: str) -> None:
    objects = [part for part in parts(schema(name)) if "properties" in part and part.get("type") == "object"]
    assert objects
    assert all(part["additionalProperties"] is True for part in objects)


def test_asyncapi_names_every_stream_of_the_wire_with_its_group() -> None:
    channels = codec.loads(dict(documents())["asyncapi.json"])["channels"]
    found = {each["address"]: each["x-redis-stream"].get("group") for each in channels.values()}
    assert found == {
        "planner:goals": "planner",
        "planner:{partition}:outcomes": "planner",
        "planner:{partition}:attachments": None,
        "planner:{partition}:commands": "planner",
        "planner:commands": "planner",
        "planner:{partition}:steps:{queue}": "controllers",
        "planner:{partition}:events": None,
        "planner:{partition}:dead": None,
        "{goals}:dead": None,
    }


def test_every_reference_in_asyncapi_leads_somewhere() -> None:
    document = codec.loads(dict(documents())["asyncapi.json"])
    for reference in [part["$ref"] for part in parts(document) if "$ref" in part]:
        if reference.startswith("./"):
            assert (PUBLISHED / reference).is_file()
        else:
            place = document
            for name in reference.removeprefix("#/").split("/"):
                place = place[name]


@pytest.mark.parametrize("name", ["goal", "step_spec", "outcome"])
def test_the_examples_of_the_wire_fit_their_schemas_and_models(name: str) -> None:
    body = example(f"wire/{name}.json")
    validator(name).validate(body)
    if name != "step_spec":
        assert MESSAGES[name].model_validate(body)


@pytest.mark.parametrize("name", ["goal", "outcome"])
def test_the_examples_of_the_wire_hold_no_field_that_we_do_not_know(name: str) -> None:
    model: Any = MESSAGES[name].model_validate(example(f"wire/{name}.json"))
    assert unknown_fields(model) == 0
    assert contains(codec.loads(codec.encode(model)), example(f"wire/{name}.json"))


def test_the_outcome_of_seed_001_is_accepted_and_emitted_again_without_loss() -> None:
    body = example("seed_001/outcome.json")
    validator("outcome").validate(body)
    outcome = Outcome.model_validate(body)
    assert unknown_fields(outcome) == 0
    assert contains(codec.loads(codec.encode(outcome)), body)


def test_the_step_spec_of_seed_001_is_accepted_and_emitted_again_without_loss() -> None:
    seed, ours = example("seed_001/step_spec.json"), example("wire/step_spec.json")
    spec = StepSpec.model_validate({**ours, **seed, "estimate": {"tokens": 1, "patch_cycles": 1}})
    emitted = codec.loads(codec.encode(spec))
    assert contains(emitted, seed)
    validator("step_spec").validate(emitted)


def test_the_step_and_the_outcome_of_the_page_about_controllers_are_accepted() -> None:
    page = (ROOT / "docs/writing-a-controller.md").read_text()
    step, outcome = (codec.loads(each.encode()) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL))

    assert step == example("wire/step_spec.json")
    spec = StepSpec.model_validate({**step, "estimate": {"tokens": 1, "patch_cycles": 1}})
    validator("step_spec").validate(codec.loads(codec.encode(spec)))
    validator("outcome").validate(outcome)
    assert unknown_fields(Outcome.model_validate(outcome)) == 0
    assert contains(outcome, {name: step[name] for name in ("plan_id", "step_id", "attempt", "lease")})


def test_the_step_of_seed_001_can_be_supplied_and_goes_out_as_it_came() -> None:
    seed = example("seed_001/step_spec.json")
    goal = Goal.model_validate({"goal": "Fix it", "allowed_files": seed["allowed_files"], "steps": [seed]})
    draft = goals.plan(goal)
    assert isinstance(draft, Draft)
    del seed["controller_task_spec"]["hint"]  # a supplied step has its intent instead
    assert contains(codec.loads(codec.encode(draft.steps[0])), seed)


def test_at_most_fifty_unknown_fields_are_named_and_none_at_length() -> None:
    goal = Goal.model_validate({"goal": "x", **{f"{number}{'y' * 1000}": 1 for number in range(100)}})

    named = name_unknown_fields(goal)

    assert len(named.pointers) == len(named.nearest) == 50
    assert max(map(len, named.pointers)) == 200


def test_unknown_fields_are_ignored_and_counted_at_every_depth() -> None:
    steps = [{**STEP, "colour": "red"}, {**STEP, "estimate": {"hours": 1}}]
    goal = Goal.model_validate({"goal": "x", "colour": "red", "context": {"mood": "good"}, "steps": steps})
    assert unknown_fields(goal) == 4
    assert unknown_fields(Goal.model_validate({"goal": "x"})) == 0


def test_an_event_tells_where_it_came_from_under_the_wires_own_name() -> None:
    assert {"from", "to"} <= schema("event")["properties"].keys()


def goal(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return Goal, {"goal": "x", **fields}


def step(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return SuppliedStep, {**STEP, **fields}


def outcome(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return Outcome, {"step_id": "a", "success": False, **fields}


def order(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return Command, {**ORDER, **fields}


def limits(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return goal(limits=fields)


def evidence(**fields: Any) -> tuple[type[BaseModel], dict[str, Any]]:
    return outcome(failure_evidence=fields)


FIGURES = ("tokens_used", "duration_ms", "patch_cycles", "tool_calls")
ODD_NUMBERS = (-1, 10**12 + 1, 2**64, -(10**30), 0.5, -0.5, 1e300)  # no outcome is refused for the value of a number
AT_THE_LIMIT = [
    goal(goal="x" * 4096),
    goal(goal_id="i" * 200),
    goal(tenant="t" * 200),
    goal(queue="q" * 64),
    goal(queue="a.b_c-d"),
    goal(allowed_files=["f"] * 10_000),
    goal(constraints=["c" * 1000] * 100),
    goal(context={"failing_tests": ["t" * 1000] * 1000}),
    goal(steps=[]),
    step(step_id="a-0"),
    step(step_id="a" * 64),
    step(title="t" * 100),
    step(intent="i" * 500),
    step(allowed_files=["f"] * 10),
    step(allowed_files=["f" * 512]),
    step(retry_limit=0),
    step(retry_limit=3),
    step(verify=[{"tool": "pytest", "args": ["a"] * 50}, "ruff check ."]),
    step(risk_level="HIGH", type="REVIEW", mode="read_only"),
    limits(tokens=1000, patch_cycles=1, wall_clock_s=60, max_steps=10_000, max_parallel=64, tool_calls=0),
    limits(tokens=None, max_steps=1),
    outcome(touched_files=["f"] * 1000, created_files=["f"] * 1000),
    outcome(attempt=1, plan_id=PLAN, lease="l"),
    outcome(error_message="e" * 4096),
    outcome(metrics={"tokens_used": 0, "duration_ms": 10**12}),
    *[outcome(metrics={name: value}) for name in FIGURES for value in ODD_NUMBERS],
    *[outcome(growth_kb=value) for value in ODD_NUMBERS],
    *[outcome(verify=[{"tool": "pytest", "exit_code": value}]) for value in ODD_NUMBERS],
    *[evidence(error_line=value) for value in ODD_NUMBERS],
    outcome(verify=[{"tool": "pytest", "exit_code": -9}] * 50),
    outcome(output=[1, {"deep": None}]),
    evidence(stack_trace_head="t" * 4096),
    evidence(suggestion="s" * 4096),
    evidence(category="A_WORD_OF_THE_FUTURE"),
    evidence(top_failing_tests=["t" * 1000] * 100),
    order(plan_id=PLAN, step_id="a", until="2026-11-21T20:30:00Z", value={"tokens": 1}),
    order(reason=""),
]
OVER_THE_LIMIT = [
    (goal(goal="x" * 4097), "/goal"),
    (goal(goal=""), "/goal"),
    (goal(goal=" \n "), "/goal"),
    (goal(goal=None), "/goal"),
    (goal(goal_id=""), "/goal_id"),
    (goal(goal_id="i" * 201), "/goal_id"),
    (goal(goal_id="a b"), "/goal_id"),
    (goal(queue="q" * 65), "/queue"),
    (goal(queue="Default"), "/queue"),
    (goal(queue="../x"), "/queue"),
    (goal(kind="poem"), "/kind"),
    (goal(allowed_files=["f"] * 10_001), "/allowed_files"),
    (goal(allowed_files=["f" * 513]), "/allowed_files/0"),
    (goal(allowed_files="src/a.py"), "/allowed_files"),
    (goal(constraints=["c"] * 101), "/constraints"),
    (goal(constraints=["c" * 1001]), "/constraints/0"),
    (goal(context={"failing_tests": ["t"] * 1001}), "/context/failing_tests"),
    (goal(steps=[STEP] * 10_001), "/steps"),
    (goal(approvals=["SOMETIMES"]), "/approvals/0"),
    (step(step_id=""), "/step_id"),
    (step(step_id="a" * 65), "/step_id"),
    (step(step_id="A"), "/step_id"),
    (step(step_id="a_b"), "/step_id"),
    (step(step_id="a\n"), "/step_id"),
    (step(step_id="ä"), "/step_id"),
    (step(title=""), "/title"),
    (step(title="t" * 101), "/title"),
    (step(intent=""), "/intent"),
    (step(intent="i" * 501), "/intent"),
    (step(allowed_files=["f"] * 11), "/allowed_files"),
    (step(allowed_files=[""]), "/allowed_files/0"),
    (step(retry_limit=-1), "/retry_limit"),
    (step(retry_limit=4), "/retry_limit"),
    (step(risk_level="low"), "/risk_level"),
    (step(type="DEPLOY"), "/type"),
    (step(mode="write"), "/mode"),
    (step(depends_on=["Not An Id"]), "/depends_on/0"),
    (limits(tokens=999), "/limits/tokens"),
    (limits(patch_cycles=0), "/limits/patch_cycles"),
    (limits(wall_clock_s=59), "/limits/wall_clock_s"),
    (limits(max_steps=0), "/limits/max_steps"),
    (limits(max_steps=10_001), "/limits/max_steps"),
    (limits(max_parallel=0), "/limits/max_parallel"),
    (limits(max_parallel=65), "/limits/max_parallel"),
    (limits(tool_calls=-1), "/limits/tool_calls"),
    (outcome(step_id="A"), "/step_id"),
    (outcome(success="perhaps"), "/success"),
    (outcome(plan_id="plan_1"), "/plan_id"),
    (outcome(attempt=0), "/attempt"),
    (outcome(error_message="e" * 4097), "/error_message"),
    (outcome(metrics={"tokens_used": "many"}), "/metrics/tokens_used"),
    (outcome(metrics={"tokens_used": []}), "/metrics/tokens_used"),
    (outcome(growth_kb={}), "/growth_kb"),
    (outcome(verify=[{"tool": "pytest", "exit_code": 0}] * 51), "/verify"),
    (evidence(stack_trace_head="t" * 4097), "/failure_evidence/stack_trace_head"),
    (evidence(suggestion="s" * 4097), "/failure_evidence/suggestion"),
    (evidence(top_failing_tests=["t"] * 101), "/failure_evidence/top_failing_tests"),
    (order(command="dance"), "/command"),
    (order(scope="world"), "/scope"),
    (order(actor=""), "/actor"),
    (order(reason="r" * 1001), "/reason"),
    (order(plan_id="plan_1"), "/plan_id"),
]


def test_an_outcome_of_more_files_than_are_listed_is_cut_and_counted() -> None:
    _, many = outcome(touched_files=["f"] * 1500, created_files=["f"] * 1500, discarded_files=["f"] * 1500)
    needs = {"files": ["f"] * 21}

    found = Outcome.model_validate_json(codec.dumps({**many, "needs": needs}))

    assert [len(each) for each in (found.touched_files, found.created_files, found.discarded_files)] == [1000] * 3
    assert found.touched_count == 1500
    assert Outcome.model_validate({**many, "touched_count": 7}).touched_count == 1500
    assert Outcome.model_validate({**many, "touched_count": 9000}).touched_count == 9000
    assert found.needs is not None
    assert len(found.needs.files) == 20
    assert Outcome.model_validate({**many, "needs": "more", "patterns": "yes?"}).needs is None


@pytest.mark.parametrize("kind", ["host", "provider", "requires"])
def test_an_outcome_says_what_kept_its_attempt_from_going_on(kind: str) -> None:
    _, back = outcome(success=False, released={"reason": "no disk", "kind": kind})

    assert codec.loads(Outcome.model_validate(back).model_dump_json())["released"] == {
        "reason": "no disk",
        "kind": kind,
    }


@pytest.mark.parametrize("kind", ["weather", "HOST", 7, None])
def test_another_word_for_what_kept_an_attempt_counts_as_none(kind: object) -> None:
    _, back = outcome(success=False, released={"reason": "no disk", "kind": kind})

    released = Outcome.model_validate(back).released

    assert released is not None
    assert (released.reason, released.kind) == ("no disk", None)


NAMES = {model: name for name, model in MESSAGES.items()}


def told(case: Any) -> str:
    text = json.dumps(case[1] if isinstance(case[1], dict) else {**case[0][1], "at": case[1]})
    return text[:60]


@pytest.mark.parametrize("case", AT_THE_LIMIT, ids=told)
def test_a_message_at_the_limit_is_taken(case: tuple[type[BaseModel], dict[str, Any]]) -> None:
    model, body = case
    assert model.model_validate(body)
    if model in NAMES:
        validator(NAMES[model]).validate(body)


@pytest.mark.parametrize("case", OVER_THE_LIMIT, ids=told)
def test_a_message_beyond_the_limit_is_refused_at_its_place(
    case: tuple[tuple[type[BaseModel], dict[str, Any]], str],
) -> None:
    (model, body), pointer = case
    with pytest.raises(ValidationError) as refusal:
        model.model_validate_json(codec.dumps(body))
    assert {"/" + "/".join(map(str, error["loc"])) for error in refusal.value.errors()} == {pointer}


def test_a_step_at_every_limit_keeps_its_words_when_it_is_planned() -> None:
    supplied = {**STEP, "step_id": "a" * 64, "title": "t" * 100, "intent": "i" * 500, "verify": "pytest"}
    draft = goals.plan(Goal.model_validate({"goal": "x", "steps": [supplied]}))
    assert isinstance(draft, Draft)
    assert isinstance(draft.steps[0], PlannedStep)
    assert contains(codec.loads(codec.encode(draft.steps[0])), supplied)
