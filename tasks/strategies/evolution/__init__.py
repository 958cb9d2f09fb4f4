"""The kind `evolution`: an agent drafts the plan of one iteration of evolving a code base, and its steps are governed.

A goal names the commit to start from, and may bring commits that inspire, with cards of how they came about; these are
rolled up into trajectories of a few lines (`request`, `trajectory`). From that the prompt is made (`prompt`). With the
drafter `queue` the draft is a step like any other, whose input is the prompt; any other drafter is asked by the worker
before there is a plan, and without one there is no plan at all. Either way the answer is read as the validation mode
says, by the schema or as free text (`plan_parser`), judged, and only then becomes steps (`steps`): by way of one that
looks for files, where steps of the plan name none and may not have all. The document shows the plan and what it took
to get it (`document`). Where no step came to change anything, the plan's own fallback is carried out, once.
"""

from __future__ import annotations

from tasks.strategies.evolution.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
