"""Sums of the plans that ended, as people ask for them; the commits of these ends keep them: see lua/sums.lua."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis import Redis

from schemas.stats import StatsBy, StatsFigures, StatsRow, StatsView
from schemas.times import DAY_MS, rfc3339
from tasks.base.batches import batches
from tasks.plan import end_sum
from worker.store.keys import Partition, list_name

HOUR_MS = 3_600_000
KEPT_MS = 90 * DAY_MS  # as SUMS_KEPT in sums.lua
HOURS_MS = 8 * DAY_MS  # a longer time is read by days, unless hours are asked for
READ_AT_ONCE = 512  # sums of one period and partition
PERIODS = {"hour": HOUR_MS, "day": DAY_MS}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sums that are asked for, from the period of `since` on (ms): of a tenant, of a repository, of some of them.

    With `repositories` sums of others are left out, and so are those of repositories without a place of their own.
    """

    since: int
    until: int | None = None
    by: StatsBy = StatsBy.DAY
    tenant: str | None = None
    repo: str | None = None
    repositories: Collection[str] = ()


_Key = tuple[str, str, str]  # of a row: at, tenant, repository


class _Series(NamedTuple):
    tenant: str  # as it is stored: percent-encoded
    repo: str


def read(client: Redis, partitions: int, wanted: Wanted) -> StatsView:
    """Add up the sums that are asked for; no more than 90 days are kept."""
    (found,) = read_all(client, partitions, wanted, (wanted.by,))
    return found


def read_all(client: Redis, partitions: int, wanted: Wanted, bys: Sequence[StatsBy]) -> list[StatsView]:
    """Read the sums that are asked for once, and add them up by each of `bys`."""
    seconds, microseconds = client.time()
    now = 1000 * seconds + microseconds // 1000
    until = min(now, wanted.until or now)
    since = max(wanted.since, now - KEPT_MS)
    period = _period(wanted.by, until - since)
    ms = PERIODS[period]
    since -= since % ms
    total: Counter[str] = Counter()
    rows: dict[StatsBy, dict[_Key, Counter[str]]] = {by: {} for by in bys}
    for number, series, figures in _stored(client, partitions, period, range(since // ms, (until - 1) // ms + 1)):
        if _is_wanted(series, wanted):
            total.update(figures)
            for by, found in rows.items():
                found.setdefault(_ROW[by](number * ms, series), Counter()).update(figures)
    about: dict[str, Any] = {"since": rfc3339(since), "until": rfc3339(until), "total": StatsFigures(**_figures(total))}
    return [StatsView(**about, by=by, items=tuple(_rows(found, by))) for by, found in rows.items()]


def _period(by: StatsBy, length: int) -> str:
    if by in (StatsBy.HOUR, StatsBy.DAY):
        return by.value
    return "hour" if length <= HOURS_MS else "day"


def _stored(client: Redis, partitions: int, period: str, numbers: range) -> Iterator[tuple[int, _Series, Counter[str]]]:
    """Read what is stored of periods, in all partitions."""
    places = ((number, Partition(p)) for number in numbers for p in range(partitions))
    for some in batches(list(places), READ_AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for number, partition in some:
            pipeline.hgetall(partition.sums(period, number))
        for (number, _), found in zip(some, pipeline.execute(), strict=True):
            for name, text in found.items():
                tenant, _, repo = name.decode().partition(" ")
                yield number, _Series(tenant, repo), _read_figures(text)


def _read_figures(text: bytes) -> Counter[str]:
    """Read the figures of a sum; a newer release may have others, too."""
    pairs = (each.rpartition("=") for each in text.decode().split())
    return Counter({name: int(figure) for name, _, figure in pairs})


def _is_wanted(series: _Series, wanted: Wanted) -> bool:
    """Whether a sum is among those asked for; a name that has a `*` is stored otherwise than the rest is."""
    if wanted.tenant is not None and series.tenant != list_name(wanted.tenant):
        return False
    if wanted.repo is not None and series.repo != list_name(wanted.repo):
        return False
    return not wanted.repositories or series.repo in map(list_name, wanted.repositories)


_ROW: dict[StatsBy, Callable[[int, _Series], _Key]] = {
    StatsBy.HOUR: lambda at, _: (rfc3339(at), "", ""),
    StatsBy.DAY: lambda at, _: (rfc3339(at), "", ""),
    StatsBy.TENANT: lambda _, series: ("", unquote(series.tenant), ""),
    StatsBy.REPOSITORY: lambda _, series: ("", unquote(series.tenant), unquote(series.repo)),
}


def _rows(rows: dict[_Key, Counter[str]], by: StatsBy) -> Iterator[StatsRow]:
    """Lay the rows out: times in their order, owners by what they spent."""
    order = sorted(rows) if by in (StatsBy.HOUR, StatsBy.DAY) else sorted(rows, key=lambda key: _rank(key, rows[key]))
    for key in order:
        at, tenant, repo = key
        yield StatsRow(at=at or None, tenant=tenant or None, repo=repo or None, **_figures(rows[key]))


def _rank(key: _Key, figures: Counter[str]) -> tuple[int, int, _Key]:
    return -figures[end_sum.COST], -figures[end_sum.TOKENS], key


def _figures(found: Counter[str]) -> dict[str, Any]:
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
