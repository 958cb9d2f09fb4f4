"""Finds plans by a filter: from the smallest list that contains all of them, the newest first.

A list only narrows the search: whether a plan matches is read from the plan itself.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from redis import Redis

from schemas.base import PlanState
from schemas.plan import PlanSummary
from schemas.stored import PlanHead
from schemas.times import milliseconds
from tasks.base.errors import PlannerError
from tasks.plan import lifecycle
from tasks.plan.lifecycle import DRAFT
from worker.store.keys import Partition, partition_of

PAGE = 500
MOST_COUNTED = 100_000  # plans of a list that is counted together with another one: the server does nothing else then
CURSOR = re.compile(r"(\d{1,15})\.(plan_[0-9a-f]{2}-[0-9a-f]{1,64})", re.ASCII)


class WrongCursor(PlannerError):
    """The text is no cursor of a list of plans."""


class Place(NamedTuple):
    """The position of a plan among all plans; newer is greater."""

    created: int
    plan_id: str

    def cursor(self) -> str:
        """Return the place as a cursor: entries after it are older, regardless of new plans."""
        return f"{self.created}.{self.plan_id}"

    @classmethod
    def read(cls, cursor: str) -> Place:
        """Return the place of a cursor. Raises WrongCursor."""
        found = CURSOR.fullmatch(cursor)
        if not found:
            raise WrongCursor
        return cls(int(found[1]), found[2])


@dataclass(frozen=True, slots=True)
class PlanFilter:
    """A selection of plans; an empty field matches all."""

    state: str | None = None
    kind: str | None = None
    repo: str | None = None
    tenant: str | None = None
    rule: str | None = None
    waiting: bool = False
    since: datetime | None = None  # created then or later
    until: datetime | None = None  # created before then
    id_prefix: str = ""  # with or without `plan_`
    text: str = ""  # words in its goal, its goal's id or its repository

    def fits(self, plan: PlanSummary) -> bool:
        """Return whether a plan matches; its time and id were checked before."""
        wanted = (
            (self.state, plan.state),
            (self.kind, plan.kind),
            (self.repo, plan.repo),
            (self.tenant, plan.tenant),
            (self.rule, plan.halt.rule if plan.halt else ""),
        )
        is_asked = plan.waiting is not None and plan.waiting.kind != DRAFT  # a drafter is no person
        return all(ours in (None, theirs) for ours, theirs in wanted) and (is_asked or not self.waiting)

    @property
    def words(self) -> tuple[str, ...]:
        """The search words, in lower case."""
        return tuple(self.text.casefold().split())

    def is_told(self, goal: str, head: Callable[[], PlanHead]) -> bool:
        """Return whether a plan contains all search words: in its goal, or else also in its goal's id or repository.

        `head` is called only if the goal does not contain all words.
        """
        words, said = self.words, goal.casefold()
        if all(word in said for word in words):
            return True
        about = head()
        said = f"{said}\n{about.goal_id}\n{about.repo or ''}".casefold()
        return all(word in said for word in words)

    @property
    def names(self) -> list[str]:
        """The lists that contain every matching plan."""
        named = (
            self.state and lifecycle.of_state(self.state),
            self.tenant and lifecycle.of_tenant(self.tenant),
            self.repo and lifecycle.of_repository(self.repo),
            self.rule and lifecycle.of_rule(self.rule),
            self.waiting and lifecycle.WAITING,
        )
        return [name for name in named if name]

    @property
    def begin(self) -> str:
        """The prefix of the wanted ids."""
        prefix = self.id_prefix
        return prefix if not prefix or prefix.startswith("plan_") else f"plan_{prefix}"


def walk(
    client: Redis, partitions: int, wanted: PlanFilter, after: Place | None = None
) -> Iterator[tuple[Place, bool]]:
    """Yield the places of all plans that may match, and whether each has to be checked.

    The newest first, after `after`.
    """
    begin, numbers = wanted.begin, range(partitions)
    if len(begin) >= len("plan_00"):  # the bucket is complete, and leads to the partition
        numbers = _home(begin, partitions)
    parts = [Partition(number) for number in numbers]
    since = milliseconds(wanted.since) if wanted.since else 0
    until = Place(milliseconds(wanted.until), "") if wanted.until else None
    below = min(filter(None, (after, until)), default=None)
    walks = [_places(client, key, since, below) for key in _smallest(client, parts, wanted.names)]
    for place in heapq.merge(*walks, reverse=True):
        yield place, place.plan_id.startswith(begin)


def _home(begin: str, partitions: int) -> range:
    try:
        number = partition_of(begin, partitions)
    except ValueError:  # no plan's id begins like that
        return range(0)
    return range(number, number + 1)


def _smallest(client: Redis, parts: list[Partition], names: list[str]) -> list[str]:
    """Return the list to read for each partition: the shortest of `names`, or all plans if there are none."""
    if not names:
        return [part.plans for part in parts]
    pipeline = client.pipeline(transaction=False)
    for part in parts:
        for name in names:
            pipeline.zcard(part.list_of(name))
    replies = iter(pipeline.execute())
    lengths = [dict(zip(names, replies, strict=False)) for _ in parts]
    return [part.list_of(min(names, key=found.__getitem__)) for part, found in zip(parts, lengths, strict=True)]


def _places(client: Redis, key: str, since: int, below: Place | None) -> Iterator[Place]:
    """Yield the places of a list, the newest first, in pages; changes meanwhile do not shift the others."""
    highest, offset = (str(below.created) if below else "+inf"), 0
    while True:
        page: Any = client.zrange(
            key,
            highest,
            since,
            desc=True,
            byscore=True,
            offset=offset,
            num=PAGE,
            withscores=True,
        )
        for plan_id, created in page:
            place = Place(int(created), plan_id.decode(errors="replace"))
            if below is None or place < below:
                yield place
                below = place
        if len(page) < PAGE:
            return
        last = str(int(page[-1][1]))
        offset = offset + PAGE if last == highest else 0  # all of one millisecond, or some
        highest = last


def count_states(client: Redis, partitions: int, among: Sequence[Sequence[str]] = ((),)) -> dict[str, int] | None:
    """Return the number of matching plans by state; None if the lists are too long to count at once.

    A plan matches if it is in all lists of one group of `among`. No plan may match two groups.
    """
    parts = [Partition(number) for number in range(partitions)]
    pipeline = client.pipeline(transaction=False)
    for part in parts:
        for state in PlanState:
            pipeline.zcard(part.list_of(lifecycle.of_state(state)))
        for name in {name for names in among for name in names}:
            pipeline.zcard(part.list_of(name))
    replies = pipeline.execute()
    size = len(replies) // partitions
    rows = [replies[start : start + size] for start in range(0, len(replies), size)]
    known = [dict(zip(PlanState, row, strict=False)) for row in rows]
    if any(among):
        if any(count > MOST_COUNTED for row in rows for count in row[len(PlanState) :]):
            return None
        known = _count_common(client, parts, known, among)
    sums = {state.value: sum(row[state] for row in known) for state in PlanState}
    return {state: count for state, count in sums.items() if count}


def _count_common(
    client: Redis, parts: list[Partition], known: list[dict[PlanState, int]], among: Sequence[Sequence[str]]
) -> list[dict[PlanState, int]]:
    """Return for each partition the number of matching plans by state; `among` is as in `count_states`."""
    pipeline = client.pipeline(transaction=False)
    asked = [
        (number, state) for number, row in enumerate(known) for state, count in row.items() if count for _ in among
    ]
    for number, row in enumerate(known):
        for state, count in row.items():
            for names in among if count else ():
                keys = [parts[number].list_of(name) for name in (lifecycle.of_state(state), *names)]
                pipeline.zintercard(len(keys), keys)
    found: list[dict[PlanState, int]] = [dict.fromkeys(PlanState, 0) for _ in parts]
    for (number, state), count in zip(asked, pipeline.execute(), strict=True):
        found[number][state] += count
    return found
