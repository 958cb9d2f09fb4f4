"""How the partitions are shared among workers: each has as many as any other, or one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple


class Moves(NamedTuple):
    """What a worker does about partitions: those that it may take, and those that it gives back."""

    take: frozenset[int] = frozenset()
    give: frozenset[int] = frozenset()


def share(owners: Mapping[int, str], workers: Collection[str], me: str) -> Moves:
    """Tell what `me` takes and gives back, if the partitions have these `owners`, empty for none.

    Pure, and the same for every worker that sees the same: whoever has fewest takes what is free, whoever has more than
    its share gives the rest back. A share that differs by one moves nothing.
    """
    counts = Counter(dict.fromkeys((*workers, me), 0))
    counts.update(owner for owner in owners.values() if owner in counts)
    least, rest = divmod(len(owners), len(counts))
    others_lack = any(count < least for worker, count in counts.items() if worker != me)
    most = least + bool(rest)
    may_have = least if others_lack else most
    mine = sorted(number for number, owner in owners.items() if owner == me)
    free = sorted(number for number, owner in owners.items() if not owner)
    return Moves(frozenset(free[: max(0, may_have - len(mine))]), frozenset(mine[may_have:] if not free else ()))
