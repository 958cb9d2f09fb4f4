"""Plans and entities of plan.json, for tests of the operations on them."""

from __future__ import annotations

from typing import Any

from schemas.goal import Goal
from tasks.strategies.reviewed_plan.document import empty_plan
from tests.support.kinds.reviewed_plan import NOW, diff

PLAN_ID = "253e67c0-76e3-88e9-891f-3d3a16e623d5"
EMPTY = empty_plan(Goal(goal="x"), NOW)
# What makes an entity of each type: of those with ids, and of those that there are once.
VALUES: dict[str, dict[str, Any]] = {
    "decision": {"decision": "Do it"},
    "rejected_alternative": {"alternative": "Do not", "rejection_reason": "No", "decision_ref": "DL-001"},
    "constraint": {"type": "MUST", "description": "Be fast", "source": "user"},
    "risk": {"risk": "It breaks", "mitigation": "Test it", "anchor": "src/a.py:L1-L2", "decision_ref": "DL-001"},
    "milestone": {"number": 9, "name": "More", "files": ["src/c.py"]},
    "code_intent": {"milestone": "M-001", "file": "src/a.py", "behavior": "More", "params": {"n": "a number"}},
    "code_change": {
        "milestone": "M-001",
        "intent_ref": "CI-001",
        "file": "src/a.py",
        "diff": diff("src/a.py"),
        "context_lines": 1,
        "why_comments": ["because"],
    },
}
SINGLE = {
    "overview": {"approach": "Carefully"},
    "invisible_knowledge": {"invariants": ["a, b"], "architecture": {"diagram_ascii": "[a]-[b]"}},
    "milestone_dependencies": {"waves": [{"wave": 1, "milestones": ["M-001"]}, {"wave": 2, "milestones": ["M-002"]}]},
}


def whole() -> dict[str, Any]:
    """Return a plan whose texts are all different."""
    words = (f"word{number}" for number in range(1000))

    def some(names: str, **more: Any) -> dict[str, Any]:
        return {name: next(words) for name in names.split()} | more

    def comment(name: str) -> dict[str, Any]:
        return some(f"{name} comment source", decision_ref="DL-001")

    return {
        "plan_id": PLAN_ID,
        "created_at": "2026-09-21",
        "frozen_at": next(words),
        "overview": some("title problem approach"),
        "planning_context": {
            "decision_log": [some("decision reasoning_chain timestamp", id="DL-001")],
            "rejected_alternatives": [some("alternative rejection_reason", id="RA-001", decision_ref="DL-001")],
            "constraints": [some("type description source", id="C-001")],
            "known_risks": [some("risk mitigation anchor", id="R-001", decision_ref="DL-001")],
        },
        "invisible_knowledge": {
            "architecture": some("diagram_ascii description"),
            "data_flow": some("diagram_ascii description"),
            "structure_rationale": next(words),
            "invariants": [next(words)],
            "tradeoffs": [next(words)],
        },
        "milestones": [
            {
                **some("name delegated_to", id="M-001", number=1, files=[next(words)], flags=[next(words)]),
                "requirements": [next(words)],
                "acceptance_criteria": [next(words)],
                "is_documentation_only": True,
                "tests": {
                    **some("type backing skip_reason", files=[next(words)]),
                    "scenarios": {name: [next(words)] for name in ("normal", "edge", "error")},
                },
                "code_intents": [
                    some("file function behavior", id="CI-001", decision_refs=["DL-001"], params={"n": next(words)})
                ],
                "code_changes": [
                    some("file diff", id="CC-001", intent_ref="CI-001", why_comments=[next(words)], context_lines=7)
                ],
                "documentation": {
                    "module_comment": next(words),
                    "docstrings": [some("function docstring")],
                    "algorithm_blocks": [comment("function")],
                    "inline_comments": [comment("location")],
                },
            },
            some("name", id="M-002", number=2, files=["x.py"], depends_on=["M-001"]),
        ],
        "milestone_dependencies": {"diagram_ascii": next(words)},
    }
