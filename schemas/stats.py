"""The spending of fleets and the ends of their plans: sums of ended plans, by hour, day, tenant or repository."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from schemas.base import Outbound

REST = "*"  # in place of a name: those beyond the capacity of a period


class StatsBy(StrEnum):
    """The subject of each row of `planner stats`."""

    HOUR = "hour"
    DAY = "day"
    TENANT = "tenant"
    REPOSITORY = "repo"


class StatsFigures(Outbound):
    """Sums over ended plans: how many ended in each way, and their usage in their whole time.

    `halted_by` splits `halted` by rule. `cancelled` were ended by the command of this name, `rejected` were never made.
    `steps` are done, `failures` are outcomes that failed. `cost_usd` comes from controllers.
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

    `repo` is null for plans without a repository, and "*" for repositories beyond the capacity of a period.
    """

    at: str | None = None
    tenant: str | None = None
    repo: str | None = None


class StatsView(Outbound):
    """`planner stats --json`: sums of the plans that ended from `since`, the start of an hour or a day, to `until`.

    Hours and days without an ended plan have no row.
    """

    since: str
    until: str
    by: StatsBy
    total: StatsFigures
    items: tuple[StatsRow, ...]
