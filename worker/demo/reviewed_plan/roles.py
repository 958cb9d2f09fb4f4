"""Four scripted roles. Each knows its craft, and of the plan only what its step gives it."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.demo.reviewed_plan import example

Given = dict[str, Any]  # the step's input
CALLS = re.compile(r"\b(\w+)\(\)")


def architect(spec: Given) -> Any:
    """Design the plan; at first without saying which milestone needs which."""
    plan = spec["input"]["plan"]
    return {"operations": list(_ordered(plan) if plan["milestones"] else _designed())}


def _designed() -> Iterator[Given]:
    facts = {"title": example.GOAL, "problem": "Invoices show a total and no VAT", "approach": "Bottom up, with tests"}
    yield {"op": "set", "entity": "overview", "version": 1, "value": facts}
    for name, (decision, chain) in example.DECISIONS.items():
        yield _add("decision", name, decision=decision, reasoning_chain=chain)
    for number, (source, test, function, behavior, decision) in enumerate(example.PARTS, 1):
        owner, tests = f"M-{number:03d}", {"files": [test], "type": "unit"}
        criteria = [f"{test} passes"]
        yield _add("milestone", owner, number=number, name=behavior, files=[source], tests=tests,
                   acceptance_criteria=criteria)  # fmt: skip
        said = {"milestone": owner, "decision_refs": [decision]}
        yield _add("code_intent", f"CI-{number}1", file=source, function=function, behavior=behavior, **said)
        yield _add("code_intent", f"CI-{number}2", file=test, behavior=f"Test {function}", **said)


def _ordered(plan: Given) -> Iterator[Given]:
    """Repair what the review found: a milestone comes after those whose functions it calls."""
    for milestone in plan["milestones"]:
        if needed := sorted(needs(plan, milestone)):
            own = {"id": milestone["id"], "version": milestone["version"]}
            yield {"op": "set", "entity": "milestone", "value": {"depends_on": needed}, **own}


def needs(plan: Given, milestone: Given) -> set[str]:
    """List the milestones whose functions this one's intents call."""
    makes = {intent["function"]: each["id"] for each in plan["milestones"] for intent in each["code_intents"]}
    called = {name for intent in milestone["code_intents"] for name in CALLS.findall(intent["behavior"])}
    return {makes[name] for name in called if name in makes} - {milestone["id"]}


def developer(spec: Given) -> Any:
    """Write a diff for every intent; later apply those of a milestone, with the writer's docstrings."""
    if spec["mode"] == "read_only":
        intents = [
            (each["id"], intent) for each in spec["input"]["plan"]["milestones"] for intent in each["code_intents"]
        ]
        return {"operations": [_changed(owner, intent) for owner, intent in intents]}
    milestone = spec["input"]["milestone"]["milestone"]
    for change in milestone["code_changes"]:
        applying(change["diff"]).check_returncode()
    for written in milestone["documentation"]["docstrings"]:
        _document(Path(milestone["files"][0]), written["function"], written["docstring"])
    return None


def applying(diff: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Apply a diff to the files here, or see with `--check` whether it would."""
    argv = ["git", "apply", *options]
    return subprocess.run(argv, input=diff.encode(), capture_output=True, check=False)  # noqa: S603 - our own words


def _changed(owner: str, intent: Given) -> Given:
    path = intent["file"]
    return _add(
        "code_change", intent["id"].replace("CI", "CC"), milestone=owner, intent_ref=intent["id"], file=path,
        diff=_diff(path, example.TARGET[path]), why_comments=[f"As {' and '.join(intent['decision_refs'])} says"],
    )  # fmt: skip


def _diff(path: str, target: str) -> str:
    before = Path(path).read_text() if Path(path).exists() else ""
    old = f"a/{path}" if before else "/dev/null"
    lines = difflib.unified_diff(before.splitlines(True), target.splitlines(True), old, f"b/{path}")
    return "".join(lines)


def _document(path: Path, function: str, docstring: str) -> None:
    head = re.compile(rf"^def {function}\(.*:\n", re.M)
    path.write_text(head.sub(lambda found: f'{found[0]}    """{docstring}"""\n', path.read_text()))


def writer(spec: Given) -> Any:
    """Write the docstrings into the plan; later the README, with the reasons of the plan."""
    plan = spec["input"]["plan"]
    if spec["mode"] == "read_only":
        return {"operations": [_written(each) for each in plan["milestones"]]}
    reasons = " ".join(f"{each['decision']}." for each in plan["planning_context"]["decision_log"])
    readme = Path(example.README)
    readme.write_text(readme.read_text() + example.NOTE.format(reasons=reasons))
    return None


def _written(milestone: Given) -> Given:
    functions = [intent["function"] for intent in milestone["code_intents"] if intent["function"] in example.DOCSTRINGS]
    value = {
        "module_comment": milestone["name"],
        "docstrings": [{"function": name, "docstring": example.DOCSTRINGS[name]} for name in functions],
    }
    own = {"id": milestone["id"], "version": milestone["documentation"]["version"]}
    return {"op": "set", "entity": "documentation", "value": value, **own}


def _add(entity: str, entity_id: str, **value: Any) -> Given:
    return {"op": "add", "entity": entity, "id": entity_id, "value": value}
