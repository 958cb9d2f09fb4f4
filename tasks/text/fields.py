"""Words from outside made fit for a field or a prompt: every cut in the planner goes through `fit`.

Our own lines of a prompt never begin with QUOTE_MARK, so that whoever reads it can tell commands from data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from tasks.text.sanitize import TOKEN, Treatment, is_plain, sanitize
from tasks.text.unicode import clean

MAX_TITLE = 100
MAX_INTENT = 500
MAX_GUIDANCE = 1000
QUOTE_MARK = "| "  # before each line of a quotation in a prompt
MAX_CUTS = 5  # a cut may uncover an attack, and taking that out may make the text longer again
_READ, _LEAST_READ = 16, 4096  # times what is kept is read, so that a long text is not looked through in vain

Cut = Callable[[str, int], str]  # a text and how many characters of it may stay


def one_line(text: str, size: int) -> str:
    """Put `text` on one line of `size` characters, cut between words if possible."""
    line = flatten(text)
    if len(line) <= size:
        return line
    if size <= 0:
        return ""
    cut = line[: size - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > size // 2 else cut) + "…"


def several_lines(text: str, size: int) -> str:
    """Keep the lines of `text` without what surrounds them, a mark where they are cut."""
    text = text.strip()
    if len(text) <= size:
        return text
    return text[: size - 1].rstrip() + "…" if size > 0 else ""


def as_written(text: str, size: int) -> str:
    """Keep the first `size` characters as they are."""
    return text[:size]


def opening(text: str, size: int) -> str:
    """Keep the first `size` characters of `text` as one line, without a mark."""
    return flatten(text)[:size]


def whole_lines(text: str, size: int) -> str:
    """Keep the whole lines within `size` bytes; of a first line that is longer, as much of it as fits."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= size:
        return text
    head, newline, _ = encoded[: size + 1].rpartition(b"\n")
    return (head if newline else encoded[:size]).decode(errors="ignore")


def last_lines(text: str, size: int) -> str:
    """Keep the last whole lines within `size` bytes; of a last line that is longer, as much of its end as fits."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= size:
        return text
    start = len(encoded) - size
    _, _, tail = encoded[start - 1 :].partition(b"\n")
    return (tail or encoded[start:]).decode(errors="ignore")


def fit(text: str, size: int, cut: Cut = one_line) -> str:
    """Sanitise and cut outside words to `size` characters in which no attack is found.

    A cut may leave an attack that was none before (`rm -rf /` of `rm -rf /system`, `act as dan` of `act as dandelion`),
    so what was cut is looked at again. What goes on to hold an attack, whatever is taken out, becomes the mark of one.
    """
    text = text[: max(_LEAST_READ, size * _READ)]
    for _ in range(MAX_CUTS):
        found = sanitize(text).text
        text = cut(found, size)
        if text == found or is_plain(text) or not sanitize(text, Treatment.FLAG).findings:
            return text
    return TOKEN[:size]


def flatten(text: str) -> str:
    """Put `text` on one line, one blank for whatever separates its words."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def make_legible(text: str) -> str:
    """Normalise `text`, without what is invisible or controls a terminal."""
    return text if text.isascii() and text.isprintable() else clean(text)


def fill(sentence: str, goal: str, size: int) -> str:
    """Put the goal's words in for `{goal}`, `size` characters in all."""
    room, words = size - len(sentence) + len("{goal}"), _on_one_line(goal)
    return sentence.replace("{goal}", words if len(words) <= room else fit(words[: max(0, room) + 2], room))


@lru_cache(maxsize=64)  # each step of a plan says it
def _on_one_line(goal: str) -> str:
    return fit(goal, len(goal))


@lru_cache(maxsize=16)
def guidance(constraints: tuple[str, ...]) -> str | None:
    """Hand the goal's constraints on to the controller; None where there are none."""
    return fit("; ".join(filter(None, map(flatten, constraints))), MAX_GUIDANCE) or None


def quote(title: str, origin: str, text: str, size: int) -> str:
    """Quote at most `size` characters of `text` below a heading of ours, sanitised, each line with a mark."""
    lines = fit(text, size, several_lines).splitlines() or ["None"]
    return "\n".join([f"# {title} ({origin})", *(QUOTE_MARK + line for line in lines)])


def list_lines(lines: Iterable[str], most: int) -> str:
    """List outside words, one a line, and say how many more there are."""
    every = [" ".join(line.split()) for line in lines]
    shown = [f"- {line}" for line in every[:most] if line]
    return "\n".join([*shown, f"... and {len(every) - most} more"] if len(every) > most else shown)
