"""Reviewed plans as they are published, and controllers of all their roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.kinds.reviewed_plan import FILES, change, intent, milestone, op, overview, written
from tests.support.scripted import Fleet, Spec

ROLES = ("architect", "developer", "technical-writer", "quality-reviewer")
OWN = {1: "src/a.py", 2: "src/b.py", 3: "src/c.py"}  # milestone -> its file; the third comes after the others
DESIGN = (
    overview(),
    op("add", "decision", {"decision": "Say hello", "reasoning_chain": "Short -> polite"}, id="DL-001"),
    *(milestone(number, path, depends_on=["M-001", "M-002"] if number == 3 else []) for number, path in OWN.items()),
    *(intent(number, path, decision_refs=["DL-001"]) for number, path in OWN.items()),
)
Answers = Mapping[str, Any]


@dataclass
class Roles:
    """The answers of the roles: the first design lacks acceptance criteria, and the first diffs lack their reasons."""

    stubborn: frozenset[str] = frozenset()  # phases that never pass
    active: dict[str, set[str]] = field(default_factory=dict)  # step -> what else was in flight when it was done
    fleet: Fleet | None = None

    def __call__(self, spec: Spec) -> Answers:
        if self.fleet:
            view = self.fleet.view(spec["plan_id"])
            self.active[spec["step_id"]] = {step.step_id for step in view.steps if step.state == "ACTIVE"}
        work = {"architect": architect, "developer": developer, "technical-writer": writer}
        return work[spec["queue"]](spec) if spec["queue"] in work else self.review(spec)

    def review(self, spec: Spec) -> Answers:
        given = spec["input"]
        if spec["step_id"] == "reconcile":
            judged = [{"id": each["id"], "outcome": "SATISFIED"} for each in given["plan"]["milestones"]]
            return {"output": {"milestones": judged, "summary": "As planned"}}
        phase = spec["phase"].removesuffix("-qr")
        faults = FAULTS[phase](given["plan"]) | ({"never": "It is not good enough"} if phase in self.stubborn else {})
        known = {item["id"] for item in (given["qr"] or {}).get("items", ())}
        items = [decided(name, faults.get(name)) for name in sorted({"qa-0", *known, *faults})]
        return {"output": {"items": items, "verdict": "FAIL" if faults else "PASS"}}


def decided(name: str, finding: str | None) -> dict[str, Any]:
    status = {"status": "FAIL", "finding": finding} if finding else {"status": "PASS"}
    return {"id": name, "check": "It is right", "severity": "MUST", **status}


def lacking(plan: Any) -> dict[str, str]:
    return {f"criteria-{e['id']}": "Nobody can test it" for e in plan["milestones"] if not e["acceptance_criteria"]}


def unexplained(plan: Any) -> dict[str, str]:
    changes = [each for part in plan["milestones"] for each in part["code_changes"]]
    return {f"why-{each['id']}": "It does not say why" for each in changes if not each["why_comments"]}


FAULTS: Mapping[str, Callable[[Any], dict[str, str]]] = {
    "plan-design": lacking,
    "plan-code": unexplained,
    **dict.fromkeys(("plan-docs", "impl-code", "impl-docs"), lambda _: {}),
}


def failed(spec: Spec, prefix: str) -> set[str]:
    """Return the ids of the items that a role has to repair, without `prefix`."""
    return {item["id"].removeprefix(prefix) for item in (spec["input"]["qr"] or {}).get("failed", ())}


def architect(spec: Spec) -> Answers:
    plan, told = spec["input"]["plan"], failed(spec, "criteria-")
    if not plan["milestones"]:
        return {"output": {"operations": DESIGN}}
    mended = [each for each in plan["milestones"] if each["id"] in told]
    criteria = {"acceptance_criteria": ["it greets"]}
    return {
        "output": {"operations": [op("set", "milestone", criteria, id=e["id"], version=e["version"]) for e in mended]}
    }


def developer(spec: Spec) -> Answers:
    if spec["mode"] != "read_only":
        return {"touched_files": spec["allowed_files"], "tests_passed": True}
    told, changes = failed(spec, "why-"), [change(number, path) for number, path in OWN.items()]
    if not told:
        return {"output": {"operations": changes}}
    there = [each for part in spec["input"]["plan"]["milestones"] for each in part["code_changes"]]
    why = {"why_comments": ["DL-001 says so"]}
    fixes = [op("set", "code_change", why, id=e["id"], version=e["version"]) for e in there if e["id"] in told]
    return {"output": {"operations": fixes}}


def writer(spec: Spec) -> Answers:
    if spec["mode"] != "read_only":
        return {"touched_files": spec["allowed_files"]}
    documents = [] if spec["input"]["qr"] else [written(number) for number in OWN]
    return {"output": {"operations": documents}}


def a_goal(workflow: str = "both", **given: Any) -> dict[str, Any]:
    context = {"language": "python", "test_command": "pytest", "files": FILES}
    body = {"goal": "Greet everybody", "kind": "reviewed_plan", "allowed_files": FILES, "context": context}
    return body | {"reviewed_plan": {"workflow": workflow, **given}}
