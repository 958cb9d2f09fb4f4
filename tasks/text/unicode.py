"""Text in the form that a reader sees: cleaned, folded so that look-alikes are equal, and reduced to its words.

A view is a rewritten text. Its length may differ from the original's, so it keeps the origin of its parts. Every
function is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[ -/]{0,3}[@-~]")
_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f]")  # of ASCII
_MAX_MARKS = 8  # combining marks on one letter; sorting longer runs of them is quadratic in `normalize`

# controls, soft hyphen, joiners, zero-width and bidi marks, fillers, variation selectors, tags, lone surrogates
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")

# letters that look like one of ours: (ours, theirs) in Cyrillic, Greek, Armenian, small capitals and the like
_LOOK_ALIKES = (
    ("aaaa", "\u0430\u03b1\u0251\u1d00"),
    ("bb", "\u044c\u03b2"),
    ("cccc", "\u0441\u03f2\u1d04\u2ca5"),
    ("ddd", "\u0501\u0111\u1d05"),
    ("eeee", "\u0435\u03b5\u1d07\u0454"),
    ("ff", "\u0192\u017f"),
    ("ggg", "\u0261\u0581\u0262"),
    ("hhhhh", "\u04bb\u043d\u0570\u0127\u029c"),
    ("iiiiii", "\u0456\u03b9\u0131\u026a\u0457\u0269"),
    ("jjj", "\u0458\u03f3\u1d0a"),
    ("kkk", "\u043a\u03ba\u1d0b"),
    ("llll", "\u04cf\u0142\u029f\u01c0"),
    ("mm", "\u043c\u1d0d"),
    ("nnnn", "\u043f\u03b7\u0578\u0274"),
    ("oooooo", "\u043e\u03bf\u0585\u1d0f\u00f8\u03c3"),
    ("ppp", "\u0440\u03c1\u1d18"),
    ("q", "\u051b"),
    ("rrr", "\u0433\u0280\u027e"),
    ("sss", "\u0455\ua731\u0282"),
    ("ttt", "\u0442\u03c4\u1d1b"),
    ("uuuu", "\u03c5\u057d\u1d1c\u0446"),
    ("vvv", "\u03bd\u0475\u1d20"),
    ("wwww", "\u051d\u03c9\u0461\u1d21"),
    ("xx", "\u0445\u03c7"),
    ("yyyy", "\u0443\u03b3\u04af\u028f"),
    ("zz", "\u1d22\u0290"),
    (
        "abehiknmoprtuxyz",
        "\u0391\u0392\u0395\u0397\u0399\u039a\u039d\u039c\u039f\u03a1\u0413\u03a4\u054d\u03a7\u03a5\u0396",
    ),
    ("abehkmopctxyijs", "\u0410\u0412\u0415\u041d\u041a\u041c\u041e\u0420\u0421\u0422\u0425\u0423\u0406\u0408\u0405"),
)
_LATIN = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))  # letters with accents: folded to the letter below
_UNACCENTED = {code: base.lower() for code in _LATIN if (base := unicodedata.normalize("NFKD", chr(code))[0]) < "\x80"}
_PAIRS = {ord(theirs): ours for row in _LOOK_ALIKES for ours, theirs in zip(*row, strict=True)}
_SIGNS = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # where squared, circled, and regional letters begin, from A on
_SIGNED = {first + at: chr(ord("a") + at) for first in _SIGNS for at in range(26)}
FOLDED = MappingProxyType(_UNACCENTED | _PAIRS | _SIGNED)

_BETWEEN = ' \t-_*~`"|>#=+/\\\u2010\u2011\u2012\u2013\u2014\u2015\u201c\u201d\u2022\u2043\u2212'
_TO_BLANK = str.maketrans(dict.fromkeys(_BETWEEN, " ") | dict.fromkeys("\u2018\u2019", "'"))
_SEPARATORS = re.compile(r"[ \n]{2,}")
_SPELLED = re.compile(r"(?<![a-z0-9])[a-z](?: [a-z])+(?![a-z0-9])")  # w o r d s, letter by letter
_SPACES, _LINE_ENDS = re.compile(r" {2,}"), re.compile(r" ?\n[ \n]*")
_ALONE = re.compile(r" [a-z] [a-z] ")
_BLANKS = re.compile(r"(?:[ \t]|\\\n){2,}|\t|\\\n")


def clean(text: str, gap: str = "") -> str:
    """Normalize to NFKC, and remove escape sequences, controls and invisible characters.

    All line ends become line feeds. If `gap` is given, it takes the place of each control.
    """
    if gap:
        text = CONTROL.sub(gap, _ANSI.sub("", text))
    if text.isascii() and not _UNCLEAN.search(text):
        return text
    while True:
        cleaner = INVISIBLE.sub("", _LINE_END.sub("\n", _ANSI.sub("", text)))
        if not cleaner.isascii():
            if marks := re.escape("".join(char for char in set(cleaner) if unicodedata.combining(char))):
                cleaner = re.sub(f"([{marks}]{{{_MAX_MARKS}}})[{marks}]+", r"\1", cleaner)
            cleaner = unicodedata.normalize("NFKC", cleaner)
        if cleaner == text:
            return text
        text = cleaner


def is_visible(text: str) -> bool:
    """Return whether every character of `text` is visible and none is a control."""
    return text.isprintable() and (text.isascii() or INVISIBLE.search(text) is None)


def fold(text: str) -> str:
    """Lower-case `text` and replace look-alike and accented letters by plain ones, only for comparisons.

    Each character becomes one character, so places stay the same.
    """
    if text.isascii():
        return text.lower()
    lower = text.translate(FOLDED).lower()
    return lower if len(lower) == len(text) else "".join(char.lower()[:1] for char in text.translate(FOLDED))


@dataclass(frozen=True, slots=True)
class TextView:
    """A rewritten text, and for each changed part its place in the text `base` before the change."""

    text: str
    base: TextView | None = None
    begins: tuple[int, ...] = ()  # in this text: where a changed part begins
    ends: tuple[int, ...] = ()  # and where it ends
    from_begins: tuple[int, ...] = ()  # in the base: where that part began
    from_ends: tuple[int, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original text of a part of this view; it contains each touched change as a whole."""
        if self.base is None:
            return start, end
        return self.base.span(self._place(start, last=False), self._place(end, last=True))

    def _place(self, at: int, *, last: bool) -> int:
        part = bisect_right(self.begins, at - last) - 1  # an end belongs to the part before it
        if part < 0:
            return at
        if at - last < self.ends[part]:
            return self.from_ends[part] if last else self.from_begins[part]
        return at - self.ends[part] + self.from_ends[part]


