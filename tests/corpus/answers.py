"""What controllers and people answer in the corpus: good answers by the kind of plan and the step, and useless ones."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.corpus.goals import CAMPAIGN_TASKS, EVOLUTION_PLAN, EXPLORATION, TASK_DRAFT
from tests.support.kinds.reviewed_plan import ANSWERS, FAIL, PASS

USELESS: tuple[Any, ...] = (None, "no idea", [], {"verdict": "perhaps"}, {"steps": [{"files": ["/etc/passwd"]}]})
FOUND = ["src/auth.py", "tests/test_auth.py"]
BLOCKED = {"status": "blocked", "reason": "no access to the registry"}
TO_PERSONS: dict[str, tuple[Any, ...]] = {
    "campaign": ("A", "yes", "only src/auth.py", "`pytest -q`", {"choice": "a"}),
    "reviewed_plan": ("continue", "accept: it will do", "stop"),
}


def output(kind: str, spec: dict[str, Any], rng: Random, good: float, passes: float) -> Any:
    """Answer the step of `spec`, well with the probability `good`; a review passes with the probability `passes`."""
    if rng.random() > good:
        return rng.choice(USELESS)
    if kind == "reviewed_plan":
        return _of_role(spec, rng, passes)
    named = spec["step_id"]
    if named.startswith(("explore-scope", "find-files")):
        return {"files": spec["input"]["allowed_files"][:2] if "allowed_files" in (spec.get("input") or {}) else FOUND}
    if kind == "campaign":
        return EXPLORATION if named.startswith("explore") else {"tasks": CAMPAIGN_TASKS} if "draft" in named else None
    if kind == "evolution":
        return EVOLUTION_PLAN if "draft" in named else None
    return TASK_DRAFT if spec["controller_task_spec"]["type"] == "DRAFT" else "It rounds twice in src/auth.py"


def _of_role(spec: dict[str, Any], rng: Random, passes: float) -> Any:
    kind, phase = spec["controller_task_spec"]["type"], spec["phase"] or ""
    if kind == "DRAFT":
        return ANSWERS.get(phase, {"operations": []}) if spec["step_id"].count("-r") == 0 else {"operations": []}
    if spec["step_id"] == "reconcile":
        judged = [{"id": name, "outcome": "SATISFIED"} for name in ("M-001", "M-002")]
        return {"milestones": judged, "summary": "As planned"}
    if kind == "REVIEW":
        return {"items": [PASS], "verdict": "PASS"} if rng.random() < passes else {"items": [FAIL]}
    return None


def to_question(kind: str, rng: Random) -> Any:
    """Answer what a plan asks a person."""
    return rng.choice([*TO_PERSONS.get(kind, ()), *(["src/auth.py"] if kind == "campaign" else []), "hm"])
