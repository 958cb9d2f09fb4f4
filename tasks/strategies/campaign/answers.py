"""What a person's answer to CLARIFY or CONFIRM makes known, or why it is none.

An answer is an object, a text, or the page of the question with the answer written into it. Prose is not taken for
consent: a letter counts where it stands alone, a yes where its line says nothing else, and a text that says no to
something names nothing at all, since what it names may be what is not wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from schemas.kinds.campaign import ClarifyAnswer, CoherenceDecision
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.campaign.question import OPTIONS, Coherence, Trigger, choose_files
from tasks.strategies.campaign.state import CampaignScope, Knowledge
from tasks.strategies.campaign.verification import read_command
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import read_json
from tasks.text.paths import clean, fault
from tasks.toolchain.catalogue import Catalogue, render
from tasks.toolchain.files import Role, files_of, role_of

MAX_SAID = 300  # characters of why an answer is none
NOTHING_SAID = (
    "The answer names no file that the goal allows, no place of tests, no command of the catalogue and neither A nor B."
)
MAX_READ = 20_000  # characters of an answer
MAX_LINES = 200
MAX_COMMANDS = 20  # that are tried

NEGATED = (
    "The answer says no to something, and the planner does not guess to what: answer with A or B, with the files that"
    ' are to change and nothing else, or with an object such as {"candidates": ["src/a.py"]}.'
)

# A line that is a letter; or, in prose, a capital that no other word follows, so that it is no article.
_CHOICE = re.compile(
    r"^[^\w\n?]*([ABab])[^\w\n?]*$"
    r"|\b(?i:option|choice|choose|pick|answer)\b[^\w\n]{0,5}\b([AB])(?![\w'\u2019/-]|\s*\?|[ \t]+(?!please\b)\w)",
    re.MULTILINE,
)
_LETTER = re.compile(r"(?<![\w'\u2019/-])[AB](?![\w'\u2019/-])")  # who names both chooses neither
_YES = frozenset({"yes", "y", "ok", "okay", "confirm", "confirmed", "proceed", "all", "approve", "approved"})
_WITH_YES = frozenset({"please", "thanks", "go", "ahead", "of", "them", "the", "files", "both", "tests", "in", "and"})
_NO = re.compile(
    r"(?<![\w/.-])(?:no|not|never|none|neither|nor|nobody|nothing(?! (?:else|more)\b)|cannot|without|wrong|stop|wait"
    r"|except|avoid|exclud\w+|skip|leave|keep|ignore|untouched|unchanged|(?:instead|other|rather) (?:of|than)"
    r"|(?:all|any|anything|everything) but|\w+n['\u2019]t|(?:ca|do|does|did|is|are|wo|must|should|would|could)nt)"
    r"(?![\w-]|[./]\w)",
    re.IGNORECASE,
)
_APART = re.compile(r"[\s,;`\"'<>()]+")
_QUOTED = re.compile(r"`([^`\n]{1,500})`")
_ARGUMENT = re.compile(r"[/._:=-]")


def learn(value: Any, page: str, coherence: Coherence, known: Knowledge, scope: CampaignScope) -> Knowledge | str:
    """Add to what is known what `value` says; a sentence where that is nothing.

    `page` is the question that is answered, `coherence` what it is about.
    """
    said = _read(value, page, scope)
    if isinstance(said, str):
        return said
    if outside := [path for path in map(clean, said.candidates) if path not in scope.allowed]:
        return f"The goal does not allow {fit(', '.join(outside[:3]), 200)}: name files of its allowed_files."
    try:
        update = _update(said, coherence, known, scope)
    except UnknownCommand as error:
        return fit(str(error), MAX_SAID)
    more = known.model_copy(update=update)
    return more if more != known else NOTHING_SAID


def _read(value: Any, page: str, scope: CampaignScope) -> ClarifyAnswer | str:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            value = read_json(value)
    if isinstance(value, str):
        return _read_prose(value, page, frozenset(scope.allowed), scope.catalogue)
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


def _update(said: ClarifyAnswer, coherence: Coherence, known: Knowledge, scope: CampaignScope) -> dict[str, Any]:
    """Put together what was said; what is named is more exact than a letter."""
    update: dict[str, Any] = {}
    if said.choice:
        update |= OPTIONS[coherence.triggers[0]](known, scope.allowed)["ab".index(said.choice)].update
    elif said.confirm and coherence.decision is CoherenceDecision.CONFIRM:
        update |= OPTIONS[Trigger.SEVERAL](known, scope.allowed)[0].update
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


def _read_prose(text: str, page: str, allowed: Collection[str], catalogue: Catalogue) -> ClarifyAnswer | str:
    """Read what a person wrote; a sentence where it says no to something.

    What the page says itself is left out.
    """
    said = "\n".join(_own_lines(text[:MAX_READ], page))
    if _NO.search(_QUOTED.sub(" ", said)):
        return NEGATED
    paths = tuple(dict.fromkeys(filter(None, map(_path, _APART.split(said)))))
    named = [path for path in paths if path in allowed]
    tests = [path for path in paths if _is_test(path)]
    command = next(_commands(said, catalogue), None)
    letters = {(found[1] or found[2]).lower() for found in _CHOICE.finditer(said)}
    either = letters | {letter.lower() for letter in _LETTER.findall(said)}
    return ClarifyAnswer(
        candidates=tuple(path for path in named if path not in tests)[:100],
        test_pattern=", ".join(tests)[:1000] or None,
        verify=render((command,)) if command else None,
        choice=letters.pop() if letters and len(either) == 1 else None,
        confirm=True if _is_yes(said, {*named, *tests}) else None,
    )


def _is_yes(said: str, named: Collection[str]) -> bool:
    """Tell whether the first line is a yes, with nothing else on it but files."""
    line = said.partition("\n")[0]
    words = [word for word in _APART.split(line) if word and _path(word) not in named]
    plain = [word.strip(".:!*_-").lower() for word in words]
    return bool(plain) and plain[0] in _YES and {*filter(None, plain)} <= _YES | _WITH_YES


def _own_lines(text: str, page: str) -> Iterator[str]:
    """Take out the page's lines, unless followed by more, and quotes and questions."""
    known = sorted(filter(None, map(str.strip, page.splitlines())), key=len, reverse=True)
    for line in map(str.strip, text.splitlines()[:MAX_LINES]):
        start = next((each for each in known if line.startswith(each)), "")
        rest = line[len(start) :].strip()
        if rest and not rest.startswith(">") and not rest.endswith("?"):
            yield rest


