"""What a simulated fleet achieved, as tables: by kind and template, and why plans did not come true."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tests.cheats.ended import FILE, read
from tests.cheats.ended import table as detection
from tests.simulation.fleet import Conditions, Result

HEAD = "| kind | template | plans | COMPLETED | true | false | tokens | attempts |\n|---|---|--:|--:|--:|--:|--:|--:|"
SHOWN = 20  # causes of a table


def describe(conditions: Conditions) -> str:
    """Name the conditions by what is not as it should be."""
    said = [f"{name.replace('_', ' ')} {share:g}" for name, share in asdict(conditions).items() if share]
    return ", ".join(said) or "no mistakes"


def table(results: Sequence[Result]) -> str:
    """Lay out one row for each kind and template, and one for all."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for each in results:
        groups[each.kind, each.template].append(each)
    rows = [_row(kind, template, found) for (kind, template), found in sorted(groups.items(), key=_order)]
    return "\n".join([HEAD, *rows, _row("all", "", results)])


def causes(results: Sequence[Result]) -> str:
    """Lay out why plans did not complete, and what is wrong with those that completed and are not true."""
    kinds = {
        "did not complete: rule, and why the last attempt failed": _why,
        "did not complete: rule, last failed step": _halt,
        "completed falsely: why": lambda each: each.why if each.completed and not each.true else "",
        "completed falsely: what is missing": _falsehood,
    }
    return "\n\n".join(
        "\n".join([f"| {title} | plans |", "|---|--:|", *_counted(_count(results, key))])
        for title, key in kinds.items()
    )


def cheats(results: Sequence[Result]) -> str:
    """Lay out what cheats came to, and how they are detected by the file that attempts are drawn from."""
    cheated = [each for each in results if each.cheats]
    done = [each for each in cheated if each.completed]
    rows = (
        ("plans", results, [each for each in results if each.completed]),
        ("plans of whose end nothing is told", results, [each for each in results if each.claimed]),
        ("plans of which an attempt cheated", cheated, done),
        (
            "plans of which an attempt cheated, and of whose end nothing is told",
            cheated,
            [each for each in done if each.claimed],
        ),
    )
    head = "| cheating agents | plans | COMPLETED | true of COMPLETED |\n|---|--:|--:|--:|"
    lines = [f"| {name} | {len(of)} | {len(found)} | {_share_of_true(found)} |" for name, of, found in rows]
    attempts = sum(each.cheats for each in results)
    title = f"{attempts} attempts cheated, as these did ({FILE}):"
    return "\n".join([head, *lines, "", title, "", detection(read())])


def _share_of_true(results: Sequence[Result]) -> str:
    return f"{100 * sum(each.true for each in results) / len(results):.1f} %" if results else "-"


def rules(results: Sequence[Result]) -> dict[str, list[int]]:
    """The plans that each rule ended, by their numbers."""
    return _count(results, lambda each: each.cause)


def as_json(conditions: Conditions, results: Sequence[Result]) -> dict[str, Any]:
    """Everything of one setting, with the numbers of the plans."""
    return {
        "conditions": asdict(conditions),
        "total": _figures(results),
        "halts": rules(results),
        "halts_why": _count(results, _why),
        "halts_at": _count(results, _halt),
        "false": _count(results, _falsehood),
        "plans": [{**asdict(each), "completed": each.completed, "true": each.true} for each in results],
    }


def _order(group: tuple[tuple[str, str], list[Result]]) -> tuple[bool, str, int]:
    (kind, _), found = group
    return kind != "task", kind, found[0].number


def _figures(results: Sequence[Result]) -> dict[str, Any]:
    count = len(results)
    completed, true = sum(each.completed for each in results), sum(each.true for each in results)
    tokens, attempts = sum(each.tokens for each in results), sum(each.attempts for each in results)
    return {"plans": count, "completed": completed, "true": true, "false": completed - true,
            "tokens": round(tokens / count), "attempts": round(attempts / count, 1)}  # fmt: skip


def _row(kind: str, template: str, results: Sequence[Result]) -> str:
    found = _figures(results)
    shares = [f"{100 * found[name] / found['plans']:.0f} %" for name in ("completed", "true", "false")]
    cells = [kind, template, str(found["plans"]), *shares, str(found["tokens"]), str(found["attempts"])]
    return f"| {' | '.join(cells)} |"


def _halt(each: Result) -> str:
    if not each.cause:
        return ""
    at = re.sub(r"\d+", "n", re.sub(r"^do-\w+|^m-\w+", "do-x", each.step))
    return f"{each.cause}, {at or '-'} ({each.kind}, {each.template})"


def _why(each: Result) -> str:
    return f"{each.cause}: {each.why or '-'}" if each.cause else ""


def _falsehood(each: Result) -> str:
    if not each.completed or each.true:
        return ""
    lacks = [f"{name} undone" for name in sorted(set(each.undone))] + (["a test is red"] if each.red else [])
    return f"{', '.join(lacks)} ({each.kind}, {each.template})"


def _count(results: Iterable[Result], key: Callable[[Result], str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for each in results:
        if name := key(each):
            found[name].append(each.number)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _counted(found: dict[str, list[int]]) -> list[str]:
    lines = [f"| {name} | {len(numbers)} |" for name, numbers in list(found.items())[:SHOWN]]
    rest = sum(map(len, list(found.values())[SHOWN:]))
    return [*lines, f"| others | {rest} |"] if rest else lines or ["| none | 0 |"]
