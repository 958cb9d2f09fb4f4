"""The kind `evolution`: an agent drafts the plan of one iteration that evolves a code base, and its steps are governed.

A goal names the commit to start from. It may bring commits as inspirations, with cards of their history. These become
trajectories of a few lines (`request`, `trajectory`), which are part of the prompt (`prompt`). With the drafter `queue`
the draft is a step whose input is the prompt. The worker asks any other drafter before there is a plan; without a
drafter there is no plan. The validation mode decides how the answer is read: by the schema or as free text
(`plan_parser`). It is judged, and then becomes steps (`steps`). If steps of the plan name no files, and may not have
all, a step looks for files first. The document shows the plan and the effort to get it (`document`). If no step changed
anything, the plan's own fallback is executed, once.
"""

from __future__ import annotations

from tasks.strategies.evolution.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
