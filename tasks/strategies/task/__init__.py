"""Tasks whose plan a drafter makes instead of a template: asked by the worker, or by a step of the plan (`queue`).

The answer is data: its words are sanitised, its files intersected with the goal's, its commands taken from the
catalogue. One that is of no use is mended by its drafter once, and then the template plan is used.
"""

from __future__ import annotations

from tasks.strategies.task.strategy import draft
from tasks.strategies.task.unfolding import advance, answer, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
