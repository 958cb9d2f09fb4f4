"""The kind `task`: a sentence and a repository's context become steps.

A goal may bring its steps (`supplied`); they are governed like the steps of a template. Otherwise the goal's words and
failure log determine its type (`goal_type`). The template of this type is filled in with the goal's files (`templates`,
`steps`). If the operator or the goal names a drafter, the drafter's plan replaces the template. The worker asks its own
drafter before there is a plan; otherwise the first step asks a controller (`prompt`, `plan_parser`).

The answer is data: its words are sanitized, only files that the goal allows count, and commands come from the
catalogue. The drafter may repair an unusable answer. After that the template's plan is used, unless the operator
forbids this. A plan only grows after the step that asks for a draft; all other steps run as planned.
"""

from __future__ import annotations

from tasks.strategies.task.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
