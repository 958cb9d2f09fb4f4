"""The strategy state of an iteration until its files are known.

The stored goal lacks texts that only a draft reads, so the state keeps the facts that later steps need.
"""

from __future__ import annotations

from typing import Any

from schemas.base import Record
from tasks.rules.permission import expand_allowed
from tasks.rules.strategy import LivePlan
from tasks.strategies.drafting.project import Project, read_test_command
from tasks.strategies.gap_report.checks import CHECKS, Checks
from tasks.strategies.gap_report.constraints import Protection
from tasks.strategies.gap_report.places import PROTECTED
from tasks.strategies.gap_report.verification import aim_tests
from tasks.text.forbidden_paths import JUDGED
from tasks.toolchain.catalogue import Catalogue


class IterationState(Record):
    """The state of an iteration; it is empty after the explored files are patched."""

    failed: bool = False  # its gap did before, so that it is of high risk
    guidance: str | None = None
    protected: tuple[str, ...] = ()  # by the goal and by constraints
    judges: tuple[str, ...] | None = None  # files of tests; None: all
    absent: tuple[str, ...] = ()  # sources that may be created, if the goal has a listing
    checks: tuple[str, ...] = CHECKS  # names, see `checks.command_of`
    asked: tuple[str, ...] = ()  # those of them that the goal names
    tried: tuple[str, ...] = ()  # files that were patched in vain, once the cause is looked for elsewhere
    failure: dict[str, Any] | None = None  # what failed for good
    paused: bool = False  # a person has to let it begin
    checking: int = 0  # the next round of patches, if a check finds the failures; 0: none does
    language: str | None = None  # the listing that it follows from is not kept

    @property
    def suffix(self) -> str:
        """The end of the ids of new steps in this round, so that no two steps of a plan have the same id."""
        number = self.checking or (2 if self.tried else 1)
        return f"-r{number}" if number > 1 else ""

    @property
    def suffix_before(self) -> str:
        """The end of the ids of the steps of the round before."""
        return self.model_copy(update={"checking": max(self.checking - 1, 1)}).suffix

    @property
    def all_checks(self) -> Checks:
        """All checks of the iteration, with the checks that the goal names."""
        return Checks(self.checks, self.asked)


def state_of(live: LivePlan) -> IterationState:
    """Read the state of a plan."""
    return IterationState.model_validate(live.state)


def free_files(live: LivePlan) -> tuple[str, ...]:
    """Return the files that the goal allows and that nothing protects: no goal, no constraint, no planner rule."""
    protection = Protection.of((*PROTECTED, *state_of(live).protected))
    files = expand_allowed(live.goal.allowed_files, live.goal.context.files, JUDGED).files
    return protection.without(files)


def project_in(live: LivePlan, files: tuple[str, ...], catalogue: Catalogue) -> Project:
    """Return the project as the draft of the plan read it, for these files; an unknown test command is ignored."""
    state, context = state_of(live), live.goal.context
    context = context.model_copy(update={"language": state.language or context.language})
    goal = live.goal.model_copy(update={"context": context})
    test, _ = read_test_command(goal, catalogue.match)
    return aim_tests(Project.of(goal, files, test, catalogue), state.judges)
