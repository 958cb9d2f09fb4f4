"""Text from outside made fit for a field: without attacks, legible, cut to size."""

from __future__ import annotations

from collections.abc import Callable

from tasks.text.sanitize import TOKEN, Mode, is_plain, sanitize
from tasks.text.unicode import clean

MAX_TITLE = 100
MAX_INTENT = 500
MAX_GUIDANCE = 1000
MAX_CUTS = 5  # a cut may uncover an attack, and taking that out may make the text longer again
_READ, _LEAST_READ = 16, 4096  # times what is kept is read, so that a long text is not looked through in vain


def fit(text: str, size: int) -> str:
    """Put outside words on one line of at most `size` characters, in which no attack is found."""
    return settle(text, size, one_line)


def fit_lines(text: str, size: int) -> str:
    """Make outside words of several lines at most `size` characters long, with no attack found in them."""
    return settle(text, size, lambda found, most: truncate(found.strip(), most))


def fit_text(text: str, size: int) -> str:
    """Keep outside words as they are written, `size` characters of them at most, with no attack found in them."""
    return settle(text, size, sliced)


def settle(text: str, size: int, cut: Callable[[str, int], str]) -> str:
    """Sanitise and `cut` outside words until nothing is found in what is left; every field from outside is cut here.

    What goes on to hold an attack, whatever is taken out, becomes the mark of an attack.
    """
    text = text[: max(_LEAST_READ, size * _READ)]
    for _ in range(MAX_CUTS):
        found = sanitize(text).text
        text = cut(found, size)
        if text == found or is_plain(text) or not sanitize(text, Mode.FLAG).findings:
            return text
    return TOKEN[:size]


def sliced(text: str, size: int) -> str:
    """Keep the first `size` characters as they are."""
    return text[:size]


def truncate(text: str, size: int) -> str:
    """Cut `text` so that it has at most `size` characters, the mark of the cut among them."""
    if len(text) <= size:
        return text
    return text[: size - 1].rstrip() + "…" if size > 0 else ""


def one_line(text: str, size: int) -> str:
    """Put `text` on one line of at most `size` characters, cut between words where it can be."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line) <= size:
        return line
    if size <= 0:
        return ""
    cut = line[: size - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > size // 2 else cut) + "…"


def legible(text: str) -> str:
    """Normalise `text`, without what is invisible or controls a terminal."""
    return text if text.isascii() and text.isprintable() else clean(text)


def filled(sentence: str, goal: str, size: int) -> str:
    """Put the goal's words in for `{goal}`, so that the whole stays within `size`."""
    room = size - len(sentence) + len("{goal}")
    return sentence.replace("{goal}", one_line(goal, room))


def guidance(constraints: tuple[str, ...]) -> str | None:
    """Hand the goal's constraints on to the controller; None where there are none."""
    lines = [line for line in (one_line(each, MAX_GUIDANCE) for each in constraints) if line]
    return one_line("; ".join(lines), MAX_GUIDANCE) or None
