"""What a person's answer to CLARIFY or CONFIRM makes known, or why it is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from schemas.campaign import ClarifyAnswer, Decision
from tasks.base.errors import UnknownCommand
from tasks.strategies.campaign.coherence import Finding, Trigger
from tasks.strategies.campaign.commands import verification
from tasks.strategies.campaign.options import meaning, options
from tasks.strategies.campaign.state import Known
from tasks.strategies.campaign.writing import written
from tasks.text.fields import fit
from tasks.text.json_in_prose import decoded
from tasks.text.paths import clean
from tasks.toolchain.catalogue import Catalogue, render
from tasks.toolchain.files import Role, having

MAX_SAID = 300  # characters of why an answer is none
NOTHING_SAID = (
    "The answer names no file that the goal allows, no place of tests, no command of the catalogue and neither A nor B."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The question that is being answered, and what it can be answered with."""

    finding: Finding
    known: Known
    page: str
    allowed: Sequence[str]
    catalogue: Catalogue


def learned(value: Any, asked: Asked) -> Known | str:
    """Add to what is known what `value` says, whatever its shape; a sentence where that is nothing."""
    said = _said(value, asked)
    if isinstance(said, str):
        return said
    if outside := [path for path in map(clean, said.candidates) if path not in asked.allowed]:
        return f"The goal does not allow {fit(', '.join(outside[:3]), 200)}: name files of its allowed_files."
    try:
        update = _update(said, asked)
    except UnknownCommand as error:
        return fit(str(error), MAX_SAID)
    known = asked.known.model_copy(update=update)
    return known if known != asked.known else NOTHING_SAID


def _said(value: Any, asked: Asked) -> ClarifyAnswer | str:
    value = _object(value)
    if isinstance(value, str):
        return written(value, asked.page, frozenset(asked.allowed), asked.catalogue)
    if isinstance(value, bool):
        return ClarifyAnswer(confirm=value)
    if not isinstance(value, dict):
        return "An answer is a text, or an object with candidates, test_pattern, verify, choice or confirm."
    try:
        return ClarifyAnswer.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        return fit(f"The answer cannot be read: {where}: {wrong['msg']}.", MAX_SAID)


def _object(value: Any) -> Any:
    """Read an object that came as text."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return decoded(value)
    except ValueError:
        return value


def _update(said: ClarifyAnswer, asked: Asked) -> dict[str, Any]:
    """Put together what was said: a letter first, then what is named, which is more exact."""
    update: dict[str, Any] = {}
    known, trigger = asked.known, asked.finding.triggers[0]
    if said.choice:
        update |= options(trigger, known, asked.allowed)["ab".index(said.choice)].update
    elif said.confirm and asked.finding.decision is Decision.CONFIRM:
        update |= options(Trigger.SEVERAL, known, asked.allowed)[0].update
    if said.candidates:
        update |= meaning(known, tuple(map(clean, said.candidates)))
    return update | _tests(said, asked)


def _tests(said: ClarifyAnswer, asked: Asked) -> dict[str, Any]:
    update: dict[str, Any] = {}
    place = fit(said.test_pattern or "", 200)
    if said.verify and said.verify.strip():
        tool = verification(said.verify.strip(), asked.catalogue)
        update["test_command"] = render((tool,))
        place = place or asked.known.test_pattern or update["test_command"]
    if place:
        update["test_pattern"] = place
        inside = (clean(each) for each in place.split(", "))
        update["tests"] = having((path for path in inside if path in asked.allowed), Role.TEST) or asked.known.tests
    return update
