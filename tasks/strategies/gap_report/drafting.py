"""From a gap report to the plan of one iteration (seed 000, "Planning Logic").

The most critical gap comes first, then the others in their order; those that failed three times in a row come last,
with a warning. The first gap that is left with an action once the protected files are out is the one to close.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from schemas.envelope import FieldError, field_error
from schemas.gap import Gap, GapGoal, IterationPlan, PlannedAction, PlannedGap
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.rules.strategy import Answer, Draft, NothingToDo, Phase, Setting
from tasks.rules.validation import max_steps, rejected
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report import analysis, hazard, steps
from tasks.strategies.gap_report.actions import Aim, Scene, aim_of
from tasks.strategies.gap_report.criteria import criteria
from tasks.strategies.gap_report.documents import Documents
from tasks.strategies.gap_report.evidence import tool_of
from tasks.strategies.gap_report.history import COUNTER, History, Past, field_of, key
from tasks.strategies.gap_report.judging import judged, judges_of
from tasks.strategies.gap_report.places import Places
from tasks.strategies.gap_report.protection import PROTECTED, Protection, Shield
from tasks.strategies.gap_report.rules import Rules
from tasks.strategies.gap_report.verification import test_command
from tasks.text.fields import MAX_GUIDANCE, fit, fit_text
from tasks.text.paths import MAX_GLOB_WORK, expand_globs
from tasks.toolchain.catalogue import Catalogue

MAX_SHOWN = 4000  # characters of a gap's evidence in the document
MAX_LESSON = 300


@dataclass(frozen=True, slots=True)
class Choice:
    """The gap to close, what is to be done about it, and what may not be touched meanwhile."""

    gap: Gap
    past: Past
    failed: bool  # so that it is of high risk
    rules: Rules
    aim: Aim
    protection: Protection
    protected: tuple[str, ...]
    judges: tuple[str, ...] | None  # files of tests; None: all
    passed_over: int


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Answer `goal` with the iteration that closes its most critical gap. Pure."""
    given = goal.gap_report
    if given is None:
        return rejected("missing_gap_report", (field_error("/gap_report", "missing_gap_report", "Send a gap report."),))
    gaps = reported(given)
    if not gaps:
        return NothingToDo("no_gap")
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, untested = test_command(goal, catalogue)
    shield = Shield(Protection.of((*PROTECTED, *given.protected_paths)), allowed.files, setting.forbidden)
    if errors := allowed.errors + untested + _overworked(shield, gaps):
        return rejected("invalid_goal", errors)
    rules = Rules.of(setting.options)
    history = History.of(given.recent_records, setting.recall, rules.max_failures)
    choice = _choose(goal, given, gaps, history, shield, rules)
    if choice is None:
        return NothingToDo("all_protected")
    project = judged(Project.of(goal, allowed.files, test, catalogue), choice.judges)
    return _planned(project, choice, history, setting.now)


def reported(given: GapGoal) -> tuple[Gap, ...]:
    """List the gaps, the most critical first; none where the report says that there is no such gap."""
    report = given.gap_report or analysis.report(map(analysis.of_inbox, given.inbox))
    if "most_critical" in report.model_fields_set and report.most_critical is None:
        return ()
    first = report.most_critical or next(iter(analysis.in_order(report.gaps)), None)
    once: dict[tuple[str, str], Gap] = {}
    for gap in (first, *report.gaps) if first else ():
        once.setdefault(key(gap), gap)
    return tuple(once.values())


def _choose(
    goal: Goal, given: GapGoal, gaps: tuple[Gap, ...], history: History, shield: Shield, rules: Rules
) -> Choice | None:
    places = Places.of((*goal.context.files, *given.project.files), shield.allowed, shield.forbidden)
    documents = Documents.of(goal.context.documents, given.project.documents)
    scene = Scene(places, documents, given.inbox)
    for number, (gap, past) in enumerate(_in_turn(gaps, history)):
        aim = aim_of(gap, scene)
        left = shield.feasible(rules.spared(aim.actions, shield.protection), aim.bounds.excluded)
        if left:
            judges = judges_of(gap, gaps, goal, places)
            out = (*given.protected_paths, *aim.bounds.excluded)
            failed, aim = rules.is_risky(past), replace(aim, actions=left)
            return Choice(gap, past, failed, rules, aim, Protection.of((*PROTECTED, *out)), out, judges, number)
    return None


def _in_turn(gaps: tuple[Gap, ...], history: History) -> Iterator[tuple[Gap, Past]]:
    """Put the gaps that failed too often last."""
    pasts = [(gap, history.of_gap(gap)) for gap in gaps]
    yield from (pair for pair in pasts if not pair[1].exhausted)
    yield from (pair for pair in pasts if pair[1].exhausted)


def _overworked(shield: Shield, gaps: tuple[Gap, ...]) -> tuple[FieldError, ...]:
    if len(shield.protection.globs) * (len(shield.allowed) + len(gaps)) <= MAX_GLOB_WORK:
        return ()
    sentence = "There are too many globs for so many allowed_files and gaps; name folders instead."
    return (field_error("/gap_report/protected_paths", "too_many_globs", sentence),)


