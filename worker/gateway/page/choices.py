"""The answers that a person can choose for a question of a plan, in the form that the plan's kind expects. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from schemas.plan import Waiting
from tasks.strategies.gap_report.pause import PAUSED

DECISION = "decision"  # the kind of the questions of a reviewed plan
DECISIONS = {
    "continue": "Continue: the work is sent back again",
    "accept": "Accept it as it is; the reason below is kept, and has to be given",
    "stop": "Stop: the plan halts",
}
FIELD = "choice"
OPTIONS = "## Options\n"  # of a campaign's page, at its end
OPTION = re.compile(r"- ([2-9]?)([A-C]): (.+)")


class Choice(NamedTuple):
    """One offered answer, and its meaning."""

    value: str
    text: str


class Offer(NamedTuple):
    """A question with the answers that it offers; `field` is its name in a form."""

    field: str
    question: str
    choices: tuple[Choice, ...]


def offers_of(waiting: Waiting | None) -> tuple[Offer, ...]:
    """List the choices for each question of a plan; empty if a person has to write the answer."""
    if waiting is None:
        return ()
    asked = waiting.questions[0] if waiting.questions else ""
    if waiting.kind == PAUSED:
        return (Offer(FIELD, asked, (Choice("yes", "Yes: the next iteration begins"),)),)
    if waiting.kind == DECISION:
        _, _, offered = asked.rpartition("Decide: ")
        return (Offer(FIELD, asked, tuple(Choice(*each) for each in DECISIONS.items() if each[0] in offered)),)
    _, _, options = (waiting.document or "").rpartition(OPTIONS)
    found = [each for line in options.splitlines() if (each := OPTION.fullmatch(line))]
    return tuple(
        Offer(FIELD + number, _question(waiting, number), tuple(map(_choice, some)))
        for number, some in groupby(found, key=lambda each: each[1])
    )


def _choice(found: re.Match[str]) -> Choice:
    letter = f"{found[1]}{found[2]}"
    return Choice(letter, f"{letter}: {found[3]}")


def _question(waiting: Waiting, number: str) -> str:
    return "".join(waiting.questions[int(number or 1) - 1 :][:1])


def answer_of(waiting: Waiting | None, fields: Mapping[str, str]) -> Any:
    """Return the chosen answers of a form, as the plan's kind expects them; None if a question has no choice."""
    chosen = [fields.get(offer.field) for offer in offers_of(waiting)]
    if not chosen or not all(chosen):
        return None
    if waiting is not None and waiting.kind == DECISION:
        return {"decision": chosen[0], "reason": " ".join(fields.get("reason", "").split())}
    return "\n".join(filter(None, chosen))
