"""Truncates and cleans words from outside for a field or a prompt; the planner truncates every text with `fit`.

Only quoted lines in a prompt begin with QUOTE_MARK, so that a reader can separate the planner's commands from data.
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
MAX_CUTS = 5  # a truncation may create an attack, and its removal may make the text longer
_READ, _LEAST_READ = 16, 4096  # how many times the kept size is read, so that a long text is not scanned in vain

Cut = Callable[[str, int], str]  # a text and its maximal number of characters


def one_line(text: str, size: int) -> str:
    """Put `text` on one line of at most `size` characters; a truncation ends with "…", between words if possible."""
    line = flatten(text)
    if len(line) <= size:
        return line
    if size <= 0:
        return ""
    cut = line[: size - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > size // 2 else cut) + "…"


def several_lines(text: str, size: int) -> str:
    """Keep the line ends of `text`, in at most `size` characters; a truncation ends with "…"."""
    text = text.strip()
    if len(text) <= size:
        return text
    return text[: size - 1].rstrip() + "…" if size > 0 else ""


def as_written(text: str, size: int) -> str:
    """Keep the first `size` characters unchanged."""
    return text[:size]


def opening(text: str, size: int) -> str:
    """Return the first `size` characters of `text` on one line, without a mark of the truncation."""
    return flatten(text)[:size]


def whole_lines(text: str, size: int) -> str:
    """Return the first whole lines that fit into `size` bytes; of a first line that is too long, its beginning."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= size:
        return text
    head, newline, _ = encoded[: size + 1].rpartition(b"\n")
    return (head if newline else encoded[:size]).decode(errors="ignore")


def last_lines(text: str, size: int) -> str:
    """Return the last whole lines that fit into `size` bytes; of a last line that is too long, its end."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= size:
        return text
    start = len(encoded) - size
    _, _, tail = encoded[start - 1 :].partition(b"\n")
    return (tail or encoded[start:]).decode(errors="ignore")


def fit(text: str, size: int, cut: Cut = one_line) -> str:
    """Remove attacks from outside words, and truncate them to `size` characters; the result has no attack.

    A truncation may create an attack (`rm -rf /` from `rm -rf /system`, `act as dan` from `act as dandelion`). So the
    result is scanned again. A text that still has an attack after MAX_CUTS rounds becomes TOKEN.
    """
    text = text[: max(_LEAST_READ, size * _READ)]
    for _ in range(MAX_CUTS):
        found = sanitize(text).text
        text = cut(found, size)
        if text == found or is_plain(text) or not sanitize(text, Treatment.FLAG).findings:
            return text
    return TOKEN[:size]


def flatten(text: str) -> str:
    """Put `text` on one line, with one blank between words."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def make_legible(text: str) -> str:
    """Normalize `text`, and remove invisible characters and terminal controls."""
    return text if text.isascii() and text.isprintable() else clean(text)


def fill(sentence: str, goal: str, size: int) -> str:
    """Replace `{goal}` in `sentence` by the goal's words; the result has at most `size` characters."""
    room, words = size - len(sentence) + len("{goal}"), _on_one_line(goal)
    return sentence.replace("{goal}", words if len(words) <= room else fit(words[: max(0, room) + 2], room))


@lru_cache(maxsize=64)  # each step of a plan has it
def _on_one_line(goal: str) -> str:
    return fit(goal, len(goal))


@lru_cache(maxsize=16)
def guidance(constraints: tuple[str, ...]) -> str | None:
    """Return the goal's constraints as guidance for the controller; None if there are none."""
    return fit("; ".join(filter(None, map(flatten, constraints))), MAX_GUIDANCE) or None


def quote(title: str, origin: str, text: str, size: int) -> str:
    """Quote at most `size` characters of `text` below a heading of the planner, sanitized, each line with a mark."""
    lines = fit(text, size, several_lines).splitlines() or ["None"]
    return "\n".join([f"# {title} ({origin})", *(QUOTE_MARK + line for line in lines)])


def list_lines(lines: Iterable[str], most: int) -> str:
    """List the first `most` outside words, one in each line; the last line counts the ones that are left out."""
    every = [" ".join(line.split()) for line in lines]
    shown = [f"- {line}" for line in every[:most] if line]
    return "\n".join([*shown, f"... and {len(every) - most} more"] if len(every) > most else shown)
