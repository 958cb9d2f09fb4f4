"""Words in another dress, which a reader undoes at sight: dotted, glued, in camel case, with digits, reversed."""

from __future__ import annotations

import re
from collections.abc import Callable

from tasks.text.unicode import TextView, rewrite

_WORD = (  # of phrases that are written without blanks; none is the beginning of one behind it
    r"ignore|disregard|forget|override|bypass|skip|follow|obey|disable|reveal|print|show|enter|answer|act"
    r"|all|any|every|each|of|these|those|the|this|that|your|you|my|our|its|to|are|now|new|as|not|no|do"
    r"|previously|previous|prior|above|preceding|earlier|former|system|developer|mode|anything|longer|only"
    r"|(?:instruction|prompt|direction|directive|command|guideline|order|rule|message|check|filter)s?"
    r"|context|safety|security"
)
_LETTERS = str.maketrans("013457@$", "oieastas")  # digits and signs that stand for letters

_DOTTED = re.compile(r"(?<![A-Za-z0-9])[A-Za-z](?:[.,:;|][A-Za-z])+(?![A-Za-z0-9])")
_JOINED = re.compile(r"(?<![A-Za-z0-9.])[A-Za-z]{2,12}(?:[.,:;|][A-Za-z]{2,12}){2,}+(?![A-Za-z0-9])")
_CAMEL = re.compile(r"(?<![A-Za-z])[A-Za-z][a-z]{1,11}(?:[A-Z][a-z]{1,11}){2,}+(?![A-Za-z])")
_VERB = r"ignore|disregard|forget|override|bypass|follow|obey|disable|reveal|enter|you|please|now|do|no|new"
_GLUED = re.compile(rf"(?<![A-Za-z])(?={_VERB})(?:{_WORD}|please){{3,}}+", re.IGNORECASE)
_DIGITS = re.compile(r"(?<![\w@$])(?=[A-Za-z013457@$]*[A-Za-z])(?=[A-Za-z]*[013457@$])[A-Za-z013457@$]{2,20}(?![\w@$])")
TURNED = "\u202e"  # right to left from here on
_REVERSED = re.compile(TURNED + "([^\u202a-\u202e\n]{4,400})")

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KNOWN_WORD = re.compile(f"{_WORD}|please", re.IGNORECASE)
_POINT = re.compile(r"[.,:;|]")

_DRESSES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_REVERSED, lambda found: found[1][::-1]),
    (_DOTTED, lambda found: found[0][::2]),
    (_JOINED, lambda found: _POINT.sub(" ", found[0])),
    (_CAMEL, lambda found: _CAPITAL.sub(" ", found[0])),
    (_GLUED, lambda found: f" {' '.join(_KNOWN_WORD.findall(found[0]))} "),
    (_DIGITS, lambda found: found[0].translate(_LETTERS)),
)


def undressed(view: TextView) -> TextView:
    """Show a text as it is read; the same view where nothing is in another dress."""
    for pattern, change in _DRESSES:
        view = rewrite(view, pattern, change)
    return view
