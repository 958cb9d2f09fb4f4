"""The text of a pull request, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tasks.plan.end_sum import cost_of
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import fit_evidence
from tasks.text.fields import fit, flatten, whole_lines

MAX_LISTED = 50  # changes that the text names
MAX_TEXT = 16_384  # bytes
MAX_LABEL, MAX_LABELS = 50, 5


def describe(unit: UnitOfWork, sentence: str, entries: Sequence[Sequence[Any]]) -> str:
    """Describe the change as Markdown. Words from outside become code, so that they mention and link no person.

    An agent's own words have a separate section, with the files that they name and the change does not have.
    """
    asked = ["~~~text", *(line for line in sentence.splitlines() if not line.lstrip().startswith("~~~")), "~~~"]
    parts = (
        asked,
        _section("Changes", [_change(*entry) for entry in entries]),
        _section("Tests", [*_tests(unit), *_passed(unit)]),
        _section("Effects on tests and checks", list(_integrity(unit))),
        _section("Not verified", [quote(unit.plan.doubt)] if unit.plan.doubt else []),
        _section("Origin", list(_origin(unit, len(entries)))),
        _section("Words of the agents, which nothing verified", [said for each in entries if (said := _said(*each))]),
    )
    return fit("\n\n".join("\n".join(part) for part in parts if part), MAX_TEXT, whole_lines)


def labels_of(unit: UnitOfWork) -> list[str]:
    """Return a label for each kind of accepted integrity finding."""
    kinds = dict.fromkeys(kind for _, action, kind, *_ in unit.plan.integrity.told if action != "refuse")
    return [f"integrity:{kind.lower()}"[:MAX_LABEL] for kind in kinds][:MAX_LABELS]


def _section(name: str, lines: list[str]) -> list[str]:
    more = [f"and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else []
    return [f"**{name}**", "", *(f"- {line}" for line in (*lines[:MAX_LISTED], *more))] if lines else []


def _change(
    step_id: str,
    attempt: int,
    _digest: str | None,
    title: str,
    tools: str,
    _risk: str,
    _created: int | None,
    by: str,
    *_said: object,
) -> str:
    tried = f", attempt {attempt}" if attempt > 1 else ""
    proof = f", verified by {tools}" if tools else ", verified by nothing"
    return f"{quote(title)} ({step_id}{tried}{proof}{f', by {quote(by)}' if by else ''})"


def _said(step_id: str, *about: Any) -> str:
    *_, words, others = about
    if not words:
        return ""
    named = f"; it names {', '.join(map(quote, others))}, which the change does not have" if others else ""
    return f"{step_id}: {quote(words)}{named}"


def _tests(unit: UnitOfWork) -> list[str]:
    """List the goal's failing tests, if the last verification without a doubt saw them pass."""
    if unit.plan.doubt or unit.plan.reproduced.passed or not unit.plan.delivery.checked:
        return []
    return [f"{quote(test)}: red before, green now" for test in unit.plan.head.context.get("failing_tests") or ()]


def _passed(unit: UnitOfWork) -> list[str]:
    return [f"{quote(command)} passed ({step_id})" for step_id, command in unit.plan.delivery.checked]


def _integrity(unit: UnitOfWork) -> Iterator[str]:
    for _, action, kind, path, line, what in unit.plan.integrity.told:
        if action != "refuse":
            yield f"{action}: {kind} at {quote(f'{path}:{line}')}, {quote(what)}" if what else f"{action}: {kind}"


def _origin(unit: UnitOfWork, count: int) -> Iterator[str]:
    """Yield the plan, its cost, and the commands that show them."""
    plan, plan_id, cost = unit.plan, unit.snapshot.plan_id, cost_of(unit.plan)
    changes = f"{count} accepted change{'' if count == 1 else 's'}"
    yield (
        f"{changes} of plan `{plan_id}` for the goal {quote(plan.head.goal_id)} ({plan.head.kind}), "
        f"revision {plan.revision}"
    )
    dollars = f", {cost:.2f} US dollars" if cost is not None else ""
    yield f"cost: {plan.spent['tokens']:,} tokens{dollars}"
    yield f"to see it: `planner show {plan_id}`; to decide it again from its log: `planner replay {plan_id}`"


def quote(words: str) -> str:
    """Return words from outside as inline code, so that they mention and link no person."""
    return f"`{fit_evidence(flatten(words)).replace('`', chr(39))}`"
