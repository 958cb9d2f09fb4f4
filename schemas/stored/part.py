"""A part of a plan's record: the stored state of one feature, a small object in the field that outcomes change.

An empty part is not stored. A stored one is decoded at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, overload

if TYPE_CHECKING:
    from schemas.stored.plan import PlanRecord


@dataclass(slots=True)
class Part:
    """The base of every part; each field has a default, and is stored only with another value."""

    BY_STEP: ClassVar[tuple[str, ...]] = ()  # fields that matter only until their step ends

    unknown: dict[str, Any] | None = field(default=None, init=False)  # keys of a newer version

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Read the output of `stored`, of this version or a newer one."""
        try:
            return cls(**stored)  # nearly always
        except TypeError:
            known, unknown = split(stored, _shape_of(cls).names)
            found = cls(**known)
            found.unknown = unknown
            return found

    def stored(self) -> Any:
        """Return the stored form of the part; empty for an empty part.

        It has the fields that differ from their default, and those of a newer version.
        """
        names, empty, values_of = _shape_of(self.__class__)
        values = values_of(self)
        if values == empty:  # as most parts are
            return {}
        found = {name: value for name, value, none in zip(names, values, empty, strict=False) if value != none}
        return found | self.unknown if self.unknown else found


class Shape(NamedTuple):
    """The fields of a kind of part: their names, their defaults, and the reader of their values.

    `unknown` comes after the values.
    """

    names: tuple[str, ...]
    empty: tuple[Any, ...]
    values_of: Callable[[Part], tuple[Any, ...]]


_shapes: dict[type[Part], Shape] = {}


def _shape_of(kind: type[Part]) -> Shape:
    if kind not in _shapes:
        names = tuple(each.name for each in fields(kind) if each.init)
        values_of = attrgetter(*names, "unknown")
        _shapes[kind] = Shape(names, values_of(kind()), values_of)
    return _shapes[kind]


P = TypeVar("P", bound=Part)


class PartOf(Generic[P]):
    """A part as an attribute of a record, under its name in the record's `parts`."""

    def __init__(self, kind: type[P]) -> None:
        self.kind = kind
        self.name = ""

    def __set_name__(self, _: type, name: str) -> None:
        """Take the attribute's name in the record."""
        self.name = name

    @overload
    def __get__(self, plan: None, owner: type) -> Self: ...
    @overload
    def __get__(self, plan: PlanRecord, owner: type) -> P: ...
    def __get__(self, plan: PlanRecord | None, owner: type) -> Self | P:
        """Decode the part at its first use; it is empty if nothing is stored."""
        if plan is None:
            return self
        found = plan.parts.get(self.name)
        if not isinstance(found, self.kind):
            found = self.kind.read(found) if found else self.kind()
            plan.keep(self.name, found)
        return found


def split(record: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a record into the keys in `names` and those of a newer version."""
    known = {name: value for name, value in record.items() if name in names}
    return known, {name: value for name, value in record.items() if name not in names}