def _planned(project: Project, choice: Choice, history: History, now: int) -> Answer:
    iteration = _iteration(project, choice, history.next_number, now)
    exploring = steps.must_explore(iteration)
    pieces = () if exploring else steps.pieces_of(iteration)
    if not exploring and not pieces:
        return rejected("no_allowed_files", (_outside(iteration),))
    made = (steps.explore(iteration),) if exploring else steps.make_steps(iteration, pieces)
    if errors := shortcomings(project.goal, made):
        return rejected("invalid_goal", errors)
    return Draft(
        made,
        iteration.plan.model_dump(mode="json"),
        state=_state(iteration, choice),
        phases=_phases(iteration, choice),
        counted=COUNTER,
        seen=history.counted,
        streak=field_of(choice.gap),
    )


def _iteration(project: Project, choice: Choice, number: int, now: int) -> steps.Iteration:
    gap, past, aim = choice.gap, choice.past, choice.aim
    allowed = choice.protection.without(project.files)
    actions = _warned(aim.actions, past) if past.exhausted else aim.actions
    plan = IterationPlan(
        iteration_id=iteration_id(number, now),
        gap=_kept(gap),
        actions=actions,
        acceptance_criteria=criteria(gap, aim.bounds.lines, tool_of(gap.description)),
        estimated_risk=hazard.of_plan(actions, allowed, failed=choice.failed),
    )
    guidance = _guidance(project.goal, choice)
    return steps.Iteration(plan, project, allowed, guidance, choice.failed, choice.rules.checks)


def iteration_id(number: int, now: int) -> str:
    """Name an iteration by its number and the moment, in UTC, at which it was planned."""
    return f"iter-{number:04d}-{datetime.fromtimestamp(now / 1000, UTC):%Y%m%d-%H%M%S}"


def _warned(actions: tuple[PlannedAction, ...], past: Past) -> tuple[PlannedAction, ...]:
    first = actions[0]
    warning = f"WARNING: this gap failed {past.streak} times in a row; another way is needed. {first.description}"
    return (first.model_copy(update={"description": warning}), *actions[1:])


def _kept(gap: Gap) -> PlannedGap:
    return PlannedGap(
        category=fit(gap.category, 200),
        description=fit_text(gap.description, analysis.MAX_DESCRIPTION),
        priority=gap.priority,
        roadmap_version=fit(gap.roadmap_version, 200),
        evidence=fit_text(gap.evidence, MAX_SHOWN),
    )


def _guidance(goal: Goal, choice: Choice) -> str | None:
    """Tell what went wrong the last time, the constraints, and what the modules say of themselves."""
    lesson = fit(choice.past.lesson, MAX_LESSON)
    told = (
        f"The last attempt failed: {lesson}." if lesson else "",
        *goal.constraints,
        *choice.aim.bounds.lines,
        *(f"{each.path}: {each.gist}" for each in choice.aim.documents if each.gist),
    )
    return fit("; ".join(filter(None, told)), MAX_GUIDANCE) or None


def _state(iteration: steps.Iteration, choice: Choice) -> dict[str, object]:
    language = iteration.project.language
    return {
        "failed": iteration.failed,
        "guidance": iteration.guidance,
        "protected": list(choice.protected),
        "judges": choice.judges,
        "checks": choice.rules.checks,
        "language": language.name if language else None,
    }


def _phases(iteration: steps.Iteration, choice: Choice) -> tuple[Phase, ...]:
    plan, before = iteration.plan, choice.passed_over
    why = f"; {before} passed over, which failed too often or are protected" if before else ""
    chosen = fit(f"{plan.gap.priority} {plan.gap.category}: {plan.gap.description}", 200).rstrip(".")
    done = f"{len(plan.actions)} {'action' if len(plan.actions) == 1 else 'actions'}, risk {plan.estimated_risk}"
    return (Phase("gap", f"{chosen}{why}."), Phase("iteration", f"{plan.iteration_id}: {done}."))


def shortcomings(goal: Goal, made: tuple[PlannedStep, ...], before: int = 0) -> tuple[FieldError, ...]:
    """Say what the goal lacks, in terms of the goal, where the validator could only speak of the steps.

    `before` are the steps that the plan has already.
    """
    if len(made) + before > (limit := max_steps(goal)):
        sentence = f"The files make {len(made)} steps, and the limit is {limit}: raise limits.max_steps or allow fewer."
        return (field_error("/allowed_files", "too_many_files", sentence),)
    if steps.unverified(made):
        sentence = "No verification is known for these files: set context.test_command or context.language."
        return (field_error("/context/test_command", "no_verification", sentence),)
    return ()


def _outside(iteration: steps.Iteration) -> FieldError:
    named = [path for action in iteration.plan.actions for path in action.target_files]
    if not named:
        sentence = "A step that patches needs allowed_files: set them to the files that may change."
    else:
        sentence = f"The gap is about {fit(', '.join(named), 200)}, and allowed_files has none of these: add them."
    return field_error("/allowed_files", "no_allowed_files", sentence)
