"""Reads a person's answer to CLARIFY or CONFIRM: the new facts, or why the answer is not valid.

An answer is an object, a text, or the page of the question with the answer written into it. A line of a text may be a
letter, "both", a yes, files, or a place of tests. It may also be a command of the catalogue, the dependencies of a task
(`002: 001`), or a field with its value. Any other line refuses the whole answer. Nothing is guessed from prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from schemas.kinds.campaign import ClarifyAnswer, CoherenceDecision
from schemas.wording import expected
from tasks.base.errors import UnknownCommand
from tasks.strategies.campaign.question import (
    OPTIONS,
    Coherence,
    Trigger,
    choose,
    choose_files,
    options_of,
    waiting_for,
)
from tasks.strategies.campaign.sequence import parents
from tasks.strategies.campaign.state import CampaignScope, Knowledge
from tasks.strategies.campaign.verification import read_command
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import read_json
from tasks.text.paths import clean, fault
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import Role, files_of, role_of

MAX_SAID = 300  # characters of the reason why an answer is not valid
MAX_SHOWN = 60  # characters of an invalid line
NOTHING_SAID = (
    "The answer names no file that the goal allows, no place of tests, no command of the catalogue and neither A nor B."
)
MAX_READ = 20_000  # characters of an answer
MAX_LINES = 200
NO_ANSWER = (
    "is no answer: answer with A or B, with the files that are to change and nothing else, or with an object such as "
    '{"candidates": ["src/a.py"]}; each on a line of its own.'
)
BOTH = "c"  # of the two sides of an "or"

_LETTER = re.compile(r"(?:option|answer|choice)?[\s:]*([A-C])", re.IGNORECASE)
_FURTHER = re.compile(r"([1-9])\s*[:=]?\s*([A-C]|both)", re.IGNORECASE)  # such as 2B, of the second question
_ASKED = re.compile(r"([2-9])\. ")  # begins the line of a further question
_BOTH = re.compile(r"both(?: of them)?|a\s*(?:and|&|\+|,)\s*b", re.IGNORECASE)
_YES = frozenset({"yes", "y", "ok", "okay", "confirm", "confirmed", "proceed", "all", "approve", "approved"})
_FIELD = re.compile(r"(candidates|test_pattern|verify|choice|confirm)\s*[:=]\s*(\S.*)", re.IGNORECASE)
_DEPENDS = re.compile(
    r"(?:task\s+)?([0-9]{3})\s*[:=]\s*((?:[0-9]{3}|none)(?:[\s,]+(?:and\s+)?[0-9]{3})*)", re.IGNORECASE
)
_ITEM = re.compile(r"^(?:[-*+]|[0-9]{1,2}[.)])\s+")
_APART = re.compile(r"[\s,;`\"'<>()]+")
_PATH = re.compile(r"[\w*?\[\]{}@+-]*[./][\w./*?\[\]{}@+-]*")


def learn(value: Any, page: str, coherence: Coherence, known: Knowledge, scope: CampaignScope) -> Knowledge | str:
    """Add the facts of the answer `value` to `known`; return a sentence if it adds none or is not valid.

    `page` is the text of the question that a person answered, and `coherence` is the decision that asked it.
    """
    said = _read(value, page, coherence.first_or, scope)
    if isinstance(said, str):
        return said
    if outside := [path for path in map(clean, said.candidates) if path not in scope.allowed]:
        return f"The goal does not allow {fit(', '.join(outside[:3]), 200)}: name files of its allowed_files."
    letters = {int(number): letter for number, letter in said.choices.items()} | (
        {coherence.first_or if said.choice == BOTH else 1: said.choice} if said.choice else {}
    )
    offered = [len(options) for options in options_of(coherence, known, scope.allowed)]
    for number, letter in letters.items():
        if number > len(offered) or "abc".index(letter) >= offered[number - 1]:
            return f"The page offers no {'' if number == 1 else number}{letter.upper()}."
    try:
        more = choose(letters, coherence, known, scope.allowed)
        more = more.model_copy(update=_update(said, coherence, more, scope))
    except UnknownCommand as error:
        return fit(str(error), MAX_SAID)
    return more if more != known else NOTHING_SAID


def _read(value: Any, page: str, first_or: int, scope: CampaignScope) -> ClarifyAnswer | str:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            value = read_json(value)
    if isinstance(value, str):
        return _read_lines(value, page, first_or, scope.catalogue)
    if isinstance(value, bool):
        return ClarifyAnswer(confirm=value)
    if not isinstance(value, dict):
        return "An answer is a text, or an object with candidates, test_pattern, verify, choice or confirm."
    return _validated(value)


def _validated(value: Mapping[str, Any]) -> ClarifyAnswer | str:
    try:
        return ClarifyAnswer.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        return fit(f"The answer cannot be read: {where}: {expected(wrong)}.", MAX_SAID)


def _update(said: ClarifyAnswer, coherence: Coherence, known: Knowledge, scope: CampaignScope) -> dict[str, Any]:
    """Return the changes of the known facts that an answer makes with named values, which override a chosen letter."""
    update: dict[str, Any] = {}
    if said.confirm and not said.choice and coherence.decision is CoherenceDecision.CONFIRM:
        update |= OPTIONS[Trigger.SEVERAL](known, scope.allowed)[0].update
    if said.depends:
        waits = {parents(seq)[0]: parents(others) for seq, others in said.depends.items() if parents(seq)}
        asked = {each.seq for each in known.missing}
        update |= waiting_for(known, {seq: others for seq, others in waits.items() if seq in asked})
    if said.candidates:
        update |= choose_files(known, tuple(map(clean, said.candidates)))
    place = fit(said.test_pattern or "", 200)
    if said.verify and said.verify.strip():
        tool = read_command(said.verify.strip(), scope.catalogue)
        update["test_command"] = render((tool,))
        place = place or known.test_pattern or update["test_command"]
    if place:
        update["test_pattern"] = place
        inside = (clean(each) for each in place.split(", "))
        update["tests"] = files_of((path for path in inside if path in scope.allowed), Role.TEST) or known.tests
    return update


def _read_lines(text: str, page: str, first_or: int, catalogue: Catalogue) -> ClarifyAnswer | str:
    """Read a person's answer line by line; return a sentence if a line is not valid or contradicts another.

    Quotations and lines of the question's page do not count.
    """
    said: dict[str, Any] = {}
    for line in _own_lines(text[:MAX_READ], page, first_or):
        found = _read_line(line, catalogue)
        if found is None:
            return fit(f"{fit(line, MAX_SHOWN)} {NO_ANSWER}", MAX_SAID)
        for name, value in found.items():
            if name in ("candidates", "tests"):
                said[name] = [*said.get(name, ()), *value]
            elif name in ("depends", "choices"):
                said[name] = {**said.get(name, {}), **value}
            elif said.setdefault(name, value) != value:
                return f"The answer gives two different values for {name}."
    if tests := said.pop("tests", None):
        said.setdefault("test_pattern", ", ".join(tests)[:1000])
    return _validated(said)


def _read_line(line: str, catalogue: Catalogue) -> dict[str, Any] | None:
    """Return the fields that a line of an answer sets; None if the line is no valid part of an answer.

    A line is a letter, "both", a yes, a dependency, a field, a command, or a list of files.
    """
    plain = line.strip("*_ \t").rstrip(".!")
    if letter := _LETTER.fullmatch(plain):
        return {"choice": letter[1].lower()}
    if further := _FURTHER.fullmatch(plain):
        return {"choices": {further[1]: further[2]}}
    if _BOTH.fullmatch(plain):
        return {"choice": BOTH}
    if waits := _DEPENDS.fullmatch(plain):
        return {"depends": {waits[1]: _words(waits[2])}}
    if plain.lower() in _YES:
        return {"confirm": True}
    if field := _FIELD.fullmatch(line):
        name, value = field[1].lower(), field[2].strip("`\"' ")
        return {name: _words(value) if name == "candidates" else value}
    command = line.strip("`")
    with suppress(UnknownCommand):
        return {"verify": render((read_command(command, catalogue),))}
    words = _words(line)
    if not words or not all(map(_PATH.fullmatch, words)):
        return None
    tests = [path for path in words if _is_test(path)]
    return {"candidates": [path for path in words if path not in tests], "tests": tests}


def _words(line: str) -> list[str]:
    """Return the paths in a line; `and` may be between them."""
    return [clean(word.rstrip(".:!?")) for word in _APART.split(line) if word and word.lower() not in ("and", "&")]


def _own_lines(text: str, page: str, first_or: int) -> Iterator[str]:
    """Yield the lines that a person wrote, without quotations and without the text of the question's `page`.

    If a person wrote after a line of the page, the iterator yields only the added text. A letter after a further
    question gets the number of that question. The line "both" gets the number of the first "or".
    """
    known = sorted(filter(None, map(str.strip, page.splitlines())), key=len, reverse=True)
    for line in map(str.strip, text.splitlines()[:MAX_LINES]):
        start = next((each for each in known if line.startswith(each)), "")
        rest = _ITEM.sub("", line[len(start) :].strip())
        if rest and not rest.startswith(">"):
            further, plain = _ASKED.match(start), rest.strip("*_ \t").rstrip(".!")
            if further and (letter := _LETTER.fullmatch(plain)):
                yield f"{further[1]}{letter[1]}"
            else:
                number = further[1] if further else first_or if not start and first_or > 1 else ""
                yield f"{number}both" if number and _BOTH.fullmatch(plain) else rest


def _is_test(path: str) -> bool:
    """Return whether a word is a test file, a folder or a pattern of tests."""
    if "/" not in path and "." not in path:
        return False
    return role_of(path) is Role.TEST and fault(path.rstrip("/").replace("*", "x").replace("?", "x"), JUDGED) is None
