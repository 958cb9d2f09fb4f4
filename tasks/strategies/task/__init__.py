"""The kind `task`: a sentence and a repository's context become steps.

A goal may bring its steps (`supplied`); they are governed like those of a template. Otherwise its words and its failure
log give the type of the task (`goal_type`). The template of that type is filled in with the goal's files (`templates`,
`steps`). If the operator or the goal names a drafter, its plan replaces the template. The worker asks for it before
there is a plan, or the first step asks a controller (`prompt`, `plan_parser`). The answer is data: its words are
sanitized, its files intersected with the goal's, its commands taken from the catalogue. The drafter may repair an
unusable answer once. After that the template's plan is used, unless the operator rejects this. A plan only goes on from
the step that asks for a draft; all other steps run as planned.
"""

from __future__ import annotations

from tasks.strategies.task.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
