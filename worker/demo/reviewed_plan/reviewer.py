"""The scripted reviewer: for each phase it checks something real, in the plan or in the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from worker.demo.reviewed_plan import example
from worker.demo.reviewed_plan.roles import Given, applying, needs

Finding = tuple[str, str, str | None]  # scope, what is checked, what is wrong with it


def reviewer(spec: Given) -> Any:
    """Decide every item of a phase, or lay plan and outcome side by side."""
    given = spec["input"]
    if spec["step_id"] == "reconcile":
        return {"milestones": [_judged(given, each) for each in given["plan"]["milestones"]], "summary": "As planned."}
    found = list(CHECKS[spec["phase"]](given["plan"]))
    items = [_item(number, *each) for number, each in enumerate(found, 1)]
    return {"items": items, "verdict": "FAIL" if any(wrong for *_, wrong in found) else "PASS"}


def _item(number: int, scope: str, check: str, wrong: str | None) -> Given:
    verdict = {"status": "FAIL", "finding": wrong} if wrong else {"status": "PASS"}
    return {"id": f"qa-{number:03d}", "scope": scope, "check": check, "severity": "MUST", **verdict}


def _design(plan: Given) -> Iterator[Finding]:
    for each in plan["milestones"]:
        missing = sorted(needs(plan, each) - set(each["depends_on"]))
        wrong = f"It calls what {' and '.join(missing)} make and does not depend on them" if missing else None
        yield "*", f"{each['id']} comes after what it calls", wrong


def _code(plan: Given) -> Iterator[Finding]:
    for milestone in plan["milestones"]:
        for each in milestone["code_changes"]:
            done = applying(each["diff"], "--check")
            yield f"file:{each['file']}", f"{each['id']} applies to the code", done.stderr.decode()[:500] or None


def _docs(plan: Given) -> Iterator[Finding]:
    for each in plan["milestones"]:
        wrong = None if each["documentation"]["module_comment"] else "Nothing is written"
        yield "*", f"{each['id']} is documented", wrong


def _implemented(plan: Given) -> Iterator[Finding]:
    for milestone in plan["milestones"]:
        for intent in milestone["code_intents"]:
            wrong = None if _is_there(intent) else "It is not there"
            yield f"file:{intent['file']}", f"{intent['id']} is carried out", wrong


def _is_there(intent: Given) -> bool:
    path = Path(intent["file"])
    return path.exists() and f"def {intent['function'] or 'test_'}" in path.read_text()


def _documented(plan: Given) -> Iterator[Finding]:
    text = Path(example.README).read_text()
    for each in plan["planning_context"]["decision_log"]:
        wrong = None if each["decision"] in text else "It says nothing of it"
        yield f"file:{example.README}", f"The README tells {each['id']}", wrong


CHECKS: Mapping[str, Callable[[Given], Iterator[Finding]]] = {
    "plan-design-qr": _design,
    "plan-code-qr": _code,
    "plan-docs-qr": _docs,
    "impl-code-qr": _implemented,
    "impl-docs-qr": _documented,
}


def _judged(given: Given, milestone: Given) -> Given:
    done = given["outcomes"][milestone["id"]]["outcome"] == "DONE" and all(map(_is_there, milestone["code_intents"]))
    return {"id": milestone["id"], "outcome": "SATISFIED" if done else "NOT_SATISFIED"}
