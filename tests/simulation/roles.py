"""What agents answer in steps that read: what they found, a draft, the operations of a role, a review."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.simulation import supplied
from tests.simulation.agent import Agent, Spec
from tests.simulation.goals import Mission
from tests.simulation.host import Answer
from tests.simulation.layouts import stem
from tests.simulation.repository import Item, Repository, Tree, Work

NOTICED = 0.8  # how likely a reviewer sees what is missing


def answers_of(mission: Mission) -> Answer:
    """Choose who answers the steps of a mission's plan."""
    if mission.kind == "reviewed_plan":
        return _role
    drafts = {"campaign": _campaign, "evolution": _evolution}
    return drafts.get(mission.kind, _found)


def _found(spec: Spec, agent: Agent, tree: Tree) -> Any:
    """Tell the places; a step that asks for files gets a list of them."""
    places = agent.places(tree)
    if _asks_for_places(spec):
        found = [{"path": item.file, "why": item.what} for item in places]
        return {"files": found, "summary": "\n".join(item.what for item in places)}
    if "files" in (spec.get("input") or {}):
        return {"files": list(dict.fromkeys(item.file for item in places))}
    if not places:
        return "It needs a closer look."
    return "\n".join(f"{item.file}: {item.what}" for item in places)


def _asks_for_places(spec: Spec) -> bool:
    """Whether a step asks for files with lines and reasons."""
    schema = (spec.get("input") or {}).get("schema") or {}
    items = schema.get("properties", {}).get("files", {}).get("items", {})
    return "path" in items.get("properties", {})


def _campaign(spec: Spec, agent: Agent, tree: Tree) -> Any:
    if spec["controller_task_spec"]["type"] == "DRAFT":
        tasks = supplied.campaign_tasks(agent.repository)
        return {"tasks": tasks[:-3] + tasks[-1:] if agent.goes_wrong else tasks}
    if spec["step_id"].startswith("explore"):
        return {"structure": {"status": "ok"}} if agent.goes_wrong else supplied.exploration(agent.repository)
    return _found(spec, agent, tree)


def _evolution(spec: Spec, agent: Agent, tree: Tree) -> Any:
    if "prompt" not in (spec.get("input") or {}):
        return _found(spec, agent, tree)
    items = list(agent.repository.items)
    if agent.goes_wrong and agent.rng.random() < 0.5:
        items.remove(agent.rng.choice(items))
        items = items or list(agent.repository.items)
    steps = _drafted(agent.repository, items)
    if agent.goes_wrong and len(items) == len(agent.repository.items):
        steps[-1]["dependencies"] = ["no-such-step"]
    wish = items[0].what
    return {
        "plan_summary": f"Add the {wish}",
        "rationale": "It was asked for",
        "focus_metrics": ["answers"],
        "guardrails": ["keep the API"],
        "risks": ["none that is known"],
        "validation": ["pytest -q"],
        "steps": steps,
    }


