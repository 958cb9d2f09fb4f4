"""An answer in free text, or written into the page of the question, read for what it says about the plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from schemas.campaign import ClarifyAnswer
from schemas.step import VerifyTool
from tasks.errors import UnknownCommand
from tasks.planning.campaign.commands import verification
from tasks.planning.catalogue import Catalogue, render
from tasks.planning.files import Role, role_of
from tasks.planning.paths import clean, fault

MAX_READ = 20_000  # characters of an answer
MAX_LINES = 200
MAX_COMMANDS = 20  # that are tried

_CHOICE = re.compile(r"^\W*([AB])\W*$|\b(?:option|choice|choose|pick|answer)\b\W{0,5}\b([AB])\b", re.I | re.M)
_YES = re.compile(r"^\W*(?:yes|y|ok|okay|confirm|confirmed|proceed|all|approved?)\b", re.IGNORECASE)
_APART = re.compile(r"[\s,;`\"'<>()]+")
_QUOTED = re.compile(r"`([^`\n]{1,500})`")
_ARGUMENT = re.compile(r"[/._:=-]")


def written(text: str, page: str, allowed: Collection[str], catalogue: Catalogue) -> ClarifyAnswer:
    """Read what a person wrote; what the page says itself is not an answer."""
    said = "\n".join(_own_lines(text[:MAX_READ], page))
    paths = tuple(dict.fromkeys(filter(None, map(_path, _APART.split(said)))))
    named = [path for path in paths if path in allowed]
    tests = [path for path in paths if _is_test(path)]
    command = next(_commands(said, catalogue), None)
    found = _CHOICE.search(said)
    return ClarifyAnswer(
        candidates=tuple(path for path in named if path not in tests)[:100],
        test_pattern=", ".join(tests)[:1000] or None,
        verify=render((command,)) if command else None,
        choice=(found[1] or found[2]).lower() if found else None,
        confirm=True if _YES.match(said) else None,
    )


def _own_lines(text: str, page: str) -> Iterator[str]:
    """Take out the page: whole lines of it, and those that an answer was written behind."""
    known = sorted(filter(None, map(str.strip, page.splitlines())), key=len, reverse=True)
    for line in map(str.strip, text.splitlines()[:MAX_LINES]):
        start = next((each for each in known if line.startswith(each)), "")
        if rest := line[len(start) :].strip():
            yield rest


def _path(word: str) -> str:
    return clean(word.strip("*").rstrip(".:!?") if word.startswith("**") else word.rstrip(".:!?"))


def _is_test(path: str) -> bool:
    """Tell whether a word is a place of tests: a test file, a folder of tests, or a pattern of these."""
    if "/" not in path and "." not in path:
        return False
    return role_of(path) is Role.TEST and fault(path.rstrip("/").replace("*", "x").replace("?", "x")) is None


def _commands(text: str, catalogue: Catalogue) -> Iterator[VerifyTool]:
    """Find commands of the catalogue, quoted ones first."""
    spellings = [each.split() for contract in catalogue.contracts.values() for each in contract.spellings]
    first = {spelling[0] for spelling in spellings}
    known = {word for spelling in spellings for word in spelling}
    tried = [*_QUOTED.findall(text), *_spoken(_QUOTED.sub(" ", text), first, known)]
    for command in tried[:MAX_COMMANDS]:
        try:
            yield verification(command.strip(), catalogue)
        except UnknownCommand:
            continue


def _spoken(text: str, first: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Cut commands out of sentences: from a tool's name on, as long as the words look like its arguments."""
    for line in text.splitlines():
        words = [word.strip("`\"'(),;").rstrip(".:") for word in line.split()]
        for start in (index for index, word in enumerate(words) if word in first):
            end = start + 1
            while end < len(words) and (words[end] in known or _ARGUMENT.search(words[end])):
                end += 1
            yield " ".join(words[start:end])
