"""What a run with habits comes to, as a table: one row for each choice of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import mean, stdev
from typing import Any

from tests.simulation.fleet import Result
from tests.simulation.habits.course import Played

HEAD = (
    "| parts | goals | COMPLETED | true | unclean | attempts | tokens | minutes | drafter asked |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)
RELATIONS = ("new", "nearly", "again")


def figures(played: Sequence[Played]) -> dict[str, Any]:
    """Sum up: shares of the goals in percent, attempts, tokens and minutes a goal, and calls of drafters in all."""
    results, count = [each.result for each in played], max(1, len(played))
    return {
        "goals": len(played),
        "completed": round(100 * sum(each.completed for each in results) / count, 1),
        "true": round(100 * sum(each.true for each in results) / count, 1),
        "unclean": round(100 * sum(map(_is_unclean, results)) / count, 1),
        "attempts": round(sum(each.attempts for each in results) / count, 2),
        "tokens": round(sum(each.tokens for each in results) / count),
        "minutes": round(sum(each.seconds for each in results) / count / 60, 1),
        "asked": sum(each.asked for each in played),
    }


def row(name: str, played: Sequence[Played]) -> str:
    """Lay out one row."""
    found = figures(played)
    shares = [f"{found[each]:.1f} %" for each in ("completed", "true", "unclean")]
    cells = [
        name,
        found["goals"],
        *shares,
        f"{found['attempts']:.2f}",
        found["tokens"],
        found["minutes"],
        found["asked"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _is_unclean(result: Result) -> bool:
    """Whether a plan completed with mistakes that a tool of the project would see."""
    return result.completed and bool(result.unclean)


MEASURES: tuple[Callable[[Result], float], ...] = (
    lambda result: 100 * result.completed,
    lambda result: 100 * result.true,
    lambda result: 100 * _is_unclean(result),
    lambda result: result.attempts,
    lambda result: result.tokens,
    lambda result: result.seconds / 60,
)  # in the order of the columns


def difference(name: str, before: Sequence[Played], after: Sequence[Played]) -> str:
    """Lay out what changed, each figure with its standard error: goal by goal, since both runs had the same goals."""
    pairs = [(one.result, other.result) for one, other in zip(before, after, strict=True)]
    found = ([measure(other) - measure(one) for one, other in pairs] for measure in MEASURES)
    cells = [f"{mean(each):+.2f} ± {stdev(each) / len(each) ** 0.5:.2f}" for each in found]
    asked = sum(each.asked for each in after) - sum(each.asked for each in before)
    return f"| {' | '.join([name, str(len(pairs)), *cells, f'{asked:+}'])} |"


def table(runs: Mapping[str, Sequence[Played]]) -> str:
    """Lay out the runs by their parts, first of all goals, then of those that were new, nearly known and known.

    Behind the runs of all goals stands how each differs from the first.
    """
    rows = [row(name, played) for name, played in runs.items()]
    (first, before), *others = runs.items()
    rows += [difference(f"{name} - {first}", before, after) for name, after in others if len(before) > 1]
    for relation in RELATIONS:
        for name, played in runs.items():
            rows.append(row(f"{name}: {relation}", [each for each in played if each.incoming.relation == relation]))
    return "\n".join([HEAD, *rows])


def by_template(played: Sequence[Played]) -> str:
    """Lay out a run by the templates of its goals."""
    names = dict.fromkeys(sorted(each.incoming.mission.template for each in played))
    rows = [row(name, [each for each in played if each.incoming.mission.template == name]) for name in names]
    return "\n".join([HEAD, *rows])


def as_json(name: str, played: Sequence[Played]) -> dict[str, Any]:
    """Everything of one run."""
    plans = [
        {**asdict(each.result), "asked": each.asked, "repository": each.incoming.habits.name,
         "relation": each.incoming.relation, "completed": each.result.completed, "true": each.result.true}
        for each in played
    ]  # fmt: skip
    return {"parts": name, "total": figures(played), "plans": plans}
