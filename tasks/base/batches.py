"""Split a sequence into batches (Python 3.12 has `itertools.batched`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield `items` in order, in sequences of `size`; the last sequence may be shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
