"""Every kind of goal has the same files for the same roles; who knows one finds everything in the others."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.base import GoalKind
from schemas.goal import Goal
from tasks.rules.strategy import Draft, Setting, Strategy
from tasks.strategies import task
from tasks.strategies.registry import discover_workflows
from tasks.toolchain.catalogue import CATALOGUE
from worker.cli.commands.app import app

STRATEGIES = Path(__file__).parents[2] / "tasks" / "strategies"
VERBS = ("draft", "input_for", "refusal", "advance", "answer", "stuck")  # in the order of a plan's life
ALWAYS = {"__init__", "strategy", "state", "steps"}
MOST_LINES = 400


@dataclass(frozen=True)
class Kind:
    """What a kind has beside the roles that every kind has."""

    nouns: frozenset[str]  # modules under the names of what the kind is about
    document: bool = True  # it shows more than what its drafter answers
    asks: bool = True  # a drafter: so it has a prompt


KINDS = {
    GoalKind.CAMPAIGN: Kind(
        frozenset({"answers", "drafts", "exploration", "formulas", "frameworks", "outline", "question", "replan"})
        | {"parts", "sequence", "tasks", "verification"}
    ),
    GoalKind.EVOLUTION: Kind(frozenset({"card", "chunks", "plan_parser", "request", "trajectory"})),
    GoalKind.GAP_REPORT: Kind(
        frozenset({"actions", "analysis", "check_first", "checks", "choice", "constraints", "evidence", "history"})
        | {"outside", "pause", "places", "second_look", "suspects", "tally", "verification"},
        asks=False,
    ),
    GoalKind.REVIEWED_PLAN: Kind(
        frozenset({"decision", "gate", "implementation", "integrity", "markdown", "material", "milestones"})
        | {"operations", "prompt", "rows", "words", "workflow"},
        asks=False,
    ),
    GoalKind.TASK: Kind(frozenset({"goal_type", "plan_parser", "supplied", "templates"})),
}


def tree_of(kind: str, module: str) -> ast.Module:
    return ast.parse((STRATEGIES / kind / f"{module}.py").read_text())


def test_no_kind_is_left_out() -> None:
    assert set(KINDS) == set(GoalKind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_module_for_each_role_and_the_nouns_of_its_own(kind: GoalKind) -> None:
    own = KINDS[kind]
    roles = ALWAYS | ({"document"} if own.document else set()) | ({"prompt"} if own.asks else set())

    assert {path.stem for path in (STRATEGIES / kind).glob("*.py")} == roles | own.nouns


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_tells_the_story_and_exports_the_verbs_of_its_strategy(kind: GoalKind) -> None:
    package, strategy = (import_module(f"tasks.strategies.{kind}{name}") for name in ("", ".strategy"))
    body = tree_of(kind, "__init__").body

    assert sorted(package.__all__) == sorted(VERBS)
    assert all(getattr(package, verb) is getattr(strategy, verb) for verb in VERBS)
    assert len((package.__doc__ or "").split()) > 50
    assert [type(node) for node in body] == [ast.Expr, ast.ImportFrom, ast.ImportFrom, ast.Assign]


@pytest.mark.parametrize("kind", KINDS)
def test_a_strategy_is_its_six_verbs_in_order_of_life(kind: GoalKind) -> None:
    public = [
        node.name
        for node in tree_of(kind, "strategy").body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]

    assert tuple(public) == VERBS


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_verb_takes_what_the_protocol_gives(kind: GoalKind, verb: str) -> None:
    wanted = list(inspect.signature(getattr(Strategy, verb)).parameters.values())[1:]
    taken = list(inspect.signature(getattr(import_module(f"tasks.strategies.{kind}"), verb)).parameters.values())

    assert [each.annotation for each in taken] == [each.annotation for each in wanted]


@pytest.mark.parametrize("kind", [kind for kind, own in KINDS.items() if own.asks])
def test_a_drafters_answers_are_for_the_shared_cycle_alone(kind: GoalKind) -> None:
    trees = [ast.walk(tree_of(kind, path.stem)) for path in (STRATEGIES / kind).glob("*.py")]
    nodes = [node for tree in trees for node in tree]
    read = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "drafted"]
    given = [
        argument
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "answer"
        for argument in node.args
    ]

    assert len(read) == 1
    assert read[0] in given
    assert {"QueueCycle", "WorkerCycle"} <= {node.id for node in nodes if isinstance(node, ast.Name)}


def test_every_kind_is_found_with_its_one_workflow() -> None:
    found = discover_workflows()
    schema = codec.loads((STRATEGIES.parents[1] / "docs" / "schemas" / "goal.schema.json").read_bytes())

    assert set(found) == set(GoalKind)
    assert sorted(each.seed for each in found.values()) == ["000", "001", "002", "003", "004"]
    assert all(
        each.field in schema["properties"] and each.summary and all(each.steps.values()) for each in found.values()
    )
    steps = {kind.value: [len(names) for names in each.steps.values()] for kind, each in found.items()}
    assert (steps["reviewed_plan"], steps["campaign"][0]) == ([11, 9], 8)


@pytest.mark.parametrize("count", [0, 2])
def test_a_kind_with_another_number_of_workflows_is_none(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = import_module("tasks.strategies.campaign.strategy")
    monkeypatch.setattr(strategy, "WORKFLOW", strategy.WORKFLOW if count else None)
    if count:
        monkeypatch.setattr(strategy, "OTHER", strategy.WORKFLOW, raising=False)

    with pytest.raises(ValueError, match=rf"campaign has {count} workflows"):
        discover_workflows()


def test_planner_kinds_lists_them() -> None:
    shown = CliRunner().invoke(app, ["kinds"]).output
    told = codec.loads(CliRunner().invoke(app, ["kinds", "--json"]).output)

    assert [each["kind"] for each in told] == sorted(GoalKind)
    assert all(f"{each['kind']}  {each['summary']}" in shown for each in told)
    assert {part for each in told if each["kind"] == "task" for part in each["steps"]} >= {
        "fix_test",
        "add_feature",
        "refactor",
    }


@pytest.mark.parametrize("name", discover_workflows()[GoalKind.TASK].steps)
def test_a_goal_may_name_its_kind_of_task_in_the_words_of_the_seed(name: str) -> None:
    goal = {"goal": "Look at it", "task_kind": name, "allowed_files": ["src/a.py", "tests/test_a.py"]}
    made = task.draft(Goal.model_validate(goal), CATALOGUE, Setting())

    assert isinstance(made, Draft)
    assert (made.document or {})["task_kind"] == name


@pytest.mark.parametrize("kind", KINDS)
def test_no_module_of_a_kind_is_too_long_to_be_read_at_once(kind: GoalKind) -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in (STRATEGIES / kind).glob("*.py")}

    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
