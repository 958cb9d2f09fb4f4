"""What the document of a task shows: how its plan came about, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.strategies.drafting.project import Project
from tasks.strategies.task.goal_type import GoalType, task_kind
from tasks.strategies.task.plan_parser import ParsedDraft
from tasks.strategies.task.templates import Template


def describe_template(project: Project, kind: GoalType, template: Template) -> dict[str, Any]:
    """Describe a plan that was made by `template`."""
    return {
        "type": kind.value,
        "task_kind": task_kind(kind),
        "language": project.language.name if project.language else None,
        "assumptions": list(template.assumptions),
        "constraints": [*template.constraints, *project.goal.constraints],
    }


def describe_draft(found: ParsedDraft, about: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a drafted plan: what it comes to, and what was changed without asking."""
    return {**about, "summary": found.summary, "notes": list(found.notes)}


def describe_fallback(template: Mapping[str, Any] | None, why: str) -> dict[str, Any]:
    """Describe the plan of a template that stands in for a draft of no use."""
    return {**(template or {}), "drafting": {"failed": why}}
