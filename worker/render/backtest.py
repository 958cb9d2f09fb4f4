"""What other rules would have done to plans, drawn for a terminal of 72 columns: a line a plan, and the sum."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tasks.record.backtest import Backtested, Basis, Range, Standing, Verdict
from tasks.record.tally import Tally
from worker.render.plan import SHORT, plain, span

NAME, END, TOKENS, TIME = 16, 21, 7, 7
STYLES = {Basis.FACT: "", Basis.ASSUMPTION: "yellow", Basis.UNKNOWN: "dim"}
WORDS = {
    Verdict.SAME: "the same",
    Verdict.ENDED_EARLIER: "ended earlier",
    Verdict.ENDED_OTHERWISE: "ended by another rule",
    Verdict.GOES_ON: "not ended where they were",
    Verdict.DECIDED_OTHERWISE: "another decision before the end",
}
BASES = {
    Basis.FACT: "Facts",
    Basis.ASSUMPTION: "Assumed that attempts with lower limits end as they did",
    Basis.UNKNOWN: "Unknown, within",
}
INDENT = "  "


def header() -> Text:
    """Name the columns of `row`."""
    names = f"{'plan':{NAME}}{'really':{END}}{'under these rules':{END}}{'tokens':>{TOKENS}}{'time':>{TIME}}"
    return Text(names.rstrip(), "dim")


def row(found: Backtested) -> Text:
    """Write a plan that would have come out otherwise; figures are what is saved, and stand where they are known."""
    known = found.would is not None
    name = plain(found.plan_id.removeprefix("plan_"))[: SHORT - len("plan_")]
    would = _end(found.would) if found.would else f"? from line {found.line}"
    saved = f"{_figure(found.tokens_saved.least):>{TOKENS}}" if known else f"{'?':>{TOKENS}}"
    time = f"{_time(found.ms_saved.least):>{TIME}}" if known else f"{'?':>{TIME}}"
    return Text(f"{name:{NAME}}{_end(found.really):{END}}{would:{END}}{saved}{time}", STYLES[found.basis])


def lines(tally: Tally) -> Iterator[Text]:
    """Write the sum of many plans, with what rests on what."""
    yield Text(
        f"{tally.plans:,} plan{'s' * (tally.plans != 1)}"
        + (f", {tally.unread:,} not backtested" if tally.unread else ""),
        "bold",
    )
    for verdict in Verdict:
        if count := tally.count(verdict):
            yield Text(f"{count:>8,}  {WORDS[verdict]}{_bases(tally, verdict)}")
    if tally.rules:
        yield Text("          by " + ", ".join(f"{rule} {count:,}" for rule, count in tally.rules.most_common()), "dim")
    for basis, title in BASES.items():
        if any(tally.verdicts[verdict, basis] for verdict in Verdict if verdict is not Verdict.SAME):
            yield Text("")
            yield Text(f"{title}:", STYLES[basis])
            yield from (Text(INDENT + line) for line in _sums(tally, basis))


def _bases(tally: Tally, verdict: Verdict) -> str:
    assumed = tally.verdicts[verdict, Basis.ASSUMPTION]
    return f" ({assumed:,} by assumption)" if assumed else ""


def _sums(tally: Tally, basis: Basis) -> Iterator[str]:
    sums = tally.sums[basis]
    yield f"tokens saved     {between(sums['tokens_saved'])} of {tally.tokens:,}"
    yield f"time saved       {between(sums['ms_saved'], minutes=True)}"
    yield f"successes lost   {between(sums['successes_lost'])}"
    yield f"done steps lost  {between(sums['steps_lost'])}"


def between(found: Range, *, minutes: bool = False) -> str:
    """Write the least and the most that a figure can be, once where they are the same."""
    least, most = (None if each is None else round(each / 60_000) if minutes else each for each in found)
    unit = " min" if minutes else ""
    if least is None:
        return "no bound" if most is None else f"at most {most:,}{unit}"
    if most is None:
        return f"at least {least:,}{unit}"
    return f"{least:,}{unit}" if least == most else f"{least:,} to {most:,}{unit}"


def _end(standing: Standing) -> str:
    return plain(standing.rule if standing.state == "HALTED" and standing.rule else standing.state)[: END - 1]


def _figure(count: int | None) -> str:
    if count is None:
        return "?"
    for unit, size in (("M", 10**6), ("k", 1000)):
        if abs(count) >= 10 * size:
            return f"{count / size:,.0f}{unit}"
    return f"{count:,}"


def _time(ms: int | None) -> str:
    return "?" if ms is None else span(ms // 1000)
