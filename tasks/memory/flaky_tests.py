"""Which tests of a repository are flaky, counted by day: how a counter is named, and what the counters come to.

A test is seen to be flaky where a verification failed by it and passed on the same tree. Each day's sightings are a
counter of their own, so that what is old counts less and is dropped at last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from schemas.times import DAY_MS
from tasks.text.fields import fit

MAX_DAYS = 90
FADING = 0.95  # what a sighting is worth after each day, of what it was worth before
ENOUGH = 0.5  # worth of sightings, from which a test is called flaky: one counts for 13 days
MOST_RECALLED = 20  # tests that a plan is told
MOST_DROPPED = 50  # counters that one commit drops
MAX_TEST = 300  # characters of a test's name

COUNTERS = "tests"  # what the names of all of these counters begin with
_FIELD = re.compile(r"(\d{1,7}) (.+)", re.DOTALL)


class Recalled(NamedTuple):
    """What the counters of a repository come to: the tests that are flaky, and counters that are too old."""

    flaky: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


class Sighting(NamedTuple):
    """That a test was flaky on a day, counted from 1970, so many times."""

    day: int
    test: str
    times: int


NOTHING = Recalled()


def counters_of(tenant: str, repo: str) -> str:
    """Name the counters of a tenant's repository."""
    return f"{COUNTERS}:{quote(tenant, safe='', errors='replace')}:{quote(repo, safe='', errors='replace')}"


def repository_of(counters: str) -> tuple[str, str]:
    """Read the tenant and the repository whose counters are called so."""
    _, tenant, repo = counters.split(":")
    return unquote(tenant), unquote(repo)


def counter_of(test: str, now: int) -> str | None:
    """Name the counter of a test that was seen to be flaky at `now` (ms); None where it has no name to go by."""
    name = fit(test, MAX_TEST)
    return f"{now // DAY_MS} {name}" if name else None


def sighting_of(field: str, count: int) -> Sighting | None:
    """Read a counter; None where it is none of ours, or counts nothing."""
    found = _FIELD.fullmatch(field)
    return Sighting(int(found[1]), found[2], count) if found and count > 0 else None


def is_old(sighting: Sighting, now: int) -> bool:
    """Whether a sighting counts no more at `now` (ms)."""
    return now // DAY_MS - sighting.day > MAX_DAYS


def recall(counters: Mapping[str, int], now: int, own: Iterable[str] = ()) -> Recalled:
    """Return which tests are flaky by the counters of their repository at `now` (ms), those that are most so first.

    A goal's `own` failing tests are not among them: what makes them fail is the work at hand.
    """
    worth: dict[str, float] = defaultdict(float)
    old: list[str] = []
    for field, count in sorted(counters.items()):
        sighting = sighting_of(field, count)
        if sighting is None or is_old(sighting, now):
            old.append(field)
        else:
            worth[sighting.test] += sighting.times * FADING ** max(0, now // DAY_MS - sighting.day)
    for test in {fit(test, MAX_TEST) for test in own} if worth else ():
        worth.pop(test, None)
    known = sorted(worth.items(), key=lambda each: (-each[1], each[0]))
    flaky = [fit(test, MAX_TEST) for test, share in known if share >= ENOUGH]
    return Recalled(tuple(filter(None, flaky[:MOST_RECALLED])), tuple(old[:MOST_DROPPED]))
