"""Finds recorded attempts that are similar to the steps of a plan, with their results.

Attempts are compared by the words in titles and file names: by the Jaccard index of their 1- to 3-grams. The weight of
a record falls by 5 % a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.base import FailureCategory
from schemas.times import DAY_MS
from tasks.memory.flaky_tests import FADING
from tasks.memory.outcomes import MAX_TITLE, MOST_FILES, Attempted
from tasks.text.fields import fit

LEAST_ALIKE = 0.25  # after fading; success only ranks, because a step that always fails is the most useful to know
MOST_SIMILAR = 5
MOST_COMPARED = 64  # steps of a plan
ENOUGH = 5  # attempts; with fewer, one alone would be more than a fifth, and nothing is decided by them
BROKE = FailureCategory.TEST_REGRESSION.value
OFTEN = 0.2  # share in the weight of similar attempts; a failure category above it is frequent

Gram = tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Attempts of equal steps; weights are faded to the present day."""

    about: Attempted  # the newest
    attempts: int = 0
    weight: float = 0.0
    wasted: int = 0  # tokens of those that failed
    failed: dict[str, int] = field(default_factory=dict)
    failed_weight: dict[str, float] = field(default_factory=dict)
    broke: dict[str, float] = field(default_factory=dict)  # by test, of those that a change broke

    def add(self, record: Attempted, weight: float) -> None:
        self.attempts, self.weight = self.attempts + 1, self.weight + weight
        if category := record.category:
            self.wasted += record.tokens
            self.failed[category] = self.failed.get(category, 0) + 1
            self.failed_weight[category] = self.failed_weight.get(category, 0.0) + weight
            for test in record.tests if category == BROKE else ():
                self.broke[test] = self.broke.get(test, 0.0) + weight


class Past(NamedTuple):
    """The results of attempts similar to one step: their number, success rate, and shares by failure category.

    `broke` are the tests that such changes broke, most often first.
    """

    attempts: int
    rate: float
    shares: Mapping[str, float]
    broke: tuple[str, ...] = ()


class Compared(NamedTuple):
    """The groups of attempts most similar to any step, and the Past of each step by its id.

    The groups have the form that `planner show` prints. A step without similar attempts has no Past.
    """

    similar: list[dict[str, Any]]
    past: dict[str, Past]


def compare(steps: Iterable[tuple[str, str, Sequence[str]]], records: Iterable[Attempted], now: int) -> Compared:
    """Compare the first MOST_COMPARED steps (id, title and files) with records, at `now` (ms)."""
    groups: dict[Any, _Group] = {}
    weights: dict[int, float] = {}  # by day
    for record in records:
        key = record.title, record.files
        if (group := groups.get(key)) is None:
            group = groups[key] = _Group(record)
        if (weight := weights.get(record.day)) is None:
            weight = weights[record.day] = _fade(record, now)
        group.add(record, weight)
    known = [*groups.values()]
    grams_of = [_grams(group.about.title, tuple(group.about.files)) for group in known]
    best: dict[int, float] = {}
    past: dict[str, Past] = {}
    for step_id, title, files in [*steps][:MOST_COMPARED]:
        own = _grams(title, tuple(files[:MOST_FILES]))
        shared = [len(own & grams) for grams in grams_of]
        likeness = [
            (number, each / (len(own) + len(grams_of[number]) - each)) for number, each in enumerate(shared) if each
        ]
        alike = {number: share for number, share in likeness if share >= LEAST_ALIKE}
        if alike:
            past[step_id] = _past(alike, known)
        for number, share in alike.items():
            best[number] = max(share, best.get(number, 0.0))
    return Compared(_most_similar(best, known, now), past)


def _past(alike: Mapping[int, float], known: Sequence[_Group]) -> Past:
    weight, shares, broke = 0.0, dict[str, float](), dict[str, float]()
    for number, share in alike.items():
        weight += share * known[number].weight
        for category, failed in known[number].failed_weight.items():
            shares[category] = shares.get(category, 0.0) + share * failed
        for test, times in known[number].broke.items():
            broke[test] = broke.get(test, 0.0) + share * times
    shares = {category: failed / weight for category, failed in sorted(shares.items())}
    tests = sorted(broke, key=lambda test: (-broke[test], test))[:MOST_SIMILAR]
    return Past(sum(known[number].attempts for number in alike), 1 - sum(shares.values()), shares, tuple(tests))


def _most_similar(best: Mapping[int, float], known: Sequence[_Group], now: int) -> list[dict[str, Any]]:
    scored = []
    for number, share in best.items():
        group = known[number]
        if (faded := share * _fade(group.about, now)) >= LEAST_ALIKE:
            succeeded = group.attempts - sum(group.failed.values())
            scored.append((faded * (succeeded + 1) / (group.attempts + 2), -number, succeeded, group))
    return [
        {
            "title": fit(group.about.title, MAX_TITLE),
            "files": [fit(path, 200) for path in group.about.files],
            "verify": [fit(tool, 60) for tool in group.about.tools],
            "attempts": group.attempts,
            "succeeded": succeeded,
            "failed": dict(sorted(group.failed.items())),
            "wasted_tokens": group.wasted,
            "score": round(score, 3),
        }
        for score, _, succeeded, group in sorted(scored, key=lambda each: each[:2], reverse=True)[:MOST_SIMILAR]
    ]


def describe(similar: Mapping[str, Any], *, roughly: bool = False) -> str:
    """Return the results of an entry of `Compared.similar` as a text.

    With `roughly` the text has no figures, because these change often.
    """
    names = f"{similar['title']} ({', '.join(similar['files']) or 'no files'})"
    failed, attempts, succeeded = similar["failed"], similar["attempts"], similar["succeeded"]
    if roughly:
        often = [name for name, times in failed.items() if times > OFTEN * attempts]
        return f"{names}: {f'often fails by {listed}' if (listed := ', '.join(often)) else 'mostly succeeds'}"
    more = "".join(f", {name} {times}" for name, times in failed.items())
    return f"{names}: {succeeded} of {attempts} succeeded{more}"


def results_for_drafters(similar: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rough results of similar attempts for a drafter, one in each line."""
    return [describe(each, roughly=True) for each in similar]


def _fade(record: Attempted, now: int) -> float:
    return float(FADING ** max(0, now // DAY_MS - record.day))


@lru_cache(maxsize=8192)  # plans of a repository have the same steps
def _grams(title: str, files: tuple[str, ...]) -> frozenset[Gram]:
    names = " ".join([path.rpartition("/")[2] for path in files])
    words = re.findall(r"\w+", f"{title[:MAX_TITLE]} {names}".lower())
    return frozenset(tuple(words[at : at + size]) for size in (1, 2, 3) for at in range(len(words) - size + 1))
