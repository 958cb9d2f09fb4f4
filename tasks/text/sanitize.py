"""Takes attacks out of untrusted text, so that it may stand in a prompt, a step's field or a log."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from typing import NewType
from urllib.parse import unquote

from tasks.text.attacks import ATTACKS, Attack, AttackClass, View
from tasks.text.dress import TURNED, undressed
from tasks.text.unicode import CONTROL, INVISIBLE, MARKS, TextView, clean, code, code_of, rewrite, words, words_of

Untrusted = NewType("Untrusted", str)  # from outside: a goal's text, a document, a log, evidence, a file's name
Trusted = NewType("Trusted", str)  # ours, or sanitised: only `sanitize` and our own constants make it

TOKEN = "[REDACTED:potential_injection]"  # noqa: S105  a mark that controllers know, not a password
MAX_ROUNDS = 5  # an attack put together by taking out another; who needs more rounds has nothing to say
MAX_EXCERPT = 100
_GAP = "\ue000"  # stands for controls while attacks across them are looked for
_LAYERS = 2  # an encoding within an encoding


class Treatment(StrEnum):
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


Span = tuple[int, int, AttackClass]


def sanitize(text: str, mode: Treatment = Treatment.STRIP) -> Sanitized:
    """Clean `text` and treat every attack in it as `mode` says.

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
    if TURNED in text:  # which `clean` takes out, and with it what shows that the rest is read from its end
        spans = sorted(set(_dressed(TextView(text))))
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
    """Tell whether `text` is ASCII without controls, escapes, markup and long blobs."""
    if not _PLAIN.fullmatch(text):
        return False
    return not _MAY_HIDE.search(text) or not (_ESCAPE.search(text) or _MARKUP.search(text) or _BLOB.search(text))


def is_plain(text: str) -> bool:
    """Tell whether `text` has surely nothing in it, several times faster than `sanitize`.

    Most short fields have not.
    """
    if not _PLAIN.fullmatch(text):
        return False
    if _MAY_HIDE.search(text) and not _hides_nothing(text):
        return False
    view = TextView(text)
    return next(_matches(view), None) is None and next(_dressed(view), None) is None


def _hides_nothing(text: str) -> bool:
    """Tell whether no escape, no markup and no blob stands in ASCII text, or only blobs without an attack."""
    return not _ESCAPE.search(text) and not _MARKUP.search(text) and next(_encoded(text, _LAYERS), None) is None


def _inert(span: str) -> str:
    """Break words and blobs so that people can read them, and no pattern and no decoder does."""
    spaced = _SPELLED.sub("\u00b7", span)
    return re.sub(r"(?<![^\W_])[^\W_](?=\w)|\w{11}(?=\w)|[<(\[|{\"'](?=\S)", "\\g<0>\u00b7", spaced)


_SPELLED = re.compile(r"(?<=(?<![^\W_])[^\W_])[\W_](?=[^\W_](?![^\W_]))")  # between letters that stand alone
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
    """Find attacks in a text as it is read, rendered and decoded."""
    shown = TextView(text)
    for _ in range(_LAYERS):
        shown = rewrite(shown, _ESCAPE, _unescape)
    shown = rewrite(shown, INVISIBLE, lambda _: "")
    shown = rewrite(shown, MARKS, lambda _: "")
    rendered = rewrite(shown, _MARKUP, lambda _: "")
    yield from _matches(shown)
    yield from _dressed(shown)
    if rendered is not shown:
        yield from _matches(rendered)
    if layers:
        yield from _encoded(text, layers)


def _dressed(view: TextView) -> Iterator[Span]:
    """Find attacks whose words a reader undoes at sight."""
    seen = undressed(view)
    if seen is not view:
        yield from _matches(seen)


def _across(text: str) -> Iterator[Span]:
    """Find attacks across controls, which one reader skips and another takes for blanks."""
    yield from _matches(rewrite(TextView(text), _GAPS, lambda _: ""))
    yield from _matches(rewrite(TextView(text), _GAPS, lambda _: " "))


