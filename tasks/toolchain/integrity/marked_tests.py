"""Reads tests of the languages that have patterns: each with its block, its assertions, and whether it is skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tasks.toolchain.integrity.finding import Test
from tasks.toolchain.integrity.languages import TestSigns

_CLOSING = {"(": ")", "{": "}"}
MOST_HEAD, MOST_OPTIONS = 400, 200  # characters between a test's name and its block, and of its options
# An assertion that cannot fail.
_EMPTY = re.compile(
    r"\bexpect\(\s*(?:true|1)\s*\)\.(?:toBe|toEqual|toBeTruthy|to\.be\.true|to\.equal)\(?\s*(?:true|1)?\s*\)?"
    r"|\bassert(?:\.ok|\.isTrue|\.True)?!?\(\s*(?:t\s*,\s*)?true\s*\)"
    r"|\bassert(?:\.strictEqual|\.equal|_eq!?)\(\s*(\w+)\s*,\s*\1\s*\)|\b(?:EXPECT|ASSERT)_TRUE\(\s*true\s*\)|\bexpect\(\s*\)"
)


@lru_cache(maxsize=256)
def without_texts(text: str, texts: re.Pattern[str]) -> str:
    """Replace comments and string literals by blanks of the same length, so that all other code keeps its place."""
    return texts.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def read_tests(text: str, signs: TestSigns) -> list[Test]:
    """Return the tests of a file."""
    bare = without_texts(text, signs.texts)
    return [*_tests(text, bare, signs)]


def _tests(text: str, bare: str, signs: TestSigns) -> Iterator[Test]:
    for found in signs.test.finditer(text):
        start = found.start()
        if bare[start : start + 1].isspace() and not text[start : start + 1].isspace():
            continue  # inside a comment or a text
        opening = bare.find(
            signs.opening, found.start() if signs.opening == "(" else found.end(), found.end() + MOST_HEAD
        )
        if opening < 0:
            continue
        end = _close(bare, opening, signs.opening)
        body, block = text[opening:end], _EMPTY.sub("", bare[opening:end])
        more = text[opening : opening + MOST_OPTIONS] if signs.opening == "(" else ""
        head = _attributes(text, start) + text[start:opening] + more
        skip = signs.skip.search(head) or signs.skip.search(bare, opening, end)
        yield Test(
            found["name"].strip(),
            text.count("\n", 0, start) + 1,
            len(signs.assertion.findall(block)),
            len(signs.strong.findall(block)),
            skip[0].strip() if skip else "",
            max(1, len(signs.case.findall(body))) if signs.case else 1,
            body,
            exact=max(0, len(signs.exact.findall(block)) - block.count("typeof ")) if signs.exact else 0,
        )


def _attributes(text: str, start: int) -> str:
    """Return the attribute and comment lines directly before a test, with the beginning of the test's line."""
    found = start
    while found > 0:
        line = text.rfind("\n", 0, found - 1) + 1
        if found != start and not text[line:found].lstrip().startswith(("#[", "@", "//")):
            break
        found = line
    return text[found:start]


def _close(bare: str, opening: int, char: str) -> int:
    depth, closing = 0, _CLOSING[char]
    for place in range(opening, len(bare)):
        if bare[place] == char:
            depth += 1
        elif bare[place] == closing:
            depth -= 1
            if not depth:
                return place + 1
    return len(bare)
