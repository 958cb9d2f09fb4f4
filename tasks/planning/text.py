"""Text of a goal made fit for a field of a step: one line, no control characters, cut to size."""

from __future__ import annotations

from tasks.policy.unicode import clean

MAX_TITLE = 100
MAX_INTENT = 500
MAX_GUIDANCE = 1000


def one_line(text: str, size: int) -> str:
    """Put `text` on one line of at most `size` characters, cut between words where it can be."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line) <= size:
        return line
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