def _matches(view: TextView) -> Iterator[Span]:
    for text_of, view_of, rows in ((words_of, words, _PROSE), (code_of, code, _CODE)):
        if hits := list(_hits(text_of(view.text), rows)):
            seen = view_of(view)  # which knows where its parts stood
            yield from ((*seen.span(start, end), kind) for start, end, kind in hits)


_Rows = dict[str, list[Attack]]


def _by_word(rows: list[Attack]) -> _Rows:
    return {word: [row for row in rows if word in row.words] for each in rows for word in each.words}


_CODE = _by_word([row for row in ATTACKS if row.view is View.CODE])
_PROSE = _by_word([row for row in ATTACKS if row.view is not View.CODE])


def _hits(folded: str, by_word: _Rows) -> Iterator[Span]:
    """Find where a row fits; what has been found once is not looked through again."""
    flat = folded.replace("\n", " ") if by_word is _PROSE else folded
    if not _BEGINS[by_word is _PROSE].search(flat):
        return
    for word in [word for word in by_word if word in flat]:  # as a rule none
        attacks, at = by_word[word], flat.find(word)
        while at >= 0:
            after = at + 1
            for attack in attacks:
                if found := attack.pattern.match(folded if attack.view is View.LINES else flat, at):
                    yield at, found.end(), attack.kind
                    after = max(after, found.end())
            at = flat.find(word, after)


def _any_start(rows: _Rows) -> re.Pattern[str]:
    """Find where a row may begin, in one pass over a text: at the beginning of a word, but for rows that say otherwise.

    What begins alike is looked at once.
    """
    inner = {word for word, attacks in rows.items() if any(attack.after == "" for attack in attacks)}
    return re.compile(f"(?<![a-z0-9])(?:{_tree(rows.keys() - inner)})|{_tree(inner) or '(?!)'}")


def _tree(words: Iterable[str]) -> str:
    """Write a pattern that finds any of `words`, those with one first letter behind that letter."""
    below: dict[str, list[str]] = {}
    for word in sorted(words):
        below.setdefault(word[:1], []).append(word[1:])
    if "" in below:  # a word that ends here is found, whatever follows
        return ""
    return "|".join(f"{re.escape(first)}(?:{_tree(rest)})" for first, rest in below.items())


_BEGINS = {True: _any_start(_PROSE), False: _any_start(_CODE)}
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


# Where none of these stands there is no escape, no markup and no blob.
_MAY_HIDE = re.compile(
    r"[%&<\\*`~]|-->|\]\(|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16}"
    r"|(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?:[ :]?[0-9A-Fa-f]{2}){11}"
)
_GAPS = re.compile(f"{_GAP}+")
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{16,}(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]{16,})*(?:\n[ \t>]{0,8}[A-Za-z0-9+/_-]+)?={0,2}"
)
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{80,}|(?:[0-9A-Fa-f]{2}[ :]?){40,}")
_HEX = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?:[ :]?[0-9A-Fa-f]{2}){11,}(?![0-9A-Za-z])")
_TO_STANDARD = str.maketrans("-_", "+/", "\n\t >=")
_READABLE = re.compile(rb"[\t\n\r -~]{8,}")  # bytes that are text; digests and pictures have hardly any


def _encoded(text: str, layers: int) -> Iterator[Span]:
    """Find blobs that decode to an attack."""
    for found in _BASE64.finditer(text):
        blob = found[0].translate(_TO_STANDARD)
        # what stands before a blob may look like a part of it, so any of four beginnings may be its own
        wholes = (rest[: len(rest) - (len(rest) % 4 == 1)] for rest in (blob[skip:] for skip in range(4)))
        yield from _hidden(b"\n".join(b64decode(each + "=" * (-len(each) % 4)) for each in wholes), found, layers)
    for found in _HEX.finditer(text):
        yield from _hidden(bytes.fromhex(re.sub(r"[ :]", "", found[0])), found, layers)


def _hidden(raw: bytes, blob: re.Match[str], layers: int) -> Iterator[Span]:
    readable = b"\n".join(_READABLE.findall(raw)).decode("ascii")
    for _, _, kind in find_spans(readable, layers - 1) if readable else ():
        yield blob.start(), blob.end(), kind
