"""What the agent of this demo answers when it is asked for a plan: too bold at first, and then mended."""

from __future__ import annotations

from typing import Any

from worker.demo.evolution.example import QUERIES, SEARCH, TESTS, YARDSTICK


def step(name: str, title: str, *actions: str, files: list[str], after: list[str], **more: Any) -> dict[str, Any]:
    """Write a step as the schema of the answer asks for it."""
    return {
        "id": name,
        "title": title,
        "intent": f"{title}, so that a query looks at fewer titles.",
        "actions": list(actions),
        "files": files,
        "dependencies": after,
        "validation": ["pytest"],
        **more,
    }


INDEX = step(
    "number-titles",
    "Look only at titles with the rarest word",
    "Number the titles by word when the search is made.",
    "Have find look at the titles of its rarest word alone.",
    files=[SEARCH],
    after=[],
    risks=["A word that no title has breaks the branch that this comes from."],
)
REMEMBER = step(
    "keep-answers",
    f"Keep the answers to {QUERIES} queries",
    "Keep each answer under the words of its query, the oldest go first.",
    files=[SEARCH],
    after=["number-titles"],
)
PROVE = step(
    "prove-it",
    "Test that answers are kept, and are nobody's to change",
    "Test that a query which comes again looks at nothing.",
    "Test that changing an answer does not change the next one.",
    files=[TESTS],
    after=["keep-answers"],
)
CHEAPER = step(
    "ask-less",
    "Ask the evaluation fewer queries",
    "Have the evaluation ask queries that come again.",
    files=[YARDSTICK],
    after=["keep-answers"],
)


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    """Write a plan around its steps."""
    return {
        "plan_summary": "Number titles by word, and keep the answers to as many queries as the evaluation has.",
        "rationale": "Both branches look at one title in five, each for a reason of its own: together it is one in 25.",
        "focus_metrics": ["looked_at"],
        "guardrails": ["find answers what it answered before."],
        "risks": ["Kept answers take memory."],
        "validation": ["pytest"],
        "steps": list(steps),
        "handoff_notes": [f"Keeping more than {QUERIES} answers brought nothing in 20 commits."],
        "fallback_plan": "Keep the answers alone: that branch passes every test.",
    }


BOLD = plan(INDEX, REMEMBER | {"dependencies": ["index"]}, CHEAPER)
MENDED = plan(INDEX, REMEMBER, PROVE)
