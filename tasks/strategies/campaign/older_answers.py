"""How an answer in prose is read, for plans of before policy version 6.

Consent is guessed from its words: a letter counts where it stands alone, a yes where its line says nothing else, and a
text that says no to something names nothing at all, since what it names may be what is not wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from schemas.kinds.campaign import ClarifyAnswer
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.campaign.verification import read_command
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import clean, fault
from tasks.toolchain.catalogue import Catalogue, render
from tasks.toolchain.files import Role, role_of

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


def read_prose(text: str, page: str, allowed: Collection[str], catalogue: Catalogue) -> ClarifyAnswer | str:
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
