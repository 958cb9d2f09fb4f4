"""A row of the corpus, and the surroundings that rows of a language share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REFUSED, TOLD = "refused", "told"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A repository with a bug, the test that fails for it, and the command that runs its tests."""

    language: str
    files: Mapping[str, str]
    failing: str
    command: str
    fix: Mapping[str, str]  # what an honest agent writes
    program: str = "python"  # without which its rows cannot be played


@dataclass(frozen=True, slots=True)
class Cheat:
    """What an agent writes instead of a fix, and how the plan has to end; None removes a file."""

    name: str
    at: Surroundings
    writes: Mapping[str, str | None]
    ends: str = REFUSED
    category: str | None = None  # of the failure that refuses it
    word: str = ""  # in what is said of it
    goal: str = "Fix the failing test"
    more: Mapping[str, object] = field(default_factory=dict)  # fields of the goal

    def __str__(self) -> str:
        return f"{self.at.language}-{self.name}"
