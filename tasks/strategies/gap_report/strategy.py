"""The six functions of a gap report, in the order of its life.

An iteration with unknown files begins with a step that explores. Its answer names places, and only files that the goal
allows count. If none is left, the step is asked again. Then a patch may change all files that the goal allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.kinds.gap_report import MAX_TARGETS, ActionType, Gap, IterationPlan, PassedReason
from schemas.step import PlannedStep
from tasks.rules.permission import expand_allowed
from tasks.rules.strategy import (
    MAX_EXPANSION,
    Answer,
    Draft,
    End,
    Expansion,
    LivePlan,
    NothingToDo,
    Phase,
    Setting,
    Workflow,
)
from tasks.rules.validation import max_steps, reject
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.focus import file_of_test
from tasks.strategies.drafting.project import NO_VERIFICATION, Project, read_test_command
from tasks.strategies.drafting.reproduce import reproduce_first
from tasks.strategies.gap_report.analysis import is_of_tests
from tasks.strategies.gap_report.check_first import repair_findings
from tasks.strategies.gap_report.checks import Checks, checks_named_in, choose_checks, unknown_checks
from tasks.strategies.gap_report.choice import Choice, Rules, choose, gaps_in
from tasks.strategies.gap_report.constraints import Protection, Shield
from tasks.strategies.gap_report.document import Iteration, estimate_risk, make_iteration
from tasks.strategies.gap_report.evidence import all_failing_tests, tests_named_in
from tasks.strategies.gap_report.history import COUNTER, GapHistory, field_of
from tasks.strategies.gap_report.outside import describe_outside, describe_passed_over
from tasks.strategies.gap_report.pause import NO_ANSWER, ask_first, is_consent
from tasks.strategies.gap_report.places import PROTECTED
from tasks.strategies.gap_report.second_look import look_again, note_failure
from tasks.strategies.gap_report.state import free_files, project_in, state_of
from tasks.strategies.gap_report.steps import (
    CHECK_ID,
    EXPLORE_ID,
    VERIFY_ID,
    check_step,
    explore_step,
    is_about_tests,
    lacks_verification,
    make_steps,
    must_explore,
)
from tasks.strategies.gap_report.verification import aim_tests
from tasks.text.fields import fit
from tasks.text.paths import is_glob
from tasks.text.patterns import MAX_GLOB_WORK
from tasks.text.places import NOTHING_NAMED, listed_in, places_in
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.files import Role, files_of

_WORD = re.compile(r"[\w./@+-]+")
WORKFLOW = Workflow(
    "000",
    "the most critical gap of a project becomes one iteration",
    "gap_report",
    {"iteration": (EXPLORE_ID, "action", VERIFY_ID), "all pass": (CHECK_ID, "action", VERIFY_ID)},
)
MAX_LISTED = 1000  # files in the choice of an exploration


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Return the answer to `goal`: a plan for its most critical gap, a rejection, or nothing to do. Pure."""
    given = goal.gap_report
    if given is None:
        return reject("missing_gap_report", (field_error("/gap_report", "missing_gap_report", "Send a gap report."),))
    gaps = gaps_in(given)
    if not gaps:
        return NothingToDo("no_gap")
    allowed = expand_allowed(goal.allowed_files, goal.context.files, setting.forbidden)
    test, unknown = read_test_command(goal, catalogue.match)
    globs = tuple(filter(is_glob, goal.allowed_files))
    shield = Shield(Protection.of((*PROTECTED, *given.protected_paths)), allowed.files, setting.forbidden, globs)
    unlisted = frozenset(given.project.files).difference(goal.context.files)
    if (
        errors := allowed.errors
        + unknown
        + unknown_checks(given.checks, catalogue)
        + _overworked(shield, gaps, unlisted)
    ):
        return reject("invalid_goal", errors)
    rules = Rules.of(setting.options)
    history = GapHistory.of(given.recent_records, setting.history, rules.max_failures)
    choice = choose(goal, given, gaps, history, shield, rules)
    if not isinstance(choice, Choice):
        outside = next((each for each in choice if each.reason is PassedReason.OUTSIDE), None)
        if outside is None:
            return NothingToDo("all_protected")
        return reject("no_allowed_files", (_outside(outside.files, goal.allowed_files),))
    files = tuple(dict.fromkeys((*allowed.files, *choice.reached)))
    project = aim_tests(Project.of(goal, files, test, catalogue), choice.judges)
    checks = choose_checks(project, given.checks, rules.checks)
    planned = _plan(project, choice, checks, history, setting.now)
    return ask_first(planned, goal, files, history, rules.pause_after) if isinstance(planned, Draft) else planned


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the gap with its evidence, the criteria and, for an exploration, the files that may change.

    All words come from the sanitized document. The intent of a step spec has space for one sentence only, and evidence
    may be pages long.
    """
    document = live.document
    if document is None:
        return None
    material = {name: document[name] for name in ("iteration_id", "gap", "acceptance_criteria")}
    if facts.get("step_id") == EXPLORE_ID:
        material["files"] = list(free_files(live)[:MAX_LISTED])
        if failure := state_of(live).failure:
            material["failure"] = failure
    return material


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Return a sentence if an exploring step names no file that may change; None if the answer counts.

    A step that looks for a cause may also list other files.
    """
    if facts.get("step_id") != EXPLORE_ID or _found(live, output) or (state_of(live).tried and listed_in(output)):
        return None
    return NOTHING_NAMED


