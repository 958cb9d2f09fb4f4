"""The style: what a sentence may not do, and what to write instead (docs/contributing.md, "Language")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pyphen
from proselint.checks import __register__ as published
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

MAX_WORDS = 25
MIN_EASE, EASE_WORDS = 30.0, 40  # Flesch's reading ease, of texts with so many words: below 30 is for graduates
SENTENCE_END = re.compile(r"(?<![ (]e\.g)(?<!i\.e)[.!?][\")]?\s+(?=[\"(]?[A-Z0-9`])")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")

PATTERNS: tuple[tuple[str, str, str], ...] = (  # name, expression, what to write instead
    (
        "what is",
        r"\bwhat (?!(?:if|for)\b)(?:is|are|was|were|it|they|a|an|the|he|she|we|you|has|have|had)\b",
        "the noun: the result, the reason, the files",
    ),
    ("what", r"(?<=[a-z,] )what\b(?! (?:is|are|was|were|it|they|a|an|the|he|she|we|you|has|have|had)\b)", "the noun"),
    ("whoever", r"\b(?:who|what|which)ever\b", "everyone who, any, the user"),
    ("of which", r"\b(?:of|by|from|in|to|with|on|at) (?:which|whom)\b", "a second sentence, or that"),
    ("nobody", r"\b(?:nobody|somebody|everybody)\b", "no person, no controller, a user: name who"),
    ("stand", r"\b(?:stands?|stood|standing)\b(?!-| still)", "is, remains, applies, is stored"),
    ("beside", r"\bbesides?\b", "next to, with, in addition to"),
    ("mend", r"\b(?:mend|mends|mended)\b", "repair, fix"),
    ("tell", r"\b(?:tell|tells|told)\b", "return, report, show, state"),
    ("say", r"\b(?:say|says|said)\b", "state, report, name; read: a document states"),
    ("anew", r"\banew\b", "again"),
    ("at all", r"\bat all\b", "nothing"),
    ("hold", r"\b(?:holds|held) (?:good|true|for)\b", "applies to"),
    ("lie", r"\b(?:lies|lay) (?:beside|with|in|on|at)\b", "is"),
    ("those who", r"\b(?:those|he|one) (?:who|whom|whose)\b", "users who, the user"),
    ("for it", r"(?<=[,;] )for (?:it|they|he|she) (?:is|are|has|have|was|were)\b", "because"),
    ("came of", r"\b(?:became|becomes|become|came|comes) of\b", "the result of"),
    ("of its own", r"\bof (?:its|their|our|his) own\b", "its own, separate"),
    ("once more", r"\bonce more\b", "again"),
    ("however", r"\bhowsoever\b|\bwhereof\b|\bthereof\b|\bwherein\b|\bwhither\b|\bhence\b", "a plain word"),
)
COMPILED = tuple((name, re.compile(expression, re.IGNORECASE)) for name, expression, _ in PATTERNS)
INSTEAD = {name: instead for name, _, instead in PATTERNS}
PROSELINT = {  # left out: "archaism" (it finds "for every"), "uncomparables" (slow), and what is about typography
    "cliches": True,
    "hedging": True,
    "malapropisms": True,
    "misc.metadiscourse": True,
    "misc.pretension": True,
    "misc.whence": True,
    "mixed_metaphors": True,
    "needless_variants": True,
    "redundancy": True,
    "weasel_words": True,
}


class Finding(NamedTuple):
    """One thing to rewrite: the rule, and the words that break it."""

    rule: str
    shown: str


def sentences(words: str) -> list[str]:
    """Split a text at the ends of sentences."""
    return [each for each in SENTENCE_END.split(words) if each]


def findings(words: str) -> Iterator[Finding]:
    """Find the patterns, the long sentences and the hard reading of one text."""
    for name, pattern in COMPILED:
        for match in pattern.finditer(words):
            yield Finding(name, words[max(0, match.start() - 30) : match.end() + 30])
    for sentence in sentences(words):
        if (count := len(sentence.split())) > MAX_WORDS:
            yield Finding("long", f"{count} words: {sentence[:80]}")
    if len(words.split()) >= EASE_WORDS and (ease := reading_ease(words)) < MIN_EASE:
        yield Finding("hard", f"reading ease {ease:.0f}: {words[:80]}")


def reading_ease(words: str) -> float:
    """Flesch's reading ease: 100 is very easy, 60 is plain, 30 is difficult."""
    found = WORD.findall(words)
    syllables = sum(map(_syllables, found))
    return 206.835 - 1.015 * len(found) / max(1, len(sentences(words))) - 84.6 * syllables / max(1, len(found))


def published_findings(text: str) -> Iterator[tuple[int, Finding]]:
    """Find what proselint's own checks object to, each with its position in `text`."""
    if not CheckRegistry().checks:
        CheckRegistry().register_many(published)
    for result in LintFile("texts", text).lint({"max_errors": 100_000, "checks": PROSELINT}):
        start, end = (each - 1 for each in result.check_result.span)  # it puts a line before the text
        yield start, Finding(f"proselint {result.check_result.check_path}", text[max(0, start - 30) : end + 30])


@cache
def _syllables(word: str) -> int:
    return str(_hyphens().inserted(word)).count("-") + 1


@cache
def _hyphens() -> pyphen.Pyphen:
    return pyphen.Pyphen(lang="en_US")
