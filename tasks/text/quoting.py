"""Quotes outside words in a prompt: sanitised, bounded, under their origin, each line with a mark.

Our own lines of a prompt never begin with the mark, so that whoever reads it can tell orders from data.
"""

from __future__ import annotations

from collections.abc import Iterable

from tasks.text.fields import fit, several_lines

MARK = "| "


def quote(title: str, origin: str, text: str, size: int) -> str:
    """Quote at most `size` characters of `text` below a heading of ours."""
    lines = fit(text, size, several_lines).splitlines() or ["None"]
    return "\n".join([f"# {title} ({origin})", *(MARK + line for line in lines)])


def list_lines(lines: Iterable[str], most: int) -> str:
    """List outside words, one a line, and say how many more there are."""
    every = [" ".join(line.split()) for line in lines]
    shown = [f"- {line}" for line in every[:most] if line]
    return "\n".join([*shown, f"... and {len(every) - most} more"] if len(every) > most else shown)
