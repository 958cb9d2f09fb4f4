"""The partitions are shared evenly among the workers that are there, whoever comes and goes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from worker.process.ownership import Moves, share

WORKERS = [f"worker-{number}" for number in range(5)]


@st.composite
def owned(draw: st.DrawFn) -> tuple[dict[int, str], list[str]]:
    """Partitions with whatever owners, among them such as are gone, and the workers that are there."""
    owners = draw(st.lists(st.sampled_from(["", *WORKERS]), min_size=1, max_size=12))
    return dict(enumerate(owners)), draw(st.lists(st.sampled_from(WORKERS), min_size=1, unique=True))


def settle(owners: dict[int, str], workers: list[str]) -> int:
    """Have the workers look in turn until none moves anything; returns how often they did."""
    owners.update({number: "" for number, owner in owners.items() if owner not in workers})  # their leases run out
    for turn in range(100):
        moved = False
        for worker in workers:
            take, give = share(owners, workers, worker)
            owners.update(dict.fromkeys(take, worker) | dict.fromkeys(give, ""))
            moved |= bool(take or give)
        if not moved:
            return turn
    raise AssertionError("they never settle")


@given(owned())
def test_whoever_comes_and_goes_each_partition_has_an_owner_and_no_worker_two_more_than_another(
    found: tuple[dict[int, str], list[str]],
) -> None:
    owners, workers = found

    assert settle(owners, workers) <= len(WORKERS)

    counts = Counter(dict.fromkeys(workers, 0))
    counts.update(owners.values())
    assert "" not in counts
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_share_that_differs_by_one_moves_nothing() -> None:
    assert share({0: "worker-0"}, WORKERS[:2], "worker-0") == share({0: "worker-0"}, WORKERS[:2], "worker-1") == Moves()


def test_a_worker_that_is_not_listed_yet_counts_itself() -> None:
    assert share({0: "", 1: ""}, [], "worker-0").take == {0, 1}
