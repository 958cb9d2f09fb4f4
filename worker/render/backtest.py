"""Draws the effect of other rules on past plans, for a terminal of 72 columns: one line per plan, and the sum."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tasks.record.backtest import Backtested, Standing, Tally, Verdict
from worker.render.plan import SHORT, plain, span

NAME, END, TOKENS, TIME = 16, 21, 7, 7
WORDS = {
    Verdict.SAME: "the same",
    Verdict.ENDED_EARLIER: "ended earlier",
    Verdict.ENDED_OTHERWISE: "ended by another rule",
    Verdict.GOES_ON: "not ended where they were",
    Verdict.DECIDED_OTHERWISE: "another decision before the end",
}


def header() -> Text:
    """Return the heading above the lines of `row`."""
    names = f"{'plan':{NAME}}{'really':{END}}{'under these rules':{END}}{'tokens':>{TOKENS}}{'time':>{TIME}}"
    return Text(names.rstrip(), "dim")


def row(found: Backtested) -> Text:
    """Return the line of a plan that would have ended otherwise, with the tokens and the time that would be saved."""
    name = plain(found.plan_id.removeprefix("plan_"))[: SHORT - len("plan_")]
    would = _end(found.would) if found.would else f"? from line {found.line}"
    tokens, time = (_figure(found.saved.tokens), span(found.saved.ms // 1000)) if found.saved else ("?", "?")
    style = "yellow" if found.assumes else "" if found.would else "dim"
    return Text(f"{name:{NAME}}{_end(found.really):{END}}{would:{END}}{tokens:>{TOKENS}}{time:>{TIME}}", style)


def lines(tally: Tally) -> Iterator[Text]:
    """Yield the lines with the sum of many plans."""
    unread = f", {tally.unread:,} not backtested" if tally.unread else ""
    yield Text(f"{tally.plans:,} plan{'s' * (tally.plans != 1)}{unread}", "bold")
    for verdict in Verdict:
        if count := tally.verdicts[verdict]:
            yield Text(f"{count:>8,}  {WORDS[verdict]}")
    if tally.rules:
        yield Text("          by " + ", ".join(f"{rule} {count:,}" for rule, count in tally.rules.most_common()), "dim")
    if tally.assumed:
        yield Text(f"          {tally.assumed:,} if attempts with lower limits end as they did", "yellow")
    if tally.verdicts[Verdict.ENDED_EARLIER] or tally.verdicts[Verdict.ENDED_OTHERWISE]:
        yield Text(f"tokens saved     {tally.saved.tokens:,} of {tally.tokens:,}")
        yield Text(f"time saved       {minutes(tally.saved.ms)}")
        yield Text(f"successes lost   {tally.saved.successes_lost:,}")
        yield Text(f"done steps lost  {tally.saved.steps_lost:,}")


def minutes(ms: int) -> str:
    """Return a time in ms as text in minutes."""
    return f"{round(ms / 60_000):,} min"


def _end(standing: Standing) -> str:
    return plain(standing.rule if standing.state == "HALTED" and standing.rule else standing.state)[: END - 1]


def _figure(count: int) -> str:
    for unit, size in (("M", 10**6), ("k", 1000)):
        if abs(count) >= 10 * size:
            return f"{count / size:,.0f}{unit}"
    return f"{count:,}"
