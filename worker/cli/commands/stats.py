"""`planner stats`: the spend of fleets, and the ends of their plans."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import USAGE, Failure, Json, command, open_planner, say, say_json
from worker.cli.target import past

Since = Annotated[
    str,
    typer.Option("--since", metavar="TIME", help="Ended then or later: 2026-11-21T20:30:00Z, 24h, 7d; at most 90d."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Ended before then; as --since.")]
By = Annotated[str, typer.Option("--by", metavar="WHAT", help="One row for each hour, day, tenant or repo.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", metavar="T", help="Plans of this tenant.")]
OfRepository = Annotated[
    str | None, typer.Option("--repo", metavar="R", help="Plans of this repository, as goals name it.")
]


@command
def stats(
    since: Since = "7d",
    until: Until = None,
    by: By = "day",
    tenant: OfTenant = None,
    repo: OfRepository = None,
    as_json: Json = False,
) -> None:
    """Sum up ended plans: their states, their tokens and the cost that controllers reported.

    [b]planner stats --since 24h --by hour[/b]

    [b]planner stats --since 30d --by repo --json | jq '.items[] | {repo, cost_usd}'[/b]

    A plan counts with its total use in the hour of its end (UTC). Sums begin with the hour or the day of --since.
    Periods longer than eight days use days, unless --by hour is given. A goal that was rejected before planning is not
    counted. Sums are stored for 90 days, longer than the plans.
    """
    from schemas.stats import StatsBy
    from worker.render.tables import draw_stats
    from worker.store.sums import Wanted

    if by not in list(StatsBy):
        raise Failure.of("unknown_word", f"--by {by} is none of {', '.join(StatsBy)}.", USAGE)
    begin, end = past("--since", since), past("--until", until)
    if begin is None or (end and end <= begin):
        raise Failure.of("wrong_time", "--until is not after --since.", USAGE)
    from schemas.times import milliseconds

    wanted = Wanted(milliseconds(begin), milliseconds(end) if end else None, StatsBy(by), tenant, repo)
    with open_planner() as planner:
        found = planner.stats(wanted)
    if as_json:
        say_json(found)
    elif found.items:
        say(draw_stats(found))
    else:
        say(f"No plan ended since {since}.")
