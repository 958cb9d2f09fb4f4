"""The kind of each string in a message, which determines its cleaning before a step, a list or a log may have it.

A kind is part of the metadata of a string's type: `Annotated[str, TextKind.SENTENCE]`. `rewrite` walks a message by the
types of its fields, so a rule for a kind reaches every string of that kind at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from operator import is_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, StringConstraints

_NO_TEXT = (Enum, int, float, datetime, NoneType)  # bool is an int


class TextKind(Enum):
    """The kind of a string."""

    KEY = "key"  # of a narrow alphabet: its own pattern, or the code that takes it, refuses any other
    NAME = "name"  # of a tenant, a goal, a language: legible as it is
    REPOSITORY = "repository"  # its name, path or URL
    REVISION = "revision"  # a commit, or a name that git knows one by
    PATH = "path"  # judged as a path before a step may have it
    COMMAND = "command"  # only ever compared with the tool catalogue
    SENTENCE = "sentence"  # words for one line
    PROSE = "prose"  # words of several lines
    STEP_TEXT = "step_text"  # words of a supplied step; an attack in them is an error of that step
    LOG = "log"  # output of tools, documents, JSON of any shape: read for facts, quoted in part and cleaned then
    CODE = "code"  # where every character counts


class WithoutKind(TypeError):
    """A message has a string whose type names no kind of text."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A string: its kind, and its lengths."""

    kind: TextKind
    most: int | None = None
    least: int = 0

    def rewrite(self, value: Any, change: Change, pointer: str) -> Any:
        """Return the string as `change` returns it."""
        return change(pointer, value, self)


@dataclass(frozen=True, slots=True)
class _Record:
    fields: tuple[tuple[str, Shape], ...]

    def rewrite(self, value: Any, change: Change, pointer: str) -> Any:
        changed, held = {}, value.__dict__
        for name, part in self.fields:
            old = held[name]
            if old is not None and old != ():
                new = part.rewrite(old, change, f"{pointer}/{name}")
                if new is not old:
                    changed[name] = new
        return value.model_copy(update=changed) if changed else value


@dataclass(frozen=True, slots=True)
class _Each:
    item: Shape

    def rewrite(self, value: Any, change: Change, pointer: str) -> Any:
        many = tuple([self.item.rewrite(each, change, f"{pointer}/{at}") for at, each in enumerate(value)])
        return value if all(map(is_, many, value)) else many


@dataclass(frozen=True, slots=True)
class _Entries:
    key: Shape | None
    value: Shape | None

    def rewrite(self, value: Any, change: Change, pointer: str) -> Any:
        entries = {}
        for name, each in value.items():
            at = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            key = self.key.rewrite(name, change, at) if self.key else name
            entries[key] = self.value.rewrite(each, change, at) if self.value else each
        return value if entries == value else entries


@dataclass(frozen=True, slots=True)
class _Either:
    text: Shape | None
    record: Shape | None
    many: Shape | None

    def rewrite(self, value: Any, change: Change, pointer: str) -> Any:
        part = self.text if isinstance(value, str) else self.record if isinstance(value, BaseModel) else self.many
        return value if part is None or value is None else part.rewrite(value, change, pointer)


Change = Callable[[str, str, Leaf], str]  # pointer, text, its leaf -> the new text
Kinds = frozenset[TextKind]
Shape = Leaf | _Record | _Each | _Entries | _Either  # the places of strings in a value


def rewrite(message: BaseModel, kinds: Collection[TextKind], change: Change) -> Any:
    """Change every string of `message` with one of `kinds`; the same object if nothing changes."""
    shape = shape_of(type(message), frozenset(kinds))
    return shape.rewrite(message, change, "") if shape else message


@cache
def shape_of(model: type[BaseModel], kinds: Kinds) -> Shape | None:
    """Return the places of all strings of `kinds` in messages of a model; None if there are none."""
    hints = get_type_hints(model, include_extras=True)
    fields: list[tuple[str, Shape]] = []
    for name, field in model.model_fields.items():
        most = next((each.max_length for each in field.metadata if hasattr(each, "max_length")), None)
        found = _shape(hints[name], kinds, f"{model.__name__}.{name}", Leaf(TextKind.KEY, most), None)
        if found is not None:
            fields.append((name, found))
    return _Record(tuple(fields)) if fields else None


def _shape(annotation: Any, kinds: Kinds, where: str, leaf: Leaf, kind: TextKind | None) -> Shape | None:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind = next((each for each in annotation.__metadata__ if isinstance(each, TextKind)), kind)
        limit = next((each for each in annotation.__metadata__ if isinstance(each, StringConstraints)), None)
        if limit:
            leaf = replace(leaf, most=limit.max_length or leaf.most, least=limit.min_length or 0)
        return _shape(args[0], kinds, where, leaf, kind)
    if annotation in (str, Any) or (origin is dict and Any in args):
        if kind is None:
            raise WithoutKind(f"{where} does not declare the kind of its text")
        return replace(leaf, kind=kind) if kind in kinds and annotation is str else None
    if origin in (Union, UnionType, tuple, dict):
        return _composite(origin, [_shape(each, kinds, where, leaf, kind) for each in args if each is not Ellipsis])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return shape_of(annotation, kinds)
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, _NO_TEXT)):
        return None
    raise WithoutKind(f"{where} is of a type that is not known to hold no text: {annotation}")


def _composite(origin: Any, parts: list[Shape | None]) -> Shape | None:
    if all(part is None for part in parts):
        return None
    if origin is tuple and parts[0]:
        return _Each(parts[0])
    if origin is dict:
        return _Entries(*parts)
    text, record, many = (
        next((part for part in parts if isinstance(part, types)), None) for types in (Leaf, _Record, (_Each, _Entries))
    )
    return _Either(text, record, many)
