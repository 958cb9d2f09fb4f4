"""What fleets spent and what became of their plans: sums of plans that ended, by hour, day, tenant or repository."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from schemas.base import Outbound

REST = "*"  # in the place of a name: those for which a period had no place of their own


class StatsBy(StrEnum):
    """What each row of `planner stats` stands for."""

    HOUR = "hour"
    DAY = "day"
    TENANT = "tenant"
    REPOSITORY = "repo"


class StatsFigures(Outbound):
    """Sums over plans that ended: how many ended how, and what they used in all of their time.

    `halted_by` splits `halted` by rule, `cancelled` were ended by the command of this name, `rejected` were never made.
    `steps` are done, `failures` are outcomes that failed. `cost_usd` is as controllers say.
    """

    completed: int = 0
    halted: int = 0
    cancelled: int = 0
    rejected: int = 0
    halted_by: dict[str, int] = Field(default_factory=dict)
    tokens: int = 0
    cost_usd: float = 0.0
    steps: int = 0
    failures: int = 0


class StatsRow(StatsFigures):
    """The sums of one hour or day that began `at`, or of one tenant or repository.

    `repo` is null for plans without a repository, and "*" for repositories for which there was no room.
    """

    at: str | None = None
    tenant: str | None = None
    repo: str | None = None


class StatsView(Outbound):
    """`planner stats --json`: sums of the plans that ended from `since`, the beginning of an hour or a day, to `until`.

    Hours and days in which no plan ended have no row.
    """

    since: str
    until: str
    by: StatsBy
    total: StatsFigures
    items: tuple[StatsRow, ...]
