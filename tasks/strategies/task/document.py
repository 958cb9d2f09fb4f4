"""The document of a task: the origin of its plan, and the plan's assumptions."""

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
    """Describe a drafted plan: its summary, and changes that were made without a question."""
    return {**about, "summary": found.summary, "notes": list(found.notes)}


def describe_fallback(template: Mapping[str, Any] | None, why: str) -> dict[str, Any]:
    """Describe the plan of a template that replaces an unusable draft."""
    return {**(template or {}), "drafting": {"failed": why}}
