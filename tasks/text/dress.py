"""Undoes disguises of words that a reader recognizes: digits for letters, dots, no blanks, camel case, reversal."""

from __future__ import annotations

import re
from dataclasses import replace

from tasks.text.attacks import ATTACKS, GAP, Attack, View
from tasks.text.unicode import TextView, rewrite

TURNED = "\u202e"  # from right to left after this character
_REVERSED = re.compile(TURNED + "([^\u202a-\u202e\n]{1,400})")
_LETTERS = str.maketrans("013456789@$l", "oieasgtbgasi")  # an l becomes an i, since 1 looks like both
_BANG = re.compile(r"!(?=[a-z])")
_POINTS = ".,:;'"
_NO_POINTS = str.maketrans("", "", _POINTS)
_DOTTED = re.compile(r"(?<![a-z0-9])[a-z](?:[.,:;'][a-z]){2,}(?![a-z0-9])")
_POINT = re.compile(f"[{_POINTS}]+")
_RUN = re.compile(r"[a-z]{10,}")  # several of our words without a blank are longer
_ANY_NAME = rf"(?:a|an|the|my){GAP}[a-z]|"  # "youAreNowAuthenticated" has it

_AS_GLUED = (
    (_ANY_NAME, ""),
    (GAP, ""),
    ("(?:[a-z]{1,20}){0,2}", "[a-z]{0,30}"),
    ("(?:[a-z]{1,20}){0,3}", "[a-z]{0,40}"),
    (" ?", ""),
    (" ", ""),
    (r"\b", ""),
)


def turned(view: TextView) -> TextView:
    """Reverse the parts that are written from right to left; the same view if there are none."""
    return rewrite(view, _REVERSED, lambda found: found[1][::-1])


def with_letters(words: str) -> str:
    """Replace each digit and sign in folded text that looks like a letter by this letter; the length stays the same."""
    return _BANG.sub("i", words.translate(_LETTERS))


def has_dotted_letters(words: str) -> bool:
    """Return whether the text spells a word with points between single letters, such as i.g.n.o.r.e."""
    return _DOTTED.search(words) is not None


def long_runs(lettered: str) -> str:
    """Return the long runs of letters, joined by blanks: each may be several words that are glued together."""
    return " ".join(_RUN.findall(lettered.translate(_NO_POINTS)))


def without_points(view: TextView) -> TextView:
    """Remove the points and similar signs of punctuation, which may separate letters or words."""
    return rewrite(view, _POINT, lambda _: "")


def _lettered(row: Attack) -> Attack:
    return replace(row, starts=row.starts.replace("l", "i"), rest=row.rest.replace("l", "i"))


def _glued(row: Attack) -> Attack:
    starts, rest = row.starts.replace(" ", ""), row.rest
    for part, changed in _AS_GLUED:
        rest = rest.replace(part, changed)
    return _lettered(replace(row, starts=starts, rest=rest, after=""))


LETTERED = [_lettered(row) for row in ATTACKS if row.view is not View.CODE]
GLUED = [_glued(row) for row in ATTACKS if row.view is View.WORDS]
