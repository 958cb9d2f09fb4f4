"""What a document is written with: sections of facts, lists, tables, texts, code and drawings. Pure.

A document is what a plan's kind keeps, from this release or another, with words of goals, models and people in it.
So nothing here expects a field to be there, or to be what it should be; what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

MOST_ROWS = 500  # of one table or list
MOST_TEXT = 20_000  # characters of one text


@dataclass(frozen=True, slots=True)
class Mark:
    """A word that stands out in the colour of what it means: green, amber, red or blue."""

    text: str
    tone: str = ""


Cell = str | Mark | tuple[str, ...]  # several texts are names of files


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with what is said of each."""

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
    """Rows under names."""

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
    """A text as it stands: code, what a tool printed, a drawing in characters, a diff."""

    kind: ClassVar[str] = "code"
    text: str
    title: str = ""
    is_diff: bool = False
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a drawing; `state` as of steps, which gives its colour."""

    step_id: str
    depends_on: tuple[str, ...]
    state: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes with lines from each to those that wait for it."""

    kind: ClassVar[str] = "drawing"
    boxes: tuple[Box, ...]
    label: str


Block = Facts | Listing | Files | Table | Prose | Code | Drawing


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document under a title; `about` stands beside the title."""

    title: str
    blocks: tuple[Block, ...]
    about: tuple[Mark, ...] = ()
    is_nested: bool = False  # below the section before it


def section(title: str, *blocks: Block | None, about: Iterable[Mark] = (), is_nested: bool = False) -> Section | None:
    """Make a section of what there is; None where there is nothing."""
    there = tuple(block for block in blocks if block is not None)
    return Section(title, there, tuple(about), is_nested) if there else None


def facts(**said: Any) -> Facts | None:
    """List what is said, each under its name with blanks for underscores; what is empty is left out."""
    rows = tuple((_title(name), cell) for name, value in said.items() if (cell := _cell(value)))
    return Facts(rows) if rows else None


def listing(value: Any, title: str = "") -> Listing | None:
    """List texts; None where there are none."""
    found = told(value)
    return Listing(found, title) if found else None


def files(value: Any, title: str = "") -> Files | None:
    """List names of files; None where there are none."""
    found = told(value)
    return Files(found, title) if found else None


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table | None:
    """Make a table; None where it has no row. Columns in which nothing stands are left out."""
    found = [tuple(_cell(value) for value in row) for row in rows]
    kept = [number for number in range(len(head)) if any(row[number] for row in found)]
    cut = tuple(tuple(row[number] for number in kept) for row in found[:MOST_ROWS])
    left_out = max(0, len(found) - MOST_ROWS)
    return Table(tuple(head[number] for number in kept), cut, label, left_out) if cut and kept else None


def prose(value: Any, title: str = "") -> Prose | None:
    """Make a text; None where there is none."""
    found = text(value).strip()
    return Prose(found, title) if found else None


def code(value: Any, title: str = "", *, is_diff: bool = False, is_folded: bool = False) -> Code | None:
    """Make a text that stands as it is; None where there is none."""
    found = text(value).strip("\n")
    return Code(found, title, is_diff, is_folded) if found.strip() else None


def drawing(label: str, boxes: Iterable[Box]) -> Drawing | None:
    """Draw boxes, each id once; those that wait for each other in a circle are drawn without what they wait for."""
    left = {box.step_id: box for box in boxes}
    drawn: dict[str, Box] = {}
    while free := [box for box in left.values() if not left.keys() & set(box.depends_on)]:
        for box in free:
            drawn[box.step_id] = left.pop(box.step_id)
    drawn |= {name: replace(box, depends_on=()) for name, box in left.items()}
    return Drawing(tuple(drawn.values()), label) if drawn else None


def text(value: Any) -> str:
    """Write any value as text, cut."""
    if value is None or isinstance(value, Mapping | list | tuple):
        return ""
    said = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return said if len(said) <= MOST_TEXT else f"{said[:MOST_TEXT]}… (cut: {len(said) - MOST_TEXT:,} letters more)"


def texts(value: Any) -> tuple[str, ...]:
    """Take the texts of a list, and one text as a list of it."""
    some = value if isinstance(value, list | tuple) else [value]
    return tuple(said for each in some[:MOST_ROWS] if (said := text(each)))


def told(value: Any) -> tuple[str, ...]:
    """Take the texts of a list as `texts` does, and say how many are left out."""
    found = texts(value)
    more = len(value) - MOST_ROWS if isinstance(value, list | tuple) else 0
    return (*found, f"and {more:,} more") if more > 0 else found


def number(value: Any) -> float:
    """Take a number, and anything else as 0."""
    return value if isinstance(value, int | float) else 0


def record(value: Any) -> Mapping[str, Any]:
    """Take an object, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def records(value: Any) -> list[Mapping[str, Any]]:
    """Take the objects of a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _cell(value: Any) -> Cell:
    if isinstance(value, Mark):
        return value if value.text else ""
    return told(value) if isinstance(value, list | tuple) else text(value)


def _title(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
