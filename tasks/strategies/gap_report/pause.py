"""Asks a person before the next iteration, after several iterations in a row failed.

The iterations may be about any gaps, and a successful one ends the row. The operator sets the number; by default no
person is asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schemas.goal import Goal
from tasks.rules.strategy import Draft, Question
from tasks.strategies.gap_report.history import IN_A_ROW, GapHistory

PAUSED = "paused"
YES = frozenset({"yes", "y", "go on", "continue", "proceed", "resume"})
NO_ANSWER = 'Answer "yes" to have the iteration begin, or cancel the plan.'


def ask_first(draft: Draft, goal: Goal, files: tuple[str, ...], history: GapHistory, after: int) -> Draft:
    """Return `draft`, with a question to a person in place of its steps after `after` failed iterations in a row.

    If `after` is 0, the draft stays unchanged. The steps are made after the answer, for the same `files`.
    """
    if not after:
        return draft
    draft = replace(draft, streak=f"{draft.streak} {IN_A_ROW}")
    if (failed := history.failed_in_a_row) < after:
        return draft
    question = Question(PAUSED, (f"The last {failed} iterations failed. Should the next one begin?",))
    allowed = goal.model_copy(update={"allowed_files": files})
    state = {**(draft.state or {}), "paused": True}
    return replace(draft, steps=(), question=question, goal=allowed, state=state)


def is_consent(value: Any) -> bool:
    """Return whether an answer is a plain yes."""
    return value is True or (isinstance(value, str) and value.strip().strip(".!").casefold() in YES)
