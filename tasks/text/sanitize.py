"""Removes attacks from untrusted text, so that it can be used in a prompt, a step's field or a log."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from html import unescape
from itertools import chain
from typing import NewType
from urllib.parse import unquote

from tasks.text.attacks import ATTACKS, Attack, AttackClass, View
from tasks.text.dress import (
    GLUED,
    LETTERED,
    TURNED,
    has_dotted_letters,
    long_runs,
    turned,
    with_letters,
    without_points,
)
from tasks.text.unicode import CONTROL, INVISIBLE, MARKS, TextView, clean, code, code_of, rewrite, words, words_of

Untrusted = NewType("Untrusted", str)  # from outside: a goal's text, a document, a log, evidence, a file's name
Trusted = NewType("Trusted", str)  # from the planner, or sanitized: only `sanitize` and the planner's constants make it

TOKEN = "[REDACTED:potential_injection]"  # noqa: S105  a mark that controllers know, not a password
MAX_ROUNDS = 5  # removing an attack may form another one; a text that needs more rounds is dropped
MAX_EXCERPT = 100
_GAP = "\ue000"  # replaces controls during the search for attacks across them
_LAYERS = 2  # an encoding within an encoding


class Treatment(StrEnum):
    """The ways to treat an attack: remove it, make it inert but legible, or only report it."""

    STRIP = "strip"
    ESCAPE = "escape"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class FoundAttack:
    """One attack as it was in the text; the excerpt is still untrusted."""

    kind: AttackClass
    excerpt: Untrusted


@dataclass(frozen=True, slots=True)
class Sanitized:
    """The text to use, and the attacks that were found in it."""

    text: Trusted
    findings: tuple[FoundAttack, ...] = ()


Span = tuple[int, int, AttackClass]


def sanitize(text: str, mode: Treatment = Treatment.STRIP) -> Sanitized:
    """Clean `text` and treat every attack in it by `mode`.

    Idempotent, and linear in the text.
    """
    if is_plain(text):
        return Sanitized(Trusted(text))
    findings: list[FoundAttack] = []
    if CONTROL.search(text):
        gapped = clean(text, gap=_GAP)
        spans = sorted(set(_across(gapped)))
        findings += _findings(gapped, spans)
        text = _replace(gapped, spans, _TREAT.get(mode, str)).replace(_GAP, "")
    if TURNED in text:  # `clean` removes it, and then the reading direction of the rest is lost
        spans = sorted(set(_matches(_visible(turned(TextView(text))))))
        findings += _findings(text, spans)
        text = _replace(text, spans, _TREAT.get(mode, str))
    text = clean(text)
    for _ in range(MAX_ROUNDS):
        spans = sorted(set(find_spans(text)))
        findings += _findings(text, spans)
        if not spans or mode is Treatment.FLAG:
            return Sanitized(Trusted(text), tuple(dict.fromkeys(findings)))
        text = clean(_replace(text, spans, _TREAT[mode]))
    return Sanitized(Trusted(TOKEN), tuple(dict.fromkeys(findings)))


def _findings(text: str, spans: list[Span]) -> list[FoundAttack]:
    return [FoundAttack(kind, Untrusted(text[start:end][:MAX_EXCERPT].replace(_GAP, ""))) for start, end, kind in spans]


def is_simple(text: str) -> bool:
    """Return whether `text` is ASCII, and has no controls, no escapes, no markup and no long blobs."""
    if not _PLAIN.fullmatch(text):
        return False
    return not _MAY_HIDE.search(text) or not (_ESCAPE.search(text) or _MARKUP.search(text) or _BLOB.search(text))


def is_plain(text: str) -> bool:
    """Return whether `text` is certainly free of attacks, several times faster than `sanitize`.

    This is true for most short fields. False only means that `sanitize` must look.
    """
    if not _PLAIN.fullmatch(text):
        return False
    if _MAY_HIDE.search(text) and not _hides_nothing(text):
        return False
    return next(_read(TextView(text)), None) is None


def _hides_nothing(text: str) -> bool:
    """Return whether ASCII text has no escape, no markup, and no blob that decodes to an attack."""
    return not _ESCAPE.search(text) and not _MARKUP.search(text) and next(_encoded(text, _LAYERS), None) is None


def _inert(span: str) -> str:
    """Insert dots into an attack, so that people can still read it, but no pattern or decoder matches."""
    spaced = _SPELLED.sub("\u00b7", span)
    return re.sub(r"(?<![^\W_])[^\W_](?=\w)|\w{11}(?=\w)|[<(\[|{\"'](?=\S)", "\\g<0>\u00b7", spaced)


_SPELLED = re.compile(r"(?<=(?<![^\W_])[^\W_])[\W_](?=[^\W_](?![^\W_]))")  # between single letters
_TREAT: dict[Treatment, Callable[[str], str]] = {Treatment.STRIP: lambda _: TOKEN, Treatment.ESCAPE: _inert}


def _replace(text: str, spans: list[Span], treat: Callable[[str], str]) -> str:
    merged: list[tuple[int, int]] = []
    for start, end, _ in spans:
        if merged and start <= merged[-1][1]:
            start, end = merged[-1][0], max(merged.pop()[1], end)
        merged.append((start, end))
    pieces, at = [], 0
    for start, end in merged:
        pieces += [text[at:start], treat(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def find_spans(text: str, layers: int = _LAYERS) -> Iterator[Span]:
    """Yield the attacks in a text: in its source, in its form without markup, and in its decoded blobs."""
    shown = TextView(text)
    for _ in range(_LAYERS):
        before, shown = shown, rewrite(shown, _ESCAPE, _unescape)
        if shown is before:
            break
    shown = _visible(shown)
    rendered = rewrite(shown, _MARKUP, lambda _: "")
    yield from _read(shown)
    if rendered is not shown:
        yield from _matches(rendered)
    if layers:
        yield from _encoded(text, layers)


def _visible(view: TextView) -> TextView:
    """Remove invisible characters, and accents and other marks on letters."""
    for pattern in () if view.text.isascii() else (INVISIBLE, MARKS):
        view = rewrite(view, pattern, lambda _: "")
    return view


def _read(view: TextView) -> Iterator[Span]:
    """Yield the attacks in the text itself, and in its words after their disguises are undone."""
    spoken, placed = words_of(view.text), cache(lambda: words(view))
    yield from _placed(spoken, _PROSE, placed)
    yield from _placed(code_of(view.text), _CODE, lambda: code(view))
    lettered = with_letters(spoken)
    yield from _placed(lettered, _LETTERED, lambda: TextView(lettered, placed()))
    is_dotted = has_dotted_letters(lettered)
    if is_dotted or next(_hits(long_runs(lettered), _GLUED), None):
        seen = without_points(TextView(lettered, placed()))
        yield from _placed(seen.text, _GLUED, lambda: seen)
        yield from _placed(seen.text, _LETTERED, lambda: seen) if is_dotted else ()


def _across(text: str) -> Iterator[Span]:
    """Yield attacks that contain control characters, which some readers skip and others read as blanks."""
    yield from _matches(rewrite(TextView(text), _GAPS, lambda _: ""))
    yield from _matches(rewrite(TextView(text), _GAPS, lambda _: " "))


def _matches(view: TextView) -> Iterator[Span]:
    yield from _placed(words_of(view.text), _PROSE, lambda: words(view))
    yield from _placed(code_of(view.text), _CODE, lambda: code(view))


def _placed(text: str, rows: _Rows, view: Callable[[], TextView]) -> Iterator[Span]:
    """Yield the attacks in a rewritten text; `view` maps them to their places in the original text."""
    if hits := list(_hits(text, rows)):
        seen = view()
        yield from ((*seen.span(start, end), kind) for start, end, kind in hits)


class _Rows:
    """Rows of the table of attacks, grouped by their first words for a fast search."""

    def __init__(self, rows: Sequence[Attack], *, is_flat: bool = True) -> None:
        self.by_word = {word: [row for row in rows if word in row.words] for each in rows for word in each.words}
        self.begins = _any_start(self.by_word)
        self.is_flat = is_flat  # a line end counts as a blank


def _hits(folded: str, rows: _Rows) -> Iterator[Span]:
    """Yield the attacks that the rows find; the search goes on after each of them."""
    flat = folded.replace("\n", " ") if rows.is_flat else folded
    if not rows.begins.search(flat):
        return
    for word in [word for word in rows.by_word if word in flat]:  # usually none
        attacks, at = rows.by_word[word], flat.find(word)
        while at >= 0:
            after = at + 1
            for attack in attacks:
                if found := attack.pattern.match(folded if attack.view is View.LINES else flat, at):
                    yield at, found.end(), attack.kind
                    after = max(after, found.end())
            at = flat.find(word, after)


def _any_start(rows: Mapping[str, Sequence[Attack]]) -> re.Pattern[str]:
    """Return a pattern that finds the first words of any row in one pass.

    Most rows begin at the start of a word, others anywhere. Equal beginnings are matched once.
    """
    inner = {word for word, attacks in rows.items() if any(attack.after == "" for attack in attacks)}
    return re.compile(f"(?<![a-z0-9])(?:{_tree(rows.keys() - inner) or '(?!)'})|{_tree(inner) or '(?!)'}")


def _tree(words: Iterable[str]) -> str:
    """Return a pattern that matches any of `words`, with common beginnings only once."""
    below: dict[str, list[str]] = {}
    for word in sorted(words):
        below.setdefault(word[:1], []).append(word[1:])
    if "" in below:  # a word that ends here matches, with anything after it
        return ""
    return "|".join(f"{re.escape(first)}(?:{_tree(rest)})" for first, rest in below.items())


_CODE = _Rows([row for row in ATTACKS if row.view is View.CODE], is_flat=False)
_PROSE = _Rows([row for row in ATTACKS if row.view is not View.CODE])
_LETTERED, _GLUED = _Rows(LETTERED), _Rows(GLUED)
_PLAIN = re.compile(r"[\t\n -~]*")  # text that `clean` and `fold` only change in case
_ESCAPE = re.compile(
    r"(?:%[0-9A-Fa-f]{2})+|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
)
_MARKUP = re.compile(
    r"<!--[^<>]{0,1000}?-->|<!--|-->|</?[A-Za-z][^<>]{0,200}>|\]\([^()\s]{0,500}\)|(?<=\w)[*`~\\]{1,3}(?=\w)"
)


def _unescape(found: re.Match[str]) -> str:
    escaped = found[0]
    if escaped.startswith("\\"):
        return clean(chr(int(escaped[2:], 16)))
    return clean(unquote(escaped) if escaped.startswith("%") else unescape(escaped))


# Without any of these there is no escape, no markup and no blob.
_MAY_HIDE = re.compile(
    r"[%&<\\*`~]|-->|\]\(|[a-z0-9][A-Z]|0x[0-9A-Fa-f]{2}[ ,]|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16}"
    r"|(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?:[ :,]{0,2}[0-9A-Fa-f]{2}){11}"
)
_GAPS = re.compile(f"{_GAP}+")
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{16,}(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]{16,})*(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]+)?={0,2}"
)
_LIKE_BLOB = r"(?=[A-Za-z0-9+/]{0,40}(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z0-9]|[a-z][0-9]))"  # as no word has letters
_PIECES = re.compile(
    rf"(?<![A-Za-z0-9+/]){_LIKE_BLOB}[A-Za-z0-9+/]{{6,200}}"
    rf"(?:[\"' \t\n,.\\]{{1,4}}(?:\+[\"' \t\n]{{1,4}})?"
    rf"(?:{_LIKE_BLOB}[A-Za-z0-9+/]{{4,200}}|[A-Za-z0-9+/]{{2,200}}=)){{1,64}}+"
)
_BETWEEN_PIECES = re.compile(r"[\"' \t\n,.\\]+(?:\+[\"' \t\n]+)?")
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{80,}|(?:[0-9A-Fa-f]{2}[ :]?){40,}")
_HEX = re.compile(
    r"(?<![0-9A-Fa-f])(?:0x)?[0-9A-Fa-f]{2}(?:(?:[ :,]{1,2}(?:0x)?|0x)?[0-9A-Fa-f]{2}){11,}(?![0-9A-Za-z])"
)
_BETWEEN_HEX = re.compile("0x|[ :,]+")
_TO_STANDARD = str.maketrans("-_", "+/", "\n\t >=")
_READABLE = re.compile(rb"[\t\n\r -~]{8,}")  # bytes that are text; digests and pictures have few of them


def _encoded(text: str, layers: int) -> Iterator[Span]:
    """Yield blobs that decode to an attack."""
    for found in chain(_BASE64.finditer(text), _PIECES.finditer(text)):
        blob = _BETWEEN_PIECES.sub("", found[0]).translate(_TO_STANDARD)
        # the text before a blob may look like a part of it, so the blob may begin at any of four places
        wholes = (rest[: len(rest) - (len(rest) % 4 == 1)] for rest in (blob[skip:] for skip in range(4)))
        yield from _hidden(b"\n".join(b64decode(each + "=" * (-len(each) % 4)) for each in wholes), found, layers)
    for found in _HEX.finditer(text):
        yield from _hidden(bytes.fromhex(_BETWEEN_HEX.sub("", found[0])), found, layers)


def _hidden(raw: bytes, blob: re.Match[str], layers: int) -> Iterator[Span]:
    readable = b"\n".join(_READABLE.findall(raw)).decode("ascii")
    for _, _, kind in find_spans(readable, layers - 1) if readable else ():
        yield blob.start(), blob.end(), kind