def rewrite(view: TextView, pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> TextView:
    """Return a view with all matches of `pattern` changed; the same view if nothing matches."""
    pieces: list[str] = []
    parts: list[tuple[int, int, int, int]] = []
    at = size = 0
    for found in pattern.finditer(view.text):
        start, end = found.span()
        put = change(found)
        size += start - at
        pieces += [view.text[at:start], put]
        parts.append((size, size + len(put), start, end))
        size += len(put)
        at = end
    return TextView("".join([*pieces, view.text[at:]]), view, *zip(*parts, strict=True)) if parts else view


def code_of(text: str) -> str:
    """Return the text of the view `code`, several times faster."""
    folded = fold(text)
    return _BLANKS.sub(" ", folded) if "  " in folded or "\t" in folded or "\\" in folded else folded


def words_of(text: str) -> str:
    """Return the text of the view `words`, several times faster."""
    spaced = fold(text).translate(_TO_BLANK)
    if _ALONE.search(spaced):
        spaced = _SPELLED.sub(lambda found: found[0].replace(" ", ""), spaced)
    if "  " in spaced:
        spaced = _SPACES.sub(" ", spaced)
    return _LINE_ENDS.sub("\n", spaced) if "\n" in spaced else spaced


def code(view: TextView) -> TextView:
    """Return a folded view with one blank for each run of blanks, for literal matches."""
    return rewrite(TextView(fold(view.text), view), _BLANKS, lambda _: " ")


def words(view: TextView) -> TextView:
    """Return a folded view with one blank for each run of separators, or one line end if the run contains one."""
    spaced = TextView(fold(view.text).translate(_TO_BLANK), view)
    joined = spaced
    if _ALONE.search(spaced.text):  # a quick test for it
        joined = rewrite(spaced, _SPELLED, lambda found: found[0].replace(" ", ""))
    return rewrite(joined, _SEPARATORS, lambda found: "\n" if "\n" in found[0] else " ")
