"""Finds suppressions of findings that a change adds, and whether each is on existing code or on the change's own code.

A suppression belongs to its line of code: if that line moves, the suppression is not added. In a stub (.pyi, .d.ts)
many lines are alike. There a suppression is on new code if the number of equal lines without one has not dropped. A
suppression of type findings also is on new code if its line uses a declaration that a stub of the change adds.
"""

from __future__ import annotations

import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tasks.toolchain.integrity.finding import OWN, Finding, TextChange
from tasks.toolchain.integrity.languages import PYTHON, Signs, signs_of

_BLANKS = re.compile(r"\s+")
_ABOUT_TYPES = frozenset({"type_ignore", "ts_ignore", "ts_expect_error"})
_OF_NEW_CODE = frozenset({"as_any"})  # a cast changes the code of its line
_STUBS = (".pyi", ".d.ts", ".d.mts", ".d.cts")
_DECLARED = re.compile(r"\b(?:def|class|function|interface|type|const|let|var) +(\w+)|^ *(?:readonly +)?(\w+)\??[:(=]")
_WORD = re.compile(r"\w+")
_RULES = re.compile(r"[A-Za-z][\w/@-]{0,60}\d[\w-]*|[a-z@][\w@/-]{0,60}-[\w/-]+|[a-z_]{1,60}::[a-z_]+")


class _Place(NamedTuple):
    kind: str
    line: int
    code: str  # its line without the comment; empty for a wide one
    text: str
    rules: int  # number of named rules; 0 for all

    @property
    def key(self) -> tuple[str, str]:
        """The identity of a suppression: its kind with the code of its line, at any place."""
        return self.kind, self.code or self.text


def find_suppressions(changes: Sequence[TextChange]) -> Iterator[Finding]:
    """Yield a finding for each suppression that the change adds, over all of its files."""
    before = [(each, [*_places(each.path, each.before)]) for each in changes]
    known = Counter(place.key for _, places in before for place in places)
    rules = {place.key: place.rules for _, places in before for place in places}
    declared = frozenset(name for each in changes if each.path.endswith(_STUBS) for name in _declared(each))
    for each, places in before:
        codes = {_plain(line) for line in (each.before or "").splitlines()} | {place.code for place in places}
        fewer = _lines(each.before) - _lines(each.after)
        for place in _places(each.path, each.after):
            was = rules.get(place.key, 0)
            if known[place.key] and not (was and (place.rules == 0 or place.rules > was)):
                known[place.key] -= 1
                continue
            is_old = each.before is not None and (not place.code or place.code in codes)
            if place.code and place.kind in _ABOUT_TYPES:
                is_new_stub = each.path.endswith(_STUBS) and not fewer[place.code] and place.key not in rules
                is_old = is_old and not is_new_stub and declared.isdisjoint(_WORD.findall(place.code))
            is_old = is_old and place.kind not in _OF_NEW_CODE
            yield Finding(place.kind if is_old else OWN + place.kind, each.path, place.line, place.text[:160])


def _lines(text: str | None) -> Counter[str]:
    return Counter(_plain(line) for line in (text or "").splitlines())


def _declared(stub: TextChange) -> Iterator[str]:
    """Yield the names that new lines of a stub declare."""
    known = _lines(stub.before)
    for line in (stub.after or "").splitlines():
        if not known[_plain(line)]:
            yield from filter(None, (name for found in _DECLARED.findall(line) for name in found))


def _places(path: str, text: str | None) -> Iterator[_Place]:
    signs = signs_of(path)
    if signs is None or not text:
        return
    lines = text.splitlines()
    for number, comment in _comments(text, signs):
        line = lines[number - 1] if number <= len(lines) else ""
        for each in signs.suppressions:
            if each.wide and each.wide.search(line):
                yield _Place(each.kind, number, "", _plain(comment), 0)
            elif found := each.pattern.search(comment):
                own = _plain(line.replace(comment.strip() if signs is PYTHON else found[0], ""))
                code = own if own.strip("*/ {}") else _next(lines, number)
                yield _Place(each.kind, number, code, found[0].strip(), len(_RULES.findall(found[0])))


def _next(lines: Sequence[str], number: int) -> str:
    return next(
        (
            _plain(line)
            for line in lines[number : number + 4]
            if line.strip() and not line.strip().startswith(("#[", "//"))
        ),
        "",
    )


@lru_cache(maxsize=256)
def _comments(text: str, signs: Signs) -> Sequence[tuple[int, str]]:
    """Return the numbered lines that may contain a suppression; in Python only the comments."""
    if signs is not PYTHON:
        return [(number, line) for number, line in enumerate(text.splitlines(), 1) if _may(line, signs)]
    try:
        lines = iter(text.splitlines(keepends=True))
        tokens = list(tokenize.generate_tokens(lambda: next(lines, "")))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return [(number, line) for number, line in enumerate(text.splitlines(), 1) if "#" in line]
    return [(each.start[0], each.string) for each in tokens if each.type == tokenize.COMMENT]


def _may(line: str, signs: Signs) -> bool:
    return any(each.pattern.search(line) or (each.wide and each.wide.search(line)) for each in signs.suppressions)


def _plain(line: str) -> str:
    return _BLANKS.sub(" ", line).strip()
