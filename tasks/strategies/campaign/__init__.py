"""The kind `campaign`: an objective of several parts becomes a graph of tasks.

A campaign goes through eight phases. READ_EXPLORATION: a first step asks what the repository is like, unless the goal
says so (`exploration`, `frameworks`). CALCULATE_COMPLEXITY: formulas say how many tasks there should be (`formulas`).
COHERENCE_CHECK: where it cannot be told what is to change, or how it is verified, a person is asked with a page of two
ways out, and answers in prose or with an object (`question`, `answers`). DESIGN_SEQUENCE, LOCATE_TARGETS, SET_BUDGETS
and EXTRACT_IDIOMS make the tasks: those of the goal, those of a drafter, or else those that follow from what is known
(`sequence`, `tasks`, `verification`, `drafts`, `prompt`). OUTPUT_PLAN writes plan.json and the steps: SPEC writes
tests first, BUILD the code, VERIFY runs all (`outline`, `steps`, `document`). Then each end of a step is noted as the
progress of its task; where the campaign is stuck, it is planned anew once (`replan`).
"""

from __future__ import annotations

from tasks.strategies.campaign.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
