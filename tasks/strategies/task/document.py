"""Writes the document of a task: where its plan comes from, and the assumptions of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.strategies.drafting.project import Project
from tasks.strategies.task.goal_type import GoalType, task_kind
from tasks.strategies.task.plan_parser import ParsedDraft
from tasks.strategies.task.templates import Template


def describe_template(project: Project, kind: GoalType, template: Template) -> dict[str, Any]:
    """Return the document of a plan that `template` made: its type, language, assumptions and constraints."""
    return {
        "type": kind.value,
        "task_kind": task_kind(kind),
        "language": project.language.name if project.language else None,
        "assumptions": list(template.assumptions),
        "constraints": [*template.constraints, *project.goal.constraints],
    }


def describe_draft(found: ParsedDraft, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a drafted plan: `about` the drafter, the summary, and the changes made to the draft."""
    return {**about, "summary": found.summary, "notes": list(found.notes)}


def describe_fallback(template: Mapping[str, Any] | None, why: str) -> dict[str, Any]:
    """Return the document of a template's plan that replaces an unusable draft, with the reason."""
    return {**(template or {}), "drafting": {"failed": why}}
