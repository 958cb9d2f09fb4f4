"""The states of a delivered change, as a table; a fact that a state has no row for does not change the state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from schemas.delivered import DeliveryState as S


class Fact(StrEnum):
    """The most serious fact that a forge shows about a change."""

    FINE = "fine"
    RED = "red"
    ASKED = "asked"
    MERGED = "merged"
    CLOSED = "closed"
    REVERTED = "reverted"


_WHILE_OPEN = {Fact.FINE: S.OPEN, Fact.RED: S.CHECKS_RED, Fact.ASKED: S.CHANGES_ASKED}
_FROM_OPEN = {**_WHILE_OPEN, Fact.MERGED: S.MERGED, Fact.CLOSED: S.CLOSED}
MOVES: Mapping[S, Mapping[Fact, S]] = MappingProxyType(
    {
        S.OPEN: _FROM_OPEN,
        S.CHECKS_RED: _FROM_OPEN,
        S.CHANGES_ASKED: _FROM_OPEN,
        S.CLOSED: {**_WHILE_OPEN, Fact.MERGED: S.MERGED},  # it was opened again
        S.MERGED: {Fact.REVERTED: S.REVERTED},
        S.REVERTED: {},
    }
)


def move(state: S, fact: Fact) -> S:
    """Return the state after a fact."""
    return MOVES[state].get(fact, state)
