"""A delivered change as any forge shows it. Texts are data from outside."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from tasks.delivered.lifecycle import Fact

_PLAN = re.compile(r"\n\nPlan: (\S+)\nStep: \S+\nAttempt: \d+\s*\Z")


class Stale(StrEnum):
    """The relation of an open change to its target branch: up to date, behind it, or in conflict with it."""

    NO = "no"
    BEHIND = "behind"
    CONFLICT = "conflict"


class Checks(StrEnum):
    """The result of the checks of the newest commit."""

    NONE = "none"
    RUNNING = "running"
    GREEN = "green"
    RED = "red"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on the branch; `is_rewritten` is true if its committer is not its author."""

    commit: str
    message: str
    is_rewritten: bool = False

    def names(self, plans: frozenset[str]) -> bool:
        """Return whether the commit's message ends with the name of one of the plans."""
        found = _PLAN.search(self.message)
        return bool(found and found[1] in plans)

    def is_of(self, plans: frozenset[str]) -> bool:
        """Return whether one of the plans made this commit, and it was not rewritten since."""
        return self.names(plans) and not self.is_rewritten


@dataclass(frozen=True, slots=True)
class Remark:
    """A thread of a review by people with write access; `at` is the time of their last comment in the thread, ms."""

    thread: str  # the id of the thread, a colon, and the id of that word
    author: str
    text: str
    at: int
    place: str = ""  # path and line


@dataclass(frozen=True, slots=True)
class Failure:
    """The details of red checks; `runs` are ids of runs that can be repeated."""

    names: tuple[str, ...] = ()
    failing_tests: tuple[str, ...] = ()
    log: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenChange:
    """A pull request or a merge request; each time is in ms, and None if its event has not happened."""

    number: int
    head: str
    target: str = ""
    is_draft: bool = False
    closed_at: int | None = None
    merged_at: int | None = None
    merged_as: tuple[str, ...] = ()
    reverted_at: int | None = None
    checks: Checks = Checks.NONE
    failure: Failure = field(default_factory=Failure)
    commits: tuple[Commit, ...] = ()
    remarks: tuple[Remark, ...] = ()
    stale: Stale = Stale.NO

    @property
    def is_open(self) -> bool:
        """Return whether the change is neither merged nor closed."""
        return self.merged_at is None and self.closed_at is None

    @property
    def fact(self) -> Fact:
        """The most serious fact that the forge shows about this change."""
        found = (
            (self.reverted_at is not None, Fact.REVERTED),
            (self.merged_at is not None, Fact.MERGED),
            (self.closed_at is not None, Fact.CLOSED),
            (self.checks is Checks.RED, Fact.RED),
            (bool(self.remarks), Fact.ASKED),
        )
        return next((fact for holds, fact in found if holds), Fact.FINE)

    @property
    def at(self) -> int | None:
        """The time (ms) when the change was reverted, merged or closed; None if the forge shows no such time."""
        return self.reverted_at or self.merged_at or self.closed_at
