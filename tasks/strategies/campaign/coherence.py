"""COHERENCE_CHECK: can a verification be written from a task's delta alone? (seed 003)

The decision is a value, not a text that is looked through. What is missing or dangling among the dependencies of tasks
that a goal brings is an error of these (`given.py`), not a question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from schemas.campaign import Decision, Relevance
from tasks.strategies.campaign.state import Known


class Trigger(StrEnum):
    """What keeps a plan from going on."""

    DELTA = "delta"
    TESTS = "tests"
    COMMAND = "command"
    APPROACH = "approach"
    SEVERAL = "several"


QUESTIONS = {
    Trigger.DELTA: "Which of the allowed files are to change?",
    Trigger.TESTS: "Where are the tests of this (a file, a folder or a pattern such as tests/test_*.py)?",
    Trigger.COMMAND: "Which command runs the tests?",
    Trigger.APPROACH: 'The objective says "or": which of the two is meant?',
    Trigger.SEVERAL: "Several files fit equally well: are all of them to change?",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The decision, and all that has to be answered for it; the first one decided."""

    decision: Decision
    triggers: tuple[Trigger, ...] = ()

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions as people read them."""
        return tuple(QUESTIONS[each] for each in self.triggers)


def sure(known: Known) -> tuple[str, ...]:
    """List the candidates that are to change: none of those that hardly fit."""
    return tuple(each.path for each in known.candidates if each.relevance is not Relevance.LOW)


def _several(known: Known) -> bool:
    return sum(each.relevance is Relevance.HIGH for each in known.candidates) > 1 and not known.confirmed


# The first row that holds decides; the second field tells whether it does, of what is known and can be run.
ROWS: tuple[tuple[Decision, Trigger, Callable[[Known, bool], bool]], ...] = (
    (Decision.CLARIFY, Trigger.DELTA, lambda known, _: not sure(known)),
    (Decision.CLARIFY, Trigger.TESTS, lambda known, _: not known.test_pattern and not known.untested),
    (Decision.CLARIFY, Trigger.COMMAND, lambda _, verifiable: not verifiable),
    (Decision.CLARIFY, Trigger.APPROACH, lambda known, _: bool(known.readings) and len(known.candidates) > 1),
    (Decision.CONFIRM, Trigger.SEVERAL, lambda known, _: _several(known)),
)


def check(known: Known, verifiable: bool) -> Finding:
    """Decide whether planning may go on; `verifiable` says that there is a command which runs the tests."""
    open_rows = [(decision, trigger) for decision, trigger, holds in ROWS if holds(known, verifiable)]
    if not open_rows:
        return Finding(Decision.PROCEED)
    decision = open_rows[0][0]
    return Finding(decision, tuple(trigger for each, trigger in open_rows if each is decision))
