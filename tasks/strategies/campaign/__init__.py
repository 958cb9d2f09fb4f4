"""The kind `campaign`: an objective of several parts becomes a graph of tasks.

A campaign has eight phases. READ_EXPLORATION: a first step collects facts about the repository, unless the goal brings
them (`exploration`, `frameworks`). CALCULATE_COMPLEXITY: formulas compute the number of tasks (`formulas`).
COHERENCE_CHECK: if the files to change or their verification are not known, a person gets a question. The question is a
page with options, and the answer is prose or an object (`question`, `answers`).

DESIGN_SEQUENCE, LOCATE_TARGETS, SET_BUDGETS and EXTRACT_IDIOMS make the tasks. The tasks come from the goal, from a
drafter, or else from the facts (`sequence`, `tasks`, `verification`, `drafts`, `prompt`). OUTPUT_PLAN writes plan.json
and the steps (`outline`, `steps`, `document`). A SPEC task writes tests, a BUILD task writes code, and a VERIFY task
runs all tests. Each end of a step updates the progress of its task. A stuck campaign is replanned once (`replan`).
"""

from __future__ import annotations

from tasks.strategies.campaign.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