def _drafted(repository: Repository, items: Iterable[Item]) -> list[dict[str, Any]]:
    """Draft one step for each source, with its test."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(stem(item.file), []).append(item)
    return [
        {
            "id": f"do-{name}",
            "title": f"Change {name}",
            "intent": f"Add the {group[0].what} to {name}",
            "actions": [f"{item.work.value}: {item.what} in {item.file}" for item in group],
            "validation": [f"pytest -q {item.file}" for item in group if item.work is Work.TESTS] or ["pytest -q"],
            "files": [item.file for item in group],
        }
        for name, group in groups.items()
    ]


def _role(spec: Spec, agent: Agent, tree: Tree) -> Any:
    """Answer as architect, developer, writer or reviewer."""
    kind, given = spec["controller_task_spec"]["type"], spec.get("input") or {}
    if spec["step_id"].startswith("reconcile"):
        return _reconcile(agent.repository, given["plan"], tree)
    if kind == "REVIEW":
        return _review(spec, agent, tree)
    operations = _operations(agent.repository, given["plan"], spec["phase"] or "")
    if agent.goes_wrong and operations:
        operations.pop(agent.rng.randrange(len(operations)))
    return {"operations": operations}


def _operations(repository: Repository, plan: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    """Write what a phase of the plan lacks; the same for the first round and for later ones."""
    if phase.startswith("plan-design"):
        return _design(repository, plan)
    if phase.startswith("plan-code"):
        return _code(plan)
    lacking = (each for each in plan["milestones"] if not each["documentation"].get("module_comment"))
    return [
        {"op": "set", "entity": "documentation", "id": each["id"], "version": each["documentation"]["version"],
         "value": {"module_comment": "Says what it does"}}
        for each in lacking
    ]  # fmt: skip


def _design(repository: Repository, plan: dict[str, Any]) -> list[dict[str, Any]]:
    wish, overview = repository.items[0].what, plan["overview"]
    operations: list[dict[str, Any]] = []
    if not overview["problem"]:
        value = {"title": wish, "problem": f"There is no {wish}"}
        operations.append({"op": "set", "entity": "overview", "value": value, "version": overview["version"]})
    planned = {path: each["id"] for each in plan["milestones"] for path in each["files"]}
    intended = {each["file"] for milestone in plan["milestones"] for each in milestone["code_intents"]}
    for number, (source, test) in enumerate(supplied.pairs(repository), 1):
        name = planned.get(source, f"M-{number:03d}")
        if source not in planned:
            made = _milestone(number, source, test, wish)
            operations.append({"op": "add", "entity": "milestone", "value": made, "id": name})
        if source not in intended:
            value = {"milestone": name, "file": source, "behavior": f"Add the {wish}"}
            operations.append({"op": "add", "entity": "code_intent", "value": value, "id": f"CI-{number:03d}"})
    return operations


def _milestone(number: int, source: str, test: str, wish: str) -> dict[str, Any]:
    asked = {"requirements": [wish], "acceptance_criteria": [f"{stem(source)} has a {wish}"]}
    return {"number": number, "name": f"Change {stem(source)}", "files": [source], "tests": {"files": [test]}, **asked}


def _code(plan: dict[str, Any]) -> list[dict[str, Any]]:
    written = {each["intent_ref"] for milestone in plan["milestones"] for each in milestone["code_changes"]}
    operations = []
    for milestone in plan["milestones"]:
        for each in milestone["code_intents"]:
            if each["id"] in written:
                continue
            path = each["file"]
            diff = f"--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 2\n"
            value = {"milestone": milestone["id"], "intent_ref": each["id"], "file": path, "diff": diff}
            name = each["id"].replace("CI", "CC")
            operations.append({"op": "add", "entity": "code_change", "value": value, "id": name})
    return operations


def _review(spec: Spec, agent: Agent, tree: Tree) -> Any:
    """Pass what is right; what is missing is noticed more often than not."""
    given = spec["input"]
    lacks = _lacking(agent.repository, given.get("plan") or {}, spec["phase"] or "", tree)
    seen = [] if agent.goes_wrong and agent.rng.random() < 0.5 else [x for x in lacks if agent.rng.random() < NOTICED]
    known = [item["id"] for item in (given.get("qr") or {}).get("items", ())]
    failed = {f"qa-{stem(path)}": path for path in seen}
    names = list(dict.fromkeys(["qa-all", *known, *failed]))
    items = [_item(name, failed.get(name)) for name in names]
    return {"items": items, "verdict": "FAIL" if failed else "PASS"}


def _item(name: str, path: str | None) -> dict[str, Any]:
    found = {"id": name, "check": "Everything is there", "severity": "MUST"}
    if path is None:
        return {**found, "scope": "*", "status": "PASS"}
    return {**found, "scope": f"file:{path}", "status": "FAIL", "finding": f"The change of {path} is missing"}


def _lacking(repository: Repository, plan: dict[str, Any], phase: str, tree: Tree) -> list[str]:
    """The files of which something is missing in the plan, or in the tree that came of it."""
    if phase.startswith("impl"):
        documents = phase.startswith("impl-docs")
        undone = repository.undone(tree)
        return list(dict.fromkeys(each.file for each in undone if (each.work is Work.DOCUMENT) == documents))
    planned = {path for each in plan.get("milestones", ()) for path in each["files"]}
    return [source for source, _ in supplied.pairs(repository) if source not in planned]


def _reconcile(repository: Repository, plan: dict[str, Any], tree: Tree) -> Any:
    undone = {item.file for item in repository.undone(tree)}
    judged = [
        {"id": each["id"], "outcome": "PARTIALLY_SATISFIED" if undone & {*each["files"]} else "SATISFIED"}
        for each in plan["milestones"]
    ]
    return {"milestones": judged, "summary": "As planned"}
