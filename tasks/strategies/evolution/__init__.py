"""The kind `evolution`: an agent drafts the plan of one iteration that evolves a code base, and its steps are governed.

A goal names the commit to start from. It may bring other commits as inspirations, with cards of their history. Each
history becomes a trajectory of a few lines (`request`, `trajectory`) in the prompt (`prompt`). If the drafter is
`queue`, a step of the plan asks a controller for the draft. The worker asks any other drafter before there is a plan;
without a drafter there is no plan.

The validation mode decides how the answer is read: by the schema or as free text (`plan_parser`). The plan in the
answer is judged and becomes steps (`steps`). If a drafted step names no files and may not change all, another step
looks for its files first. The document shows the plan, its attempts and its time (`document`). If no step changed
anything, the plan's own fallback runs, once.
"""

from __future__ import annotations

from tasks.strategies.evolution.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
