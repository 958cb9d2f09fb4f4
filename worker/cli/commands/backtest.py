"""`planner backtest`: the effect of other rules on past plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.commands.policy import read_policy_file
from worker.cli.console import FAILED, OK, USAGE, Failure, Json, command, say, say_json
from worker.cli.plan_filter import Listed, OfKind, OfTenant, Repo, Rule, Since, State, Until
from worker.cli.recordings import HELP, read_recordings
from worker.render.progress import ProgressLine
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from tasks.base.policy import Policy
    from tasks.record.backtest import Backtested
    from worker.store.plan_lists import PlanFilter

Plans = Annotated[list[str] | None, typer.Argument(metavar="[PLAN|FILE...]", help=HELP)]
Rules = Annotated[
    Path, typer.Option("--policy", metavar="FILE", help="The other rules, as `planner policy apply` takes them.")
]


@command
def backtest(
    policy: Rules,
    plans: Plans = None,
    state: State = None,
    kind: OfKind = None,
    repo: Repo = None,
    tenant: OfTenant = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> int:
    """Show the effect of other rules on past plans: tokens and time saved, successes lost.

    [b]planner backtest --policy strict.toml --since 30d[/b]

    [b]planner backtest --policy strict.toml exports/ --json | jq 'select(.verdict == "ended_earlier")'[/b]

    Each plan is decided again under its own rules and under the others. If the others end it earlier, the result is
    certain up to that point. If they would continue it, no data exists, and the command invents none. Then --json
    prints an object a line: one for each plan, and one with the `sum`. Exit code 1 if a plan cannot be read or decided
    again.
    """
    from rich.text import Text

    from tasks.record.backtest import Tally, Verdict
    from worker.render.backtest import header, lines, row

    wanted = _wanted(plans, state, kind, repo, tenant, rule, since, until)
    (_, rules), tally = read_policy_file(str(policy)), Tally()
    with ProgressLine("plans backtested") as progress:
        for name, found in _backtests(plans or (), wanted, tenant or NO_TENANT, rules):
            if as_json:
                about = {"why": found} if isinstance(found, str) else found.document()
                say_json({"source": name, **about}, line=True)
            elif isinstance(found, str):
                say(f"{name}: not backtested: {found}")
            elif found.verdict is not Verdict.SAME:
                if not tally.changed:
                    say(header())
                say(row(found))
            if isinstance(found, str):
                tally.unread += 1
            else:
                tally.add(found)
            progress.step()
    if as_json:
        say_json({"sum": tally.document()}, line=True)
    else:
        say(Text("\n").join(lines(tally)))
    return FAILED if tally.unread else OK


def _wanted(plans: list[str] | None, *options: str | None) -> PlanFilter | None:
    """Return the filter that the options describe; None if plans are named instead.

    Raises Failure if both are given, or neither.
    """
    state, kind, repo, tenant, rule, since, until = options
    chosen = any((state, kind, repo, rule, since, until)) or (tenant and not plans)
    if bool(chosen) == bool(plans):
        detail = (
            "Name plans or exports, or choose plans by --since, --kind, --repo, --state, --tenant, --rule or --until."
        )
        raise Failure.of("several_aims" if plans else "no_aim", detail, USAGE)
    return Listed(state, kind, repo, tenant, rule, since=since, until=until).plans() if chosen else None


def _backtests(
    names: Sequence[str], wanted: PlanFilter | None, tenant: str, policy: Policy
) -> Iterator[tuple[str, Backtested | str]]:
    """Yield each plan with its backtest, one at a time; if a plan fails, a sentence with the reason instead."""
    from tasks.record.backtest import backtest_recorded
    from tasks.record.creation import CannotReplay

    for source, found in read_recordings(names, tenant, wanted):
        try:
            yield source, found if isinstance(found, str) else backtest_recorded(found, policy)
        except CannotReplay as why:
            yield source, f"{why}."