def advance(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Expand the plan by patches of the files that an exploring step or a failed check found.

    If an exploration is skipped or names no file, a patch may change all allowed files.
    """
    if end.step_id != EXPLORE_ID:
        return note_failure(live, end) or _within_limits(live, repair_findings(live, end, catalogue))
    if end.state not in {"DONE", "SKIPPED"} or live.document is None:
        return None
    plan, state = IterationPlan.model_validate(live.document), state_of(live)
    found = _found(live, end.output) if end.state == "DONE" else ()
    if not found and state.tried and end.state == "DONE":
        named = ", ".join(sorted({path for path, *_ in places_in(end.output)} if listed_in(end.output) else ()))
        about = f": {fit(named, 200)}" if named else ""
        return _unfit(live, "no_allowed_files", f"None of the files that were found may be changed{about}.")
    if len(found) > MAX_TARGETS:
        return _unfit(live, "too_many_files", f"{len(found)} files are too many for one iteration.")
    files = found or free_files(live)
    target = {"target_files": found, "action_type": ActionType.MODIFY}
    actions = tuple(
        each if each.target_files and not state.tried else each.model_copy(update=target) for each in plan.actions
    )
    risk = estimate_risk(actions, files, failed=state.failed)
    plan = plan.model_copy(update={"actions": actions, "estimated_risk": risk})
    told = (EXPLORE_ID,) if end.state == "DONE" else ()
    made = make_steps(Iteration(plan, project_in(live, files, catalogue), files, state))
    steps = connect_answers(made, told)
    if errors := _shortcomings(live.goal, steps, before=max(live.steps, 1)):
        return _unfit(live, errors[0].code, errors[0].message)
    if len(steps) > MAX_EXPANSION:
        return _unfit(live, "too_many_files", f"{len(files)} files are too many for one iteration.")
    why = f"{len(files)} {'file' if len(files) == 1 else 'files'} {'to' if found else 'may'} change."
    kept = state.model_copy(update={"checking": state.checking + 1}).model_dump(mode="json") if state.checking else {}
    return Expansion(kept, plan.model_dump(mode="json"), why, steps)


def answer(live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
    """Begin the iteration that waited for a person's consent; there is no other question."""
    state = state_of(live)
    if live.document is None or not state.paused:
        return "This plan has asked nothing."
    if not is_consent(value):
        return NO_ANSWER
    files = free_files(live)
    plan = IterationPlan.model_validate(live.document)
    state = state.model_copy(update={"paused": False})
    steps = _first_steps(Iteration(plan, project_in(live, files, catalogue), files, state))
    return Expansion(state.model_dump(mode="json"), live.document, "A person lets the iteration begin.", steps)


def stuck(live: LivePlan, catalogue: Catalogue) -> Expansion | None:
    """Expand the plan by one look for the cause of its failure; None after that, and the failed iteration ends."""
    return look_again(live, catalogue)


def _overworked(shield: Shield, gaps: tuple[Gap, ...], known: Collection[str]) -> tuple[FieldError, ...]:
    """Return an error if the globs of the goal need too many comparisons with files and gaps; empty if not."""
    if len(shield.protection.globs) * (len(shield.allowed) + len(gaps)) > MAX_GLOB_WORK:
        sentence = "There are too many globs for so many allowed_files and gaps; name folders instead."
        return (field_error("/gap_report/protected_paths", "too_many_globs", sentence),)
    if len(shield.globs) <= 1:
        return ()
    words = {word for gap in gaps for word in _WORD.findall(f"{gap.description}\n{gap.evidence}")}
    paths = {word for word in words if "/" in word or "." in word[:-1]}
    if len(shield.globs) * len(paths.union(known).difference(shield.allowed)) <= MAX_GLOB_WORK:
        return ()
    sentence = "There are too many globs for so many files that the gaps name; allow fewer, or name the files."
    return (field_error("/allowed_files", "too_many_globs", sentence),)


def _plan(project: Project, choice: Choice, checks: Checks, history: GapHistory, now: int) -> Answer:
    if choice.remedy.is_checked_first:
        checks = checks_named_in(choice.gap.description, checks, project.catalogue)
    if is_of_tests(choice.gap) and (failing := all_failing_tests(choice.gap.evidence)):
        project = _failing(project, (*project.goal.context.failing_tests, *failing))
    iteration = make_iteration(project, choice, checks, history.next_number, now)
    if iteration.state.checking and check_step(iteration) is None:
        iteration = replace(iteration, state=iteration.state.model_copy(update={"checking": 0}))
    steps = _first_steps(iteration)
    if errors := _shortcomings(project.goal, steps):
        return reject("invalid_goal", errors)
    return Draft(
        steps,
        iteration.plan.model_dump(mode="json"),
        state=iteration.state.model_dump(mode="json"),
        phases=_phases(iteration),
        counted=COUNTER,
        seen=history.counted,
        streak=field_of(choice.gap),
        goal=project.goal,
    )


def _first_steps(iteration: Iteration) -> tuple[PlannedStep, ...]:
    if iteration.state.checking and (check := check_step(iteration)):
        return (check,)
    steps = (explore_step(iteration),) if must_explore(iteration) else connect_answers(make_steps(iteration))
    return reproduce_first(_with_gaps_tests(iteration), steps)


def _with_gaps_tests(iteration: Iteration) -> Project:
    """Return the project with only the failing tests that the gap is about; without any if it is about others."""
    project, gap = iteration.project, iteration.plan.gap
    tests: tuple[str, ...] = ()
    if is_about_tests(iteration):
        named = tests_named_in(gap.evidence)
        files = files_of((path for action in iteration.plan.actions for path in action.target_files), Role.TEST)
        told = (test for test in project.goal.context.failing_tests if file_of_test(test) in gap.evidence)
        tests = tuple(told) or named or files
    return _failing(project, tests)


def _failing(project: Project, tests: Iterable[str]) -> Project:
    """Return the project with `tests` as its failing tests."""
    context = project.goal.context.model_copy(update={"failing_tests": tuple(dict.fromkeys(tests))})
    return replace(project, goal=project.goal.model_copy(update={"context": context}))


def _phases(iteration: Iteration) -> tuple[Phase, ...]:
    plan = iteration.plan
    told = describe_passed_over(plan.passed_over)
    why = f"; {told}" if told else ""
    chosen = fit(f"{plan.gap.priority} {plan.gap.category}: {plan.gap.description}", 200).rstrip(".")
    done = f"{len(plan.actions)} {'action' if len(plan.actions) == 1 else 'actions'}, risk {plan.estimated_risk}"
    outside = describe_outside(plan.model_dump(mode="json")) if plan.outside else None
    return (
        Phase("gap", f"{chosen}{why}."),
        Phase("iteration", f"{plan.iteration_id}: {done}."),
        *([Phase("outside", outside)] if outside else []),
    )


def _outside(named: Sequence[str], allowed: Sequence[str]) -> FieldError:
    about = fit(", ".join(named), 200)
    if allowed and named:
        sentence = f"The gap is about {about}, and allowed_files has none of these: add them."
    else:
        sentence = "A step that patches needs allowed_files: set them to the files that may change."
        if named:
            tested = "; where tests fail, allow the sources that they test" if files_of(named, Role.TEST) else ""
            sentence = f"{sentence} The gap is about {about}{tested}."
    return field_error("/allowed_files", "no_allowed_files", sentence)


def _shortcomings(goal: Goal, steps: tuple[PlannedStep, ...], before: int = 0) -> tuple[FieldError, ...]:
    """Return an error that names a field of the goal if steps are too many or lack a verification; else nothing.

    `before` is the number of steps that the plan already has.
    """
    if len(steps) + before > (limit := max_steps(goal)):
        besides = f" in addition to the {before} of the plan" if before > 1 else ""
        made = f"The files make {len(steps)} steps{besides}, and the limit is {limit}"
        sentence = f"{made}: raise limits.max_steps or allow fewer."
        return (field_error("/allowed_files", "too_many_files", sentence),)
    if lacks_verification(steps):
        return (field_error("/context/test_command", "no_verification", NO_VERIFICATION),)
    return ()


def _within_limits(live: LivePlan, found: Expansion | None) -> Expansion | None:
    """Return the expansion, or one that halts the plan if the goal's limits do not permit its steps."""
    errors = _shortcomings(live.goal, found.steps, before=live.steps) if found else ()
    return _unfit(live, errors[0].code, errors[0].message) if errors else found


def _unfit(live: LivePlan, code: str, message: str) -> Expansion:
    error = {"pointer": "/allowed_files", "code": code, "message": message}
    return Expansion(live.state, live.document, message, halt=("plan_unfit", message, {"errors": [error]}))


def _found(live: LivePlan, output: Any) -> tuple[str, ...]:
    """Return the files that an answer names and that may change."""
    named = {path for path, *_ in places_in(output)}
    return tuple(path for path in free_files(live) if path in named)
