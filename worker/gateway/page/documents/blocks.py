"""The parts of a document: sections of facts, lists, tables, texts, code and drawings. Pure.

A document comes from a plan's kind in this release or another, and contains texts of goals, models and people. So no
code here relies on the presence or type of a field. Unreadable fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

MOST_ROWS = 500  # of one table or list
MOST_TEXT = 20_000  # characters of one text


@dataclass(frozen=True, slots=True)
class Mark:
    """A word in a colour with a meaning: green, amber, red or blue."""

    text: str
    tone: str = ""


Cell = str | Mark | tuple[str, ...]  # several texts are names of files


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    kind: ClassVar[str] = "facts"
    rows: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Sentences, one below the other."""

    kind: ClassVar[str] = "listing"
    items: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Files:
    """Names of files."""

    kind: ClassVar[str] = "files"
    names: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the names of its columns, and its rows."""

    kind: ClassVar[str] = "table"
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    label: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Prose:
    """A text for people, with its own lines."""

    kind: ClassVar[str] = "prose"
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A text that is shown unchanged: code, output of a tool, a drawing in characters, a diff."""

    kind: ClassVar[str] = "code"
    text: str
    title: str = ""
    is_diff: bool = False
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a drawing; `state` is that of a step, and selects the colour."""

    step_id: str
    depends_on: tuple[str, ...]
    state: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, with lines from each to its dependents."""

    kind: ClassVar[str] = "drawing"
    boxes: tuple[Box, ...]
    label: str


Block = Facts | Listing | Files | Table | Prose | Code | Drawing


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a document with its blocks; `about` is shown next to the title."""

    title: str
    blocks: tuple[Block, ...]
    about: tuple[Mark, ...] = ()
    is_nested: bool = False  # below the section before it


def section(title: str, *blocks: Block | None, about: Iterable[Mark] = (), is_nested: bool = False) -> Section | None:
    """Return a section of the blocks that are not None; None if there are none."""
    there = tuple(block for block in blocks if block is not None)
    return Section(title, there, tuple(about), is_nested) if there else None


def facts(**said: Any) -> Facts | None:
    """Return the values with their names, without empty values; None if all are empty. Underscores become spaces."""
    rows = tuple((_title(name), cell) for name, value in said.items() if (cell := _cell(value)))
    return Facts(rows) if rows else None


def listing(value: Any, title: str = "") -> Listing | None:
    """Return a list of texts; None if there are none."""
    found = told(value)
    return Listing(found, title) if found else None


def files(value: Any, title: str = "") -> Files | None:
    """Return a list of file names; None if there are none."""
    found = told(value)
    return Files(found, title) if found else None


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table | None:
    """Return a table without its empty columns; None if it has no row."""
    found = [tuple(_cell(value) for value in row) for row in rows]
    kept = [number for number in range(len(head)) if any(row[number] for row in found)]
    cut = tuple(tuple(row[number] for number in kept) for row in found[:MOST_ROWS])
    left_out = max(0, len(found) - MOST_ROWS)
    return Table(tuple(head[number] for number in kept), cut, label, left_out) if cut and kept else None


def prose(value: Any, title: str = "") -> Prose | None:
    """Return a text block; None if the text is empty."""
    found = text(value).strip()
    return Prose(found, title) if found else None


def code(value: Any, title: str = "", *, is_diff: bool = False, is_folded: bool = False) -> Code | None:
    """Return a block that shows a text unchanged; None if the text is empty."""
    found = text(value).strip("\n")
    return Code(found, title, is_diff, is_folded) if found.strip() else None


def drawing(label: str, boxes: Iterable[Box]) -> Drawing | None:
    """Return a drawing with each box once. Boxes in a dependency cycle are drawn without their dependencies."""
    left = {box.step_id: box for box in boxes}
    drawn: dict[str, Box] = {}
    while free := [box for box in left.values() if not left.keys() & set(box.depends_on)]:
        for box in free:
            drawn[box.step_id] = left.pop(box.step_id)
    drawn |= {name: replace(box, depends_on=()) for name, box in left.items()}
    return Drawing(tuple(drawn.values()), label) if drawn else None


def text(value: Any) -> str:
    """Return any value as text, truncated."""
    if value is None or isinstance(value, Mapping | list | tuple):
        return ""
    said = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return said if len(said) <= MOST_TEXT else f"{said[:MOST_TEXT]}… (cut: {len(said) - MOST_TEXT:,} letters more)"


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list; a single text becomes a list of one."""
    some = value if isinstance(value, list | tuple) else [value]
    return tuple(said for each in some[:MOST_ROWS] if (said := text(each)))


def told(value: Any) -> tuple[str, ...]:
    """Return the texts of a list as `texts` does; if some are left out, the last text has their number."""
    found = texts(value)
    more = len(value) - MOST_ROWS if isinstance(value, list | tuple) else 0
    return (*found, f"and {more:,} more") if more > 0 else found


def number(value: Any) -> float:
    """Return a number; 0 for any other value."""
    return value if isinstance(value, int | float) else 0


def record(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def records(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _cell(value: Any) -> Cell:
    if isinstance(value, Mark):
        return value if value.text else ""
    return told(value) if isinstance(value, list | tuple) else text(value)


def _title(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