def _path(word: str) -> str:
    return clean(word.strip("*").rstrip(".:!?") if word.startswith("**") else word.rstrip(".:!?"))


def _is_test(path: str) -> bool:
    """Tell whether a word is a test file, a folder or a pattern of tests."""
    if "/" not in path and "." not in path:
        return False
    return role_of(path) is Role.TEST and fault(path.rstrip("/").replace("*", "x").replace("?", "x"), JUDGED) is None


def _commands(text: str, catalogue: Catalogue) -> Iterator[VerifyTool]:
    """Find commands of the catalogue, quoted ones first."""
    spellings = [each.split() for contract in catalogue.contracts.values() for each in contract.spellings]
    first = {spelling[0] for spelling in spellings}
    known = {word for spelling in spellings for word in spelling}
    tried = [*_QUOTED.findall(text), *_spoken(_QUOTED.sub(" ", text), first, known)]
    for command in tried[:MAX_COMMANDS]:
        try:
            yield read_command(command.strip(), catalogue)
        except UnknownCommand:
            continue


def _spoken(text: str, first: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Cut commands out of sentences: a tool's name and what looks like its arguments."""
    for line in text.splitlines():
        words = [word.strip("`\"'(),;").rstrip(".:") for word in line.split()]
        for start in (index for index, word in enumerate(words) if word in first):
            end = start + 1
            while end < len(words) and (words[end] in known or _ARGUMENT.search(words[end])):
                end += 1
            yield " ".join(words[start:end])
