"""What a question lets a person choose, as its own kind of plan reads answers. Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from schemas.plan import Waiting
from tasks.strategies.gap_report.pause import PAUSED

DECISION = "decision"  # the kind of the questions of a reviewed plan
DECISIONS = {
    "continue": "Continue: the work is sent back once more",
    "accept": "Accept it as it is; the reason below is kept, and has to be given",
    "stop": "Stop: the plan halts",
}
OPTIONS = "## Options\n"  # of a campaign's page, at its end
OPTION = re.compile(r"- ([A-C]): (.+)")


class Choice(NamedTuple):
    """One of the answers that are offered, and what it means."""

    value: str
    text: str


def choices_of(waiting: Waiting | None) -> tuple[Choice, ...]:
    """List the answers that a plan's question offers; none where it has to be answered in writing."""
    if waiting is None:
        return ()
    if waiting.kind == PAUSED:
        return (Choice("yes", "Yes: the next iteration begins"),)
    if waiting.kind == DECISION:
        asked = waiting.questions[0] if waiting.questions else ""
        _, _, offered = asked.rpartition("Decide: ")
        return tuple(Choice(*each) for each in DECISIONS.items() if each[0] in offered)
    _, _, options = (waiting.document or "").rpartition(OPTIONS)
    found = (OPTION.fullmatch(line) for line in options.splitlines())
    return tuple(Choice(each[1], f"{each[1]}: {each[2]}") for each in found if each)


def answer_of(waiting: Waiting | None, choice: str, reason: str) -> Any:
    """Write a choice as the answer that the plan reads."""
    if waiting is not None and waiting.kind == DECISION:
        return {"decision": choice, "reason": reason}
    return choice
