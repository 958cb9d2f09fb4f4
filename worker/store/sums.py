"""Sums of ended plans for people; the commits of these ends update them: see lua/sums.lua."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis import Redis

from schemas.stats import StatsBy, StatsFigures, StatsRow, StatsView
from schemas.times import DAY_MS, rfc3339
from tasks.base.batches import batches
from tasks.plan import end_sum
from worker.store.clients import now_ms
from worker.store.keys import Partition, list_name

HOUR_MS = 3_600_000
KEPT_MS = 90 * DAY_MS  # as SUMS_KEPT in sums.lua
HOURS_MS = 8 * DAY_MS  # a longer time is read by days, unless hours are asked for
READ_AT_ONCE = 512  # sums of one period and partition
PERIODS = {"hour": HOUR_MS, "day": DAY_MS}
TIMES = frozenset({StatsBy.HOUR, StatsBy.DAY})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection of sums, from the period that contains `since` (ms) on. No tenant or repository means all.

    With `repositories`, only the sums of these repositories count; a repository without a separate sum is left out.
    """

    since: int
    until: int | None = None
    by: StatsBy = StatsBy.DAY
    tenant: str | None = None
    repo: str | None = None
    repositories: Collection[str] = ()


class _Series(NamedTuple):
    tenant: str  # as it is stored: percent-encoded
    repo: str


_Figures = defaultdict[str, int]
_Key = Any  # key of a sum: the number of a period, or a series
_zeros: Callable[[], _Figures] = partial(defaultdict, int)


def read(client: Redis, partitions: int, wanted: Wanted) -> StatsView:
    """Return the wanted sums; at most 90 days are stored."""
    (found,) = read_all(client, partitions, wanted, (wanted.by,))
    return found


def read_all(client: Redis, partitions: int, wanted: Wanted, bys: Sequence[StatsBy]) -> list[StatsView]:
    """Read the wanted sums once, and return one StatsView for each grouping in `bys`."""
    now = now_ms(client)
    until = min(now, wanted.until or now)
    since = max(wanted.since, now - KEPT_MS)
    period = _period(wanted.by, until - since)
    ms = PERIODS[period]
    since -= since % ms
    found: dict[StatsBy, dict[_Key, _Figures]] = {by: defaultdict(_zeros) for by in bys}
    for number, series, text in _stored(client, partitions, period, range(since // ms, (until - 1) // ms + 1), wanted):
        _add(text, [sums[number if by in TIMES else series] for by, sums in found.items()])
    total = _join(found[bys[0]].values())
    about: dict[str, Any] = {"since": rfc3339(since), "until": rfc3339(until), "total": StatsFigures(**_told(total))}
    return [StatsView(**about, by=by, items=tuple(_rows(sums, by, ms))) for by, sums in found.items()]


def _period(by: StatsBy, length: int) -> str:
    if by in TIMES:
        return by.value
    return "hour" if length <= HOURS_MS else "day"


def _stored(
    client: Redis, partitions: int, period: str, numbers: range, wanted: Wanted
) -> Iterator[tuple[int, _Series, bytes]]:
    """Yield the wanted stored sums of periods, from all partitions."""
    places = ((number, Partition(p)) for number in numbers for p in range(partitions))
    known: dict[bytes, _Series | None] = {}  # periods have mostly the same names
    for some in batches(list(places), READ_AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for number, partition in some:
            pipeline.hgetall(partition.sums(period, number))
        for (number, _), found in zip(some, pipeline.execute(), strict=True):
            for name, text in found.items():
                if name not in known:
                    series = _read_series(name)
                    known[name] = series if _is_wanted(series, wanted) else None
                if (wanted_series := known[name]) is not None:
                    yield number, wanted_series, text


def _read_series(name: bytes) -> _Series:
    tenant, _, repo = name.decode().partition(" ")
    return _Series(tenant, repo)


def _add(text: bytes, sums: Sequence[_Figures]) -> None:
    """Add the figures of a stored sum to each of `sums`; a newer release may have further ones."""
    for each in text.decode().split():
        name, _, figure = each.rpartition("=")
        added = int(figure)
        for figures in sums:
            figures[name] += added


def _join(sums: Iterable[_Figures]) -> _Figures:
    joined = _zeros()
    for figures in sums:
        for name, figure in figures.items():
            joined[name] += figure
    return joined


def _is_wanted(series: _Series, wanted: Wanted) -> bool:
    """Return whether a stored sum is of the wanted tenant and repositories."""
    if wanted.tenant is not None and series.tenant != list_name(wanted.tenant):
        return False
    if wanted.repo is not None and series.repo != list_name(wanted.repo):
        return False
    return not wanted.repositories or series.repo in map(list_name, wanted.repositories)


def _rows(sums: Mapping[_Key, _Figures], by: StatsBy, ms: int) -> Iterator[StatsRow]:
    """Yield the rows of a grouping: periods in order of time, or owners by their spending, the highest first."""
    if by in TIMES:
        yield from (StatsRow(at=rfc3339(number * ms), **_told(figures)) for number, figures in sorted(sums.items()))
        return
    owners: dict[tuple[str, str], list[_Figures]] = defaultdict(list)
    for series, figures in sums.items():
        repo = "" if by is StatsBy.TENANT else unquote(series.repo)
        owners[unquote(series.tenant), repo].append(figures)
    joined = {owner: _join(some) for owner, some in owners.items()}
    for (tenant, repo), figures in sorted(joined.items(), key=_rank):
        yield StatsRow(tenant=tenant or None, repo=repo or None, **_told(figures))


def _rank(owner: tuple[tuple[str, str], _Figures]) -> tuple[int, int, tuple[str, str]]:
    name, figures = owner
    return -figures[end_sum.COST], -figures[end_sum.TOKENS], name


def _told(found: _Figures) -> dict[str, Any]:
    halts = {
        name.removeprefix(end_sum.HALTED): count for name, count in found.items() if name.startswith(end_sum.HALTED)
    }
    return {
        "completed": found[end_sum.COMPLETED],
        "halted": sum(halts.values()),
        "cancelled": found[end_sum.CANCELLED],
        "rejected": found[end_sum.REJECTED],
        "halted_by": dict(sorted(halts.items(), key=lambda each: (-each[1], each[0]))),
        "tokens": found[end_sum.TOKENS],
        "cost_usd": found[end_sum.COST] / end_sum.MICRO,
        "steps": found[end_sum.STEPS],
        "failures": found[end_sum.FAILURES],
    }
