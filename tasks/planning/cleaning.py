"""A goal's own words made fit for steps, lists and logs before anything is planned.

A goal may come from a webhook, so its text is as untrusted as a log. Attacks in it are taken out and told; attacks in
the steps that somebody supplies are errors of those steps, which the validator tells. What is not used is not scanned:
failure logs only choose among templates, and documents are for drafters, who sanitise what they put into a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.planning.text import one_line
from tasks.policy.sanitize import TOKEN, sanitize

MAX_FINDINGS = 100  # told of one goal
MAX_TEXT = 4096  # a goal's sentence; normalising may make it longer
MAX_LINE, MAX_CONSTRAINTS = 1000, 100  # a goal's other texts, likewise


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The goal to plan, and the class of each attack that was taken out of it."""

    goal: Goal
    findings: tuple[str, ...] = ()

    @property
    def error(self) -> FieldError | None:
        """Why the goal cannot be planned, where its sentence was an attack and nothing else."""
        if re.search(r"\w", self.goal.goal.replace(TOKEN, "")):
            return None
        message = "Nothing is left of the goal once what reads like an attack on the agent is taken out."
        return FieldError(pointer="/goal", code="empty_after_sanitizing", message=message)


def cleaned(goal: Goal) -> Cleaned:
    """Sanitise what of `goal` reaches a step, a list or a log; the same goal where there is nothing to do."""
    findings: list[str] = []

    def strip(text: str) -> str:
        found = sanitize(text)
        flat = sanitize(one_line(found.text, len(found.text)))  # as a step's field will hold it
        findings.extend(attack.kind.value for attack in (*found.findings, *flat.findings))
        return flat.text if flat.findings else found.text

    def strip_line(text: str) -> str:
        return strip(text)[:MAX_LINE]

    context = goal.context
    constraints = _together(tuple(map(strip_line, goal.constraints)), strip)
    words: dict[str, Any] = _changed(goal, {"goal": strip(goal.goal)[:MAX_TEXT], "constraints": constraints})
    told = _changed(context, {"failing_tests": tuple(map(strip_line, context.failing_tests))})
    if told:
        words["context"] = context.model_copy(update=told)
    return Cleaned(goal.model_copy(update=words) if words else goal, tuple(findings[:MAX_FINDINGS]))


def _together(lines: tuple[str, ...], strip: Callable[[str], str]) -> tuple[str, ...]:
    """Keep the lines, or one text without the attack that they make when read one after the other."""
    joined = "; ".join(lines)
    text = strip(joined)
    if text == joined:
        return lines
    return tuple(text[start : start + MAX_LINE] for start in range(0, len(text), MAX_LINE))[:MAX_CONSTRAINTS]


def _changed(model: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != getattr(model, name)}
