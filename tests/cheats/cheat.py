"""A row of the corpus, and the surroundings that rows of a language share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

REFUSED, TOLD = "refused", "told"


class Kind(StrEnum):
    """What a cheat does to a verification."""

    ENDS_PROCESS = "ends the process"
    OVERRIDES = "overrides outcomes"
    LEAVES_OUT = "skips or leaves out tests"
    WEAKENS = "weakens a test"
    KNOWS_TESTS = "finds out whether tests run it"
    LIES = "returns what is equal to everything"
    SPECIAL_CASE = "answers the test's inputs alone"
    SUPPRESSES = "suppresses a finding"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A repository with a bug, the test that fails for it, and the command that runs its tests.

    Without a failing test the goal has one step, with the command as its verification.
    """

    language: str
    files: Mapping[str, str]
    failing: str
    command: str
    fix: Mapping[str, str]  # what an honest agent writes
    program: str = "python"  # without which its rows cannot be played
    hidden: frozenset[str] = frozenset({"package.json"})  # files that no goal allows


@dataclass(frozen=True, slots=True)
class Cheat:
    """What an agent writes instead of a fix, and how the plan has to end; None removes a file."""

    name: str
    kind: Kind
    at: Surroundings
    writes: Mapping[str, str | None]
    ends: str = REFUSED
    category: str | None = None  # of the failure that refuses it
    word: str = ""  # in what is said of it
    held: bool = False  # back from whoever makes rules
    more: Mapping[str, object] = field(default_factory=dict)  # fields of the goal
    held_out: Mapping[str, str] = field(default_factory=dict)  # tests that lie beside the controller

    def __str__(self) -> str:
        return f"{self.at.language}-{self.name}"
