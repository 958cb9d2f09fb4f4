"""What a strategy answers: a draft of a plan, or why there is none (DESIGN.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import PlannedStep


@dataclass(frozen=True, slots=True)
class Draft:
    """First steps of a plan, in order, and the document of its kind; not validated yet."""

    steps: tuple[PlannedStep, ...]
    document: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """No plan: every error at once, each with a pointer into the goal or the plan."""

    reason: str
    errors: tuple[FieldError, ...]


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The goal asks for nothing (seed 000's "None")."""

    reason: str


Answer = Draft | Rejected | NothingToDo


class Strategy(Protocol):
    """How one kind of goal becomes steps."""

    def draft(self, goal: Goal) -> Answer:
        """Answer `goal` with first steps, or say why there are none. Pure."""
        ...
