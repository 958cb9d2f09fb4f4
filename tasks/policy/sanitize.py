"""Untrusted text -> text that may stand in a prompt, a step's field or a log (seed 001; spec/task.md 3.4)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from typing import NewType
from urllib.parse import unquote

from tasks.policy.attacks import ATTACKS, AttackClass
from tasks.policy.unicode import INVISIBLE, MARKS, clean, fold

Untrusted = NewType("Untrusted", str)  # from outside: a goal's text, a document, a log, evidence, a file's name
Trusted = NewType("Trusted", str)  # ours, or sanitised: only `sanitize` and our own constants make it

TOKEN = "[REDACTED:potential_injection]"  # noqa: S105  the seed's mark, not a password
MAX_ROUNDS = 5  # an attack put together by taking out another; who needs more rounds has nothing to say
MAX_EXCERPT = 100
_LAYERS = 2  # an encoding within an encoding


class Mode(StrEnum):
    """What becomes of an attack: taken out, made inert but legible, or only reported."""

    STRIP = "strip"
    ESCAPE = "escape"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class FoundAttack:
    """One attack as it stood in the text; the excerpt is as untrusted as ever."""

    kind: AttackClass
    excerpt: Untrusted


@dataclass(frozen=True, slots=True)
class Sanitized:
    """The text to use, and what was found in it."""

    text: Trusted
    findings: tuple[FoundAttack, ...] = ()


@dataclass(frozen=True, slots=True)
class _View:
    """A rewritten text, and for each of its characters (and its end) the place it came from."""

    text: str
    origin: list[int]


Span = tuple[int, int, AttackClass]


def sanitize(text: str, mode: Mode = Mode.STRIP) -> Sanitized:
    """Clean `text` and treat every attack in it as `mode` says. Idempotent; linear in the text."""
    if is_plain(text):
        return Sanitized(Trusted(text))
    text, findings = clean(text), []
    for _ in range(MAX_ROUNDS):
        spans = sorted(set(_spans(text)))
        findings += [FoundAttack(kind, Untrusted(text[start:end][:MAX_EXCERPT])) for start, end, kind in spans]
        if not spans or mode is Mode.FLAG:
            return Sanitized(Trusted(text), tuple(dict.fromkeys(findings)))
        text = clean(_replace(text, spans, _TREATMENT[mode]))
    return Sanitized(Trusted(TOKEN), tuple(dict.fromkeys(findings)))


def is_plain(text: str) -> bool:
    """Tell, several times faster than by looking for it, that `text` has nothing in it; most short fields have not."""
    return (
        _PLAIN.fullmatch(text) is not None
        and not _ESCAPE.search(text)
        and not _MARKUP.search(text)
        and next(_hits(text.lower()), None) is None
        and next(_encoded(text, _LAYERS), None) is None
    )


def _inert(span: str) -> str:
    """Break words after the first letter, and blobs every few: people can read it, no pattern and no decoder does."""
    return re.sub(r"(?<![^\W_])[^\W_](?=\w)|\w{11}(?=\w)|[<(\[|](?=\S)", "\\g<0>\u00b7", span)


_TREATMENT: dict[Mode, Callable[[str], str]] = {Mode.STRIP: lambda _: TOKEN, Mode.ESCAPE: _inert}


def _replace(text: str, spans: list[Span], treat: Callable[[str], str]) -> str:
    pieces, at = [], 0
    for start, end in _merged(spans):
        pieces += [text[at:start], treat(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def _merged(spans: list[Span]) -> Iterator[tuple[int, int]]:
    start, end = spans[0][:2]
    for other, other_end, _ in spans[1:]:
        if other > end:
            yield start, end
            start, end = other, other_end
        end = max(end, other_end)
    yield start, end


def _spans(text: str, layers: int = _LAYERS) -> Iterator[Span]:
    """Find attacks in the text as it is read, as it is rendered, and in what is encoded in it."""
    shown = _View(text, list(range(len(text) + 1)))
    for _ in range(_LAYERS):
        shown = _rewrite(shown, _ESCAPE, _unescape)
    shown = _rewrite(shown, INVISIBLE, lambda _: "")
    shown = _rewrite(shown, MARKS, lambda _: "")
    rendered = _rewrite(shown, _MARKUP, lambda _: "")
    yield from _matches(shown)
    if rendered is not shown:
        yield from _matches(rendered)
    if layers:
        yield from _encoded(text, layers)


def _matches(view: _View) -> Iterator[Span]:
    for start, end, kind in _hits(fold(view.text)):
        yield view.origin[start], view.origin[end], kind


_BY_WORD = {word: [attack for attack in ATTACKS if word in attack.words] for row in ATTACKS for word in row.words}


def _hits(folded: str) -> Iterator[Span]:
    for word, attacks in _BY_WORD.items():
        at = folded.find(word)
        while at >= 0:
            for attack in attacks:
                if found := attack.pattern.match(folded, at):
                    yield at, found.end(), attack.kind
            at = folded.find(word, at + 1)


_PLAIN = re.compile(r"[\t\n -~]*")  # what `clean` and `fold` leave as it is but for its case
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


def _rewrite(view: _View, pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> _View:
    """Replace what `pattern` finds, remembering where everything came from."""
    pieces: list[str] = []
    origin: list[int] = []
    at = 0
    for found in pattern.finditer(view.text):
        put = change(found)
        pieces += [view.text[at : found.start()], put]
        origin += view.origin[at : found.start()]
        origin += [view.origin[found.start()]] * len(put)
        at = found.end()
    if not at:
        return view
    return _View("".join([*pieces, view.text[at:]]), origin + view.origin[at:])


_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{16,}(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]{16,})*(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]+)?={0,2}"
)
_HEX = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?:[ :]?[0-9A-Fa-f]{2}){11,}(?![0-9A-Za-z])")
_TO_STANDARD = str.maketrans("-_", "+/", "\n\t >=")
_READABLE = re.compile(rb"[\t\n\r -~]{8,}")  # bytes that are text; digests and pictures have hardly any


def _encoded(text: str, layers: int) -> Iterator[Span]:
    """Find blobs that decode to an attack."""
    for found in _BASE64.finditer(text):
        blob = found[0].translate(_TO_STANDARD)
        # what stands before a blob may look like a part of it, so any of four beginnings may be its own
        yield from _hidden(b"\n".join(_decoded(blob[skip:]) for skip in range(4)), found, layers)
    for found in _HEX.finditer(text):
        yield from _hidden(bytes.fromhex(re.sub(r"[ :]", "", found[0])), found, layers)


def _decoded(blob: str) -> bytes:
    whole = blob[: len(blob) - (len(blob) % 4 == 1)]
    return b64decode(whole + "=" * (-len(whole) % 4))


def _hidden(raw: bytes, blob: re.Match[str], layers: int) -> Iterator[Span]:
    readable = b"\n".join(_READABLE.findall(raw)).decode("ascii")
    for _, _, kind in _spans(readable, layers - 1) if readable else ():
        yield blob.start(), blob.end(), kind
