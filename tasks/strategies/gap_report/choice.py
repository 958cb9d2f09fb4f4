"""Chooses the gap that an iteration closes, by the rules that an operator has set.

The most critical gap comes first, then the others in their order. A gap that failed three times in a row comes last,
with a warning. The first gap that has an action without protected files is the one to close.

Options of an operator, each with its default first:

- `gap_protected`: `action` leaves out an action that names a protected file. `file` leaves out only the file.

- `gap_high_risk`: `failed` gives high risk to a gap that ever failed. `exhausted` waits for three failures in a row.

- `gap_max_failures`: 3 (1 to 100). After so many failures in a row of one gap another gap comes first.

- `gap_pause_after`: 0 never asks. A number asks a person after so many failed iterations in a row, of any gaps.

- `gap_checks`: the tools that the goal's manifests configure (checks.py). Others are tools such as ruff and mypy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.goal import Goal
from schemas.kinds.gap_report import Gap, GapGoal, PassedGap, PassedReason, PlannedAction
from tasks.strategies.gap_report import analysis
from tasks.strategies.gap_report.actions import Inventory, Remedy, remedy_for
from tasks.strategies.gap_report.constraints import Protection, Shield
from tasks.strategies.gap_report.history import MAX_FAILURES, GapHistory, Past, key
from tasks.strategies.gap_report.places import Documents, Places
from tasks.strategies.gap_report.verification import judges_of
from tasks.text.fields import fit

MAX_PASSED = 20  # reported gaps
MAX_FILES = 20  # reported files of each
MAX_WORDS = 300


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's rules for the choice of gaps."""

    by_file: bool = False
    only_exhausted: bool = False
    checks: tuple[str, ...] | None = None  # ids of contracts, for Python; None: by the goal
    max_failures: int = MAX_FAILURES
    pause_after: int = 0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        """Read the operator's options."""
        by_file, only_exhausted = options.get("gap_protected") == "file", options.get("gap_high_risk") == "exhausted"
        checks, failures = options.get("gap_checks"), int(options.get("gap_max_failures", MAX_FAILURES))
        pause = int(options.get("gap_pause_after", 0))
        return cls(by_file, only_exhausted, None if checks is None else tuple(checks), failures, pause)

    def spare(self, actions: Iterable[PlannedAction], protection: Protection) -> tuple[PlannedAction, ...]:
        """Return the actions without protected files.

        By default an action that names a protected file is left out. With the option `file` only the file is left out.
        """
        free = []
        for action in actions:
            files = protection.without(action.target_files)
            if files == action.target_files:
                free.append(action)
            elif files and self.by_file:
                free.append(action.model_copy(update={"target_files": files}))
        return tuple(free)

    def is_risky(self, past: Past) -> bool:
        """Return whether a gap is of high risk because of its earlier failures."""
        return past.exhausted or (past.failed and not self.only_exhausted)


@dataclass(frozen=True, slots=True)
class Choice:
    """The gap to close, with its history and actions, the files that these may reach, and the gaps passed over."""

    gap: Gap
    past: Past
    failed: bool  # so that it is of high risk
    remedy: Remedy
    protected: tuple[str, ...]  # by the goal and by constraints
    absent: tuple[str, ...]  # sources that the goal allows and that are yet to be made
    judges: tuple[str, ...] | None  # files of tests; None: all
    reached: tuple[str, ...]  # files of the actions that the goal allows
    outside: tuple[str, ...]  # and those that it does not
    passed_over: tuple[PassedGap, ...]
    gaps_left: int


def gaps_in(given: GapGoal) -> tuple[Gap, ...]:
    """Return each gap once, most critical first, without struck ones; empty if the report has no most critical gap."""
    report = given.gap_report or analysis.report(map(analysis.inbox_gap, given.inbox))
    if "most_critical" in report.model_fields_set and report.most_critical is None:
        return ()
    first = report.most_critical or next(iter(analysis.sort_gaps(report.gaps)), None)
    once: dict[tuple[str, str], Gap] = {}
    for gap in (first, *report.gaps) if first else ():
        if analysis.category_of(gap) != "roadmap" or not gap.description or analysis.without_struck(gap.description):
            once.setdefault(key(gap), gap)
    return tuple(once.values())


def choose(
    goal: Goal, given: GapGoal, gaps: tuple[Gap, ...], history: GapHistory, shield: Shield, rules: Rules
) -> Choice | tuple[PassedGap, ...]:
    """Return the choice of the first gap with an action that the goal allows; else all gaps, each with the reason."""
    places = Places.of((*goal.context.files, *given.project.files), shield.allowed, shield.forbidden)
    documents = Documents.of(goal.context.documents, given.project.documents)
    inventory = Inventory(places, documents, given.inbox)
    pasts = [(gap, history.of_gap(gap)) for gap in gaps]
    passed: list[PassedGap] = []
    for gap, past in sorted(pasts, key=lambda pair: pair[1].exhausted):
        remedy = remedy_for(gap, inventory)
        actions = shield.keep_feasible(rules.spare(remedy.actions, shield.protection), remedy.bounds.excluded)
        reached, outside = shield.reach(actions)
        if not actions:
            passed.append(_passed(gap, PassedReason.PROTECTED))
        elif not reached and (not shield.allowed or all(action.target_files for action in actions)):
            passed.append(_passed(gap, PassedReason.OUTSIDE, outside))
        else:
            protected = (*given.protected_paths, *remedy.bounds.excluded)
            return Choice(
                gap,
                past,
                failed=rules.is_risky(past),
                remedy=replace(remedy, actions=actions),
                protected=protected,
                absent=places.absent,
                judges=judges_of(gap, gaps, goal, places),
                reached=reached,
                outside=outside,
                passed_over=(*passed, *_failed_before(gap, pasts))[:MAX_PASSED],
                gaps_left=len(gaps) - 1,
            )
    return tuple(passed)


def _failed_before(chosen: Gap, pasts: Iterable[tuple[Gap, Past]]) -> Iterator[PassedGap]:
    """Yield the gaps that are more critical than the `chosen` gap but come later, because they failed too often."""
    for gap, past in pasts:
        if gap is chosen:
            return
        if past.exhausted:
            yield _passed(gap, PassedReason.FAILED)


def _passed(gap: Gap, reason: PassedReason, files: tuple[str, ...] = ()) -> PassedGap:
    words = fit(gap.category, 200), fit(gap.description, MAX_WORDS)
    return PassedGap(category=words[0], description=words[1], reason=reason, files=files[:MAX_FILES])
