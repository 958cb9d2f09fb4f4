"""Short builders for gap reports, their histories and their plans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.goal import Goal
from schemas.kinds.gap_report import Gap, IterationPlan
from tasks.rules.strategy import Answer, Draft, LivePlan, Rejected, Setting
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE

NOW = 1_795_000_000_000  # 2026-11-18T11:06:40Z
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def a_gap(description: str = "Create modules/parser/core.py", category: str = "roadmap", **more: Any) -> dict[str, Any]:
    return {"category": category, "description": description, "priority": "high", "roadmap_version": "0.1", **more}


def records(*told: tuple[dict[str, Any], str], **more: Any) -> list[dict[str, Any]]:
    """Make records, oldest first, a minute apart."""
    return [
        {
            "iteration_id": f"iter-{number:04d}-20261101-000000",
            "timestamp": (BEGAN + timedelta(minutes=number)).isoformat(),
            "gap_addressed": gap,
            "outcome": outcome,
            **more,
        }
        for number, (gap, outcome) in enumerate(told, 1)
    ]


def a_goal(
    *gaps: dict[str, Any],
    allowed: list[str] | None = None,
    files: list[str] | None = None,
    context: dict[str, Any] | None = None,
    limits: dict[str, int] | None = None,
    **given: Any,
) -> Goal:
    report = {"gaps": list(gaps), "most_critical": gaps[0] if gaps else None, "timestamp": "2026-11-18T11:00:00Z"}
    return Goal.model_validate(
        {
            "goal": "Close the most critical gap",
            "kind": "gap_report",
            "allowed_files": allowed or [],
            "limits": limits or {},
            "context": {"files": files or [], **(context or {})},
            "gap_report": {"gap_report": report, **given},
        }
    )


def answered(goal: Goal, recall: dict[str, int] | None = None, now: int = NOW, **options: Any) -> Answer:
    return gap_report.draft(goal, CATALOGUE, Setting(now=now, history=recall or {}, options=options))


def drafted(goal: Goal, recall: dict[str, int] | None = None, now: int = NOW, **options: Any) -> Draft:
    """Draft `goal`, and check that the draft passes the validator."""
    made = answered(goal, recall, now, **options)
    assert isinstance(made, Draft), made
    assert validate(goal, made.steps, CATALOGUE) == ()
    return made


def document(draft: Draft) -> IterationPlan:
    return IterationPlan.model_validate(draft.document)


def planned(goal: Goal, recall: dict[str, int] | None = None, **options: Any) -> IterationPlan:
    return document(drafted(goal, recall, NOW, **options))


def targets(goal: Goal) -> list[tuple[str, tuple[str, ...]]]:
    return [(action.action_type.value, action.target_files) for action in planned(goal).actions]


def codes(made: Answer) -> list[tuple[str, str]]:
    assert isinstance(made, Rejected), made
    return [(error.pointer, error.code) for error in made.errors]


def growing(goal: Goal, draft: Draft) -> LivePlan:
    assert draft.state is not None
    return LivePlan(goal, draft.state, draft.document, NOW)


def gap(description: str, category: str = "roadmap", **more: Any) -> Gap:
    return Gap.model_validate(a_gap(description, category, **more))
