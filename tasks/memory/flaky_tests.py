"""Flaky tests of a repository, counted by day: the names of their counters, and the tests that count as flaky.

A sighting is a verification that failed by a test and passed on the same tree. Each test and day has a separate
counter, so that old sightings count less and are dropped in the end.
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
FADING = 0.95  # factor for the weight of a sighting after each day
ENOUGH = 0.5  # minimal weight of the sightings of a flaky test: one sighting counts for 13 days
MOST_RECALLED = 20  # flaky tests in one plan
MOST_DROPPED = 50  # counters that one commit drops
MAX_TEST = 300  # characters of a test's name

COUNTERS = "tests"  # prefix of the names of these counters
_FIELD = re.compile(r"(\d{1,7}) (.+)", re.DOTALL)


class Recalled(NamedTuple):
    """The flaky tests by the counters of a repository, and the counters that are too old."""

    flaky: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


class Sighting(NamedTuple):
    """How often a test was flaky on one `day`; days are counted from 1970."""

    day: int
    test: str
    times: int


NOTHING = Recalled()


def counters_of(tenant: str, repo: str) -> str:
    """Return the name under which the counters of a repository's flaky tests are stored."""
    return f"{COUNTERS}:{quote(tenant, safe='', errors='replace')}:{quote(repo, safe='', errors='replace')}"


def repository_of(counters: str) -> tuple[str, str]:
    """Return the tenant and the repository of counters with this name."""
    _, tenant, repo = counters.split(":")
    return unquote(tenant), unquote(repo)


def counter_of(test: str, now: int) -> str | None:
    """Return the counter of a test that was flaky at `now` (ms); None if the test has no usable name."""
    name = fit(test, MAX_TEST)
    return f"{now // DAY_MS} {name}" if name else None


def sighting_of(field: str, count: int) -> Sighting | None:
    """Return the sighting that a counter stores; None if its name has another form, or if its count is not above 0."""
    found = _FIELD.fullmatch(field)
    return Sighting(int(found[1]), found[2], count) if found and count > 0 else None


def is_old(sighting: Sighting, now: int) -> bool:
    """Return whether a sighting is too old to count at `now` (ms)."""
    return now // DAY_MS - sighting.day > MAX_DAYS


def recall(counters: Mapping[str, int], now: int, own: Iterable[str] = ()) -> Recalled:
    """Return the flaky tests by the counters of their repository at `now` (ms), most flaky first.

    A goal's `own` failing tests are left out, because the plan's work is about their failure.
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
