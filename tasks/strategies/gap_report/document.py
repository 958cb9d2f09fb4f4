"""Makes an iteration and its document: the gap, the actions, the criteria and the risk.

Two criteria apply to Python and to an unknown language; the others depend on the gap. A gap that ever failed has high
risk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from schemas.base import RiskLevel
from schemas.kinds.gap_report import ActionType, EstimatedRisk, Gap, IterationPlan, PlannedAction, PlannedGap
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report import analysis
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.checks import Checks, command_of, title_of
from tasks.strategies.gap_report.choice import Choice
from tasks.strategies.gap_report.constraints import Protection
from tasks.strategies.gap_report.evidence import tool_of
from tasks.strategies.gap_report.places import PROTECTED
from tasks.strategies.gap_report.state import IterationState
from tasks.strategies.gap_report.tally import shorten, tell_tally
from tasks.text.fields import MAX_GUIDANCE, as_written, fit
from tasks.toolchain.command_lines import words
from tasks.toolchain.files import Role, role_of

MAX_LESSON = 300
MAX_SHOWN = 4000  # characters of a gap's evidence in the document
PASSING = "All new/modified files pass "
ALWAYS = (f"{PASSING}ruff check", f"{PASSING}pyright strict")
RESOLVED, KEPT = "Gap resolved: ", "Constraint kept: "
NO_FAILURES = " reports no failures"
MAX_CRITERION = 300
MAX_CONSTRAINTS = 20

LOW, MEDIUM, HIGH = EstimatedRisk
DOMAIN = "domain"
LEVEL: Mapping[EstimatedRisk, RiskLevel] = MappingProxyType(dict(zip(EstimatedRisk, RiskLevel, strict=True)))


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration's document, and the data for its steps."""

    plan: IterationPlan
    project: Project
    allowed: tuple[str, ...]  # the goal's files that are not protected
    state: IterationState


def make_iteration(project: Project, choice: Choice, checks: Checks, number: int, now: int) -> Iteration:
    """Return the iteration that closes the chosen gap, with its document, files, project and state."""
    gap, past, remedy = choice.gap, choice.past, choice.remedy
    allowed = Protection.of((*PROTECTED, *choice.protected)).without(project.files)
    actions = remedy.actions
    if past.exhausted:
        warning = f"WARNING: this gap failed {past.streak} times in a row; another way is needed."
        first = actions[0].model_copy(update={"description": f"{warning} {actions[0].description}"})
        actions = (first, *actions[1:])
    plan = IterationPlan(
        iteration_id=iteration_id(number, now),
        gap=PlannedGap(
            category=fit(gap.category, 200),
            description=fit(gap.description, analysis.MAX_DESCRIPTION, as_written),
            priority=gap.priority,
            roadmap_version=fit(gap.roadmap_version, 200),
            evidence=fit(gap.evidence, MAX_SHOWN, shorten),
            tally=tell_tally(gap.evidence, choice.outside) if category_of(gap) == "quality" else "",
        ),
        actions=actions,
        acceptance_criteria=criteria(
            gap,
            remedy.bounds.lines,
            tool_of(gap.description),
            always=project.language is None or project.language.name == "python",
            checked=titles_of(project, checks),
        ),
        estimated_risk=estimate_risk(actions, allowed, failed=choice.failed),
        outside=choice.outside,
        passed_over=choice.passed_over,
        gaps_left=choice.gaps_left,
    )
    lesson = fit(past.lesson, MAX_LESSON)
    guidance = (
        f"The last attempt failed: {lesson}." if lesson else "",
        *project.goal.constraints,
        *remedy.bounds.lines,
        *(f"{each.path}: {each.gist}" for each in remedy.documents if each.gist),
    )
    state = IterationState(
        failed=choice.failed,
        guidance=fit("; ".join(filter(None, guidance)), MAX_GUIDANCE) or None,
        protected=choice.protected,
        judges=choice.judges,
        absent=choice.absent,
        checks=checks.names,
        asked=checks.asked,
        checking=1 if remedy.is_checked_first else 0,
        language=project.language.name if project.language else None,
    )
    return Iteration(plan, project, allowed, state)


