"""The kind `task`: a sentence and a repository's context become steps.

A goal may bring its steps along (`supplied`); they are governed as ours are. Otherwise its words and its failure log
say what type of task it is (`goal_type`), and the template of that type is filled in with the goal's files
(`templates`, `steps`). Where the operator or the goal names a drafter, its plan takes the template's place: the worker
asks for it before there is a plan, or a controller is asked in the first step (`prompt`, `plan_parser`). What it
answers is data: its words are sanitised, its files intersected with the goal's, its commands taken from the catalogue.
An answer that is of no use is mended by its drafter once, and then the template's plan is used after all, unless the
operator would rather have none. A plan goes on only from the step that asks for a draft; all else runs as planned.
"""

from __future__ import annotations

from tasks.strategies.task.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
