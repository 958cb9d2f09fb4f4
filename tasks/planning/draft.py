"""What a strategy answers: a draft of a plan, or why there is none (DESIGN.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.planning.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Draft:
    """First steps of a plan, in order, and the document of its kind; not validated yet."""

    steps: tuple[PlannedStep, ...]
    document: Mapping[str, Any] | None = None
    goal: Goal | None = None  # as it was planned, where attacks were taken out of it
    findings: tuple[str, ...] = ()  # the class of each of these


@dataclass(frozen=True, slots=True)
class Rejected:
    """No plan: every error at once, each with a pointer into the goal or the plan."""

    reason: str
    errors: tuple[FieldError, ...]
    goal: Goal | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The goal asks for nothing (seed 000's "None")."""

    reason: str


Answer = Draft | Rejected | NothingToDo


class Strategy(Protocol):
    """How one kind of goal becomes steps."""

    def draft(self, goal: Goal, catalogue: Catalogue) -> Answer:
        """Answer `goal` with first steps, or say why there are none. Pure."""
        ...
