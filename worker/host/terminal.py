"""Writes everything that commands print to a person's terminal, without dangerous characters.

Text from outside may contain escape sequences, C1 controls, and marks that change the direction of writing. None of
them is written, even if a caller did not remove them; `tests/unit/test_terminal.py` checks that there is no other way.
"""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import IO, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from worker.host.printable import escape_json, make_harmless

_CLEAR_LINE = "\r\x1b[2K"


class Terminal(Console):
    """A console that writes no character that could control a terminal; its own styles are written."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, with harmless text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else make_harmless(text), style, control)


def line(text: str, *, err: bool = False) -> None:
    """Print one line of text, unwrapped and without colours."""
    typer.echo(make_harmless(text), err=err)


def document(text: str) -> None:
    """Print JSON without adding a line end, because the text already ends with one."""
    typer.echo(escape_json(text), nl=False)


def content(data: bytes) -> None:
    """Print the content of a file: byte for byte for a program, and harmless on a terminal."""
    if sys.stdout.isatty():
        typer.echo(make_harmless(data.decode(errors="replace").expandtabs()), nl=False)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def confirm(question: str, *, default: bool | None = False) -> bool:
    """Ask a person for yes or no."""
    return typer.confirm(make_harmless(question), default=default)


def overwrite(text: str = "") -> None:
    """Overwrite the current line of the terminal; without a text, clear it."""
    sys.stderr.write(_CLEAR_LINE + make_harmless(text))
    sys.stderr.flush()


class JsonOutput:
    """Stdout as a file for JSON in pieces: byte for byte for a program, harmless on a terminal."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._out: IO[bytes] = sys.stdout.buffer
        self._is_seen = sys.stdout.isatty()

    def write(self, piece: bytes | Any) -> int:
        """Write a piece, which may end within a character."""
        self._out.write(escape_json(self._decoder.decode(piece)).encode() if self._is_seen else piece)
        return len(piece)

    def flush(self) -> None:
        """Flush the output."""
        self._out.flush()
