"""A part of a plan's record: what one feature keeps of the plan, a small object among those that outcomes change.

A part of which nothing is kept is not stored. One that is stored is read when it is first asked for.
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
    """The base of every part; each of its fields has a default, and is stored where it has another value."""

    BY_STEP: ClassVar[tuple[str, ...]] = ()  # fields of what is only of use while its step has not ended

    unknown: dict[str, Any] | None = field(default=None, init=False)  # keys that a newer version added

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Read what `stored` of this version or a newer one returned."""
        try:
            return cls(**stored)  # nearly always
        except TypeError:
            known, unknown = split(stored, _shape_of(cls).names)
            found = cls(**known)
            found.unknown = unknown
            return found

    def stored(self) -> Any:
        """Return what is stored of it, nothing of an empty one.

        That are the fields that are not empty, and what a newer version added.
        """
        names, empty, values_of = _shape_of(self.__class__)
        values = values_of(self)
        if values == empty:  # as most parts are
            return {}
        found = {name: value for name, value, none in zip(names, values, empty, strict=False) if value != none}
        return found | self.unknown if self.unknown else found


class Shape(NamedTuple):
    """The fields of a kind of part: their names, the values that they have at first, and what reads their values.

    Behind the values stands `unknown`.
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
    """A part among the attributes of a record, by the name that it has among the record's `parts`."""

    def __init__(self, kind: type[P]) -> None:
        self.kind = kind
        self.name = ""

    def __set_name__(self, _: type, name: str) -> None:
        """Take the name that the record has for it."""
        self.name = name

    @overload
    def __get__(self, plan: None, owner: type) -> Self: ...
    @overload
    def __get__(self, plan: PlanRecord, owner: type) -> P: ...
    def __get__(self, plan: PlanRecord | None, owner: type) -> Self | P:
        """Read the part if it is asked for the first time; it is empty where nothing is stored of it."""
        if plan is None:
            return self
        found = plan.parts.get(self.name)
        if not isinstance(found, self.kind):
            found = self.kind.read(found) if found else self.kind()
            plan.keep(self.name, found)
        return found


def split(record: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a record into the keys of `names` and the keys that a newer version has added."""
    known = {name: value for name, value in record.items() if name in names}
    return known, {name: value for name, value in record.items() if name not in names}