def iteration_id(number: int, now: int) -> str:
    """Return the name of an iteration: its number and its time, `now` in ms, in UTC."""
    return f"iter-{number:04d}-{datetime.fromtimestamp(now / 1000, UTC):%Y%m%d-%H%M%S}"


def criteria(
    gap: Gap, constraints: Iterable[str], tool: str, *, always: bool, checked: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the acceptance criteria of `gap`; for a quality gap, its tool has to pass.

    The two criteria for Python are included if `always`. `checked` lists the titles of the checks that have to pass.
    """
    first = ALWAYS if always else ()
    others = (line for title in checked if (line := f"{PASSING}{title}") not in first)
    by_tool = (f"{fit(tool, 80)}{NO_FAILURES}",) if category_of(gap) == "quality" else ()
    lines = [fit(line, MAX_CRITERION) for line in constraints][:MAX_CONSTRAINTS]
    by_constraint = tuple(f"{KEPT}{line}" for line in lines if line)
    return (
        *first,
        *others,
        f"{RESOLVED}{fit(gap.description, MAX_CRITERION)}",
        *by_tool,
        *by_constraint,
    )


def titles_of(project: Project, checks: Checks) -> tuple[str, ...]:
    """Return the titles of the project's build and checks for criteria; without pyright, which Python always has."""
    language, catalogue = project.language, project.catalogue
    is_python = language is None or language.name == "python"
    built = catalogue.recipes[language.build] if language and not is_python else ()
    commands = (*(words(part.command) for part in built), *(command_of(catalogue, name) for name in checks.names))
    titles = dict.fromkeys(title_of(command) for command in commands if command)
    return tuple(title for title in titles if not (is_python and title == "pyright"))


def judge_of(criterion: str) -> str | None:
    """Return the name of the tool that judges a criterion; None if no tool judges it."""
    if criterion in ALWAYS:
        return "ruff" if criterion == ALWAYS[0] else "pyright"
    if criterion.startswith(PASSING):
        return criterion.removeprefix(PASSING)
    if criterion.endswith(NO_FAILURES) and not criterion.startswith((RESOLVED, KEPT)):
        return criterion.removesuffix(NO_FAILURES)
    return None


def estimate_risk(actions: Iterable[PlannedAction], allowed: Iterable[str], *, failed: bool) -> EstimatedRisk:
    """Return the risk of the riskiest file of all actions; HIGH if the gap `failed` before.

    An action without target files counts with all `allowed` files.
    """
    risks = [HIGH if failed else LOW]
    for action in actions:
        if not action.target_files:
            risks += [MEDIUM, *(estimate_file(path, ActionType.MODIFY) for path in allowed)]
        risks += [estimate_file(path, action.action_type) for path in action.target_files]
    return max(risks, key=tuple(EstimatedRisk).index)


def estimate_file(path: str, action: ActionType) -> EstimatedRisk:
    """Return the risk of one file: HIGH in a domain folder, LOW for a new file or a test, else MEDIUM."""
    is_test = role_of(f"{path}x" if path.endswith("/") else path) is Role.TEST
    in_domain = DOMAIN in path.casefold().split("/")[:-1]
    if in_domain and (not is_test or path.startswith(f"{DOMAIN}/")):
        return HIGH
    if action is ActionType.CREATE or (is_test and action is ActionType.MODIFY):
        return LOW
    return MEDIUM


def level_of(path: str, action: ActionType, *, failed: bool) -> RiskLevel:
    """Return the risk level of a step that changes `path`; a document is LOW unless in a domain, or its gap failed."""
    risk = HIGH if failed else estimate_file(path, action)
    return RiskLevel.LOW if risk is MEDIUM and role_of(path) is Role.DOCUMENT else LEVEL[risk]
