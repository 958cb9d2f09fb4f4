"""An iteration and its document: the gap, the actions, the criteria and the risk.

Two criteria always hold, the others are those of the gap. A gap that ever failed is of high risk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from schemas.base import RiskLevel
from schemas.goal import Goal
from schemas.kinds.gap_report import ActionType, EstimatedRisk, Gap, IterationPlan, PlannedAction, PlannedGap
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report import analysis
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.choice import Choice
from tasks.strategies.gap_report.evidence import tool_of
from tasks.strategies.gap_report.history import Past
from tasks.strategies.gap_report.verification import CHECKS
from tasks.text.fields import MAX_GUIDANCE, as_written, fit
from tasks.toolchain.files import Role, role_of

MAX_LESSON = 300

MAX_SHOWN = 4000  # characters of a gap's evidence in the document

ALWAYS = ("All new/modified files pass ruff check", "All new/modified files pass pyright strict")
MAX_CRITERION = 300
MAX_CONSTRAINTS = 20

LOW, MEDIUM, HIGH = EstimatedRisk
DOMAIN = "domain"
LEVEL: Mapping[EstimatedRisk, RiskLevel] = MappingProxyType(dict(zip(EstimatedRisk, RiskLevel, strict=True)))


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration's document, and what its steps are made with."""

    plan: IterationPlan
    project: Project
    allowed: tuple[str, ...]  # the goal's files that are not protected
    guidance: str | None = None
    failed: bool = False
    checks: tuple[str, ...] = CHECKS

    @property
    def goal(self) -> Goal:
        """The goal that it is for."""
        return self.project.goal


def make_iteration(project: Project, choice: Choice, number: int, now: int) -> Iteration:
    """Make the iteration that a choice comes to."""
    gap, past, remedy = choice.gap, choice.past, choice.remedy
    allowed = choice.protection.without(project.files)
    actions = _warned(remedy.actions, past) if past.exhausted else remedy.actions
    plan = IterationPlan(
        iteration_id=iteration_id(number, now),
        gap=_kept(gap),
        actions=actions,
        acceptance_criteria=criteria(gap, remedy.bounds.lines, tool_of(gap.description)),
        estimated_risk=estimate_risk(actions, allowed, failed=choice.failed),
    )
    guidance = _guidance(project.goal, choice)
    return Iteration(plan, project, allowed, guidance, choice.failed, choice.rules.checks)


def _guidance(goal: Goal, choice: Choice) -> str | None:
    """Tell the last failure, the constraints, and what the modules say of themselves."""
    lesson = fit(choice.past.lesson, MAX_LESSON)
    told = (
        f"The last attempt failed: {lesson}." if lesson else "",
        *goal.constraints,
        *choice.remedy.bounds.lines,
        *(f"{each.path}: {each.gist}" for each in choice.remedy.documents if each.gist),
    )
    return fit("; ".join(filter(None, told)), MAX_GUIDANCE) or None


def iteration_id(number: int, now: int) -> str:
    """Name an iteration by its number and its moment, `now` in ms, in UTC."""
    return f"iter-{number:04d}-{datetime.fromtimestamp(now / 1000, UTC):%Y%m%d-%H%M%S}"


def _warned(actions: tuple[PlannedAction, ...], past: Past) -> tuple[PlannedAction, ...]:
    first = actions[0]
    warning = f"WARNING: this gap failed {past.streak} times in a row; another way is needed. {first.description}"
    return (first.model_copy(update={"description": warning}), *actions[1:])


def _kept(gap: Gap) -> PlannedGap:
    return PlannedGap(
        category=fit(gap.category, 200),
        description=fit(gap.description, analysis.MAX_DESCRIPTION, as_written),
        priority=gap.priority,
        roadmap_version=fit(gap.roadmap_version, 200),
        evidence=fit(gap.evidence, MAX_SHOWN, as_written),
    )


def criteria(gap: Gap, constraints: Iterable[str], tool: str) -> tuple[str, ...]:
    """List the acceptance criteria of `gap`; of a quality gap its tool is the judge."""
    lines = [fit(line, MAX_CRITERION) for line in constraints][:MAX_CONSTRAINTS]
    judged = (f"{fit(tool, 80)} reports no failures",) if category_of(gap) == "quality" else ()
    kept = tuple(f"Constraint kept: {line}" for line in lines if line)
    return (*ALWAYS, f"Gap resolved: {fit(gap.description, MAX_CRITERION)}", *judged, *kept)


def estimate_risk(actions: Iterable[PlannedAction], allowed: Iterable[str], *, failed: bool) -> EstimatedRisk:
    """Estimate an iteration by its riskiest file.

    An action that names none may touch whatever is `allowed`.
    """
    found = [HIGH if failed else LOW]
    for action in actions:
        if not action.target_files:
            found += [MEDIUM, *(estimate_file(path, ActionType.MODIFY) for path in allowed)]
        found += [estimate_file(path, action.action_type) for path in action.target_files]
    return max(found, key=tuple(EstimatedRisk).index)


def estimate_file(path: str, action: ActionType) -> EstimatedRisk:
    """Estimate a file: the domain is high, existing sources medium, new files and tests low."""
    is_test = role_of(f"{path}x" if path.endswith("/") else path) is Role.TEST
    if _in_domain(path) and (not is_test or path.startswith(f"{DOMAIN}/")):
        return HIGH
    if action is ActionType.CREATE or (is_test and action is ActionType.MODIFY):
        return LOW
    return MEDIUM


def level_of(path: str, action: ActionType, *, failed: bool) -> RiskLevel:
    """Say the level of a step that touches `path`; documentation cannot break anything."""
    risk = HIGH if failed else estimate_file(path, action)
    return RiskLevel.LOW if risk is MEDIUM and role_of(path) is Role.DOCUMENT else LEVEL[risk]


def _in_domain(path: str) -> bool:
    return DOMAIN in path.casefold().split("/")[:-1]
