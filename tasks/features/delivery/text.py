"""The text of a pull request: what is delivered, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import fit_evidence
from tasks.text.fields import fit, flatten, whole_lines

MAX_LISTED = 50  # changes that the text names
MAX_TEXT = 16_384  # bytes


def describe(unit: UnitOfWork, sentence: str, entries: Sequence[Sequence[Any]]) -> str:
    """Explain what is delivered, as Markdown. Words from outside stand in code, where they name and link nobody."""
    plan = unit.plan
    lines = [
        f"- {action}: {kind} at {quote(f'{path}:{line}')}, {quote(what)}" if what else f"- {action}: {kind}"
        for _, action, kind, path, line, what in plan.integrity.told
        if action != "refuse"
    ]
    lines = ["What changes did to tests and checks:", "", *lines, ""] if lines else []
    lines += ["~~~text", *(line for line in sentence.splitlines() if not line.lstrip().startswith("~~~")), "~~~", ""]
    for step_id, attempt, _, title, tools, *_ in entries[:MAX_LISTED]:
        tried = f", attempt {attempt}" if attempt > 1 else ""
        proof = f", verified by {tools}" if tools else ""
        lines.append(f"- {quote(title)} ({step_id}{tried}{proof})")
    if len(entries) > MAX_LISTED:
        lines.append(f"- and {len(entries) - MAX_LISTED} more")
    if checks := plan.delivery.checked:
        lines += ["", "Passed:", "", *(f"- {quote(command)} ({step_id})" for step_id, command in checks)]
    goal, count = f"the goal {quote(plan.head.goal_id)} ({plan.head.kind})", len(entries)
    changes = f"{count} accepted change{'' if count == 1 else 's'}"
    lines += ["", f"{changes} of plan `{unit.snapshot.plan_id}` for {goal}, revision {plan.revision}."]
    return fit("\n".join(lines), MAX_TEXT, whole_lines)


def quote(words: str) -> str:
    """Put words from outside into code, where they name and link nobody."""
    return f"`{fit_evidence(flatten(words)).replace('`', chr(39))}`"
