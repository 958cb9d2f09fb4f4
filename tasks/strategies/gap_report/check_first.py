"""Handles gaps like "All ... pass": if the failures are not known, a check finds them, and patches repair its findings.

If the check passes, the iteration is over. Otherwise the findings become patches, and the check runs again after them.
There are several rounds, because a controller's report of one run is truncated; the number of rounds is limited. A run
that ended without a result, for example because its controller was lost, is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import StepState
from schemas.kinds.gap_report import MAX_TARGETS, ActionType, IterationPlan
from schemas.step import PlannedStep
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.gap_report.document import Iteration, estimate_risk
from tasks.strategies.gap_report.evidence import mentions, runs_tests
from tasks.strategies.gap_report.places import Places
from tasks.strategies.gap_report.state import free_files, project_in, state_of
from tasks.strategies.gap_report.steps import CHECK_ID, VERIFY_ID, explore_step, make_steps, must_explore
from tasks.strategies.gap_report.suspects import with_suspects
from tasks.text.forbidden_paths import JUDGED
from tasks.toolchain.catalogue import Catalogue

MAX_ROUNDS = 4  # rounds of patches
MAX_FILES = 30  # files of a round
MAX_RUNS = 3  # runs of one check without a result
FINDINGS = frozenset(
    {C.TEST_REGRESSION, C.TEST_TIMEOUT, C.IMPORT_ERROR, C.COMPILATION_ERROR, C.TYPE_ERROR, C.LINT_ERROR}
)

_RUN = re.compile(r"(?P<check>.+?)(?:-run(?P<run>\d))?")  # the names of steps that run a check again


def repair_findings(live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
    """Expand the plan by patches for the findings of a failed check, or by another run if the run had no result.

    Return None if the step is no failed check, or if the limit of rounds or runs is reached.
    """
    state, name = state_of(live), _RUN.fullmatch(end.step_id)
    is_check = name is not None and name["check"] in (CHECK_ID, VERIFY_ID + state.suffix_before)
    if not is_check or end.state != StepState.FAILED or live.document is None:
        return None
    if not 0 < state.checking <= MAX_ROUNDS:
        return None
    plan, allowed = IterationPlan.model_validate(live.document), free_files(live)
    failure = end.failure or {}
    found = _files_in(failure, plan.gap.description, allowed, state.absent)[:MAX_FILES]
    if not _has_findings(failure, found):
        return _run_again(live, end)
    files = found or allowed
    action = plan.actions[0].model_copy(update={"target_files": found, "action_type": ActionType.MODIFY})
    iteration = Iteration(
        plan.model_copy(update={"actions": (action,)}), project_in(live, files, catalogue), files, state
    )
    if must_explore(iteration):
        return _explore(live, end, iteration) if state.checking == 1 else None
    known = tuple(dict.fromkeys((*plan.actions[0].target_files, *found)))[:MAX_TARGETS]
    action = action.model_copy(update={"target_files": known})
    risk = estimate_risk((action,), allowed, failed=state.failed)
    document = plan.model_copy(update={"actions": (action,), "estimated_risk": risk}).model_dump(mode="json")
    kept = state.model_copy(update={"checking": state.checking + 1}).model_dump(mode="json")
    steps = connect_answers(make_steps(iteration))
    return Expansion(kept, document, f"The check found something in {len(files)} files.", steps, replaces=True)


def _has_findings(failure: Mapping[str, Any], found: Sequence[str]) -> bool:
    """Return whether a failed check has findings: by the category of the failure, or by the files that it names."""
    category = failure.get("category")
    return category in FINDINGS or (category == C.UNKNOWN and bool(found))


def _run_again(live: LivePlan, end: End) -> Expansion | None:
    """Expand the plan by the same check again; return None after MAX_RUNS runs."""
    name = _RUN.fullmatch(end.step_id)
    run = int(name["run"] or 1) + 1 if name else MAX_RUNS + 1
    if name is None or run > MAX_RUNS:
        return None
    fields = {"step_id": f"{name['check']}-run{run}", "depends_on": (), "answers_from": ()}
    step = PlannedStep.model_validate(end.facts).model_copy(update=fields)
    why = "The check ended without a result, and is run again."
    return Expansion(live.state, live.document, why, (step,), replaces=True)


def _explore(live: LivePlan, end: End, iteration: Iteration) -> Expansion:
    state = iteration.state.model_copy(update={"failure": dict(end.failure or {})})
    why = "The check failed and named no file that may change."
    step: PlannedStep = explore_step(iteration)
    return Expansion(state.model_dump(mode="json"), live.document, why, (step,), replaces=True)


def _files_in(
    failure: Mapping[str, Any], words: str, allowed: tuple[str, ...], absent: Sequence[str]
) -> tuple[str, ...]:
    """Return the files in a failure that may change; after failing tests also the sources that may have caused it."""
    tests = [f"FAILED {name}" for name in failure.get("failing_tests") or ()]
    text = "\n".join(filter(None, (*tests, failure.get("trace"), failure.get("suggestion"))))
    there, may_change = frozenset(allowed).difference(absent), frozenset(allowed)
    places = Places.of((path for path in allowed if path in there), allowed, JUDGED)
    files = tuple(path for path in places.locate_all(mentions(text, odd=places.odd)) if path in may_change)
    if files and (tests or runs_tests(words)):
        files = with_suspects(files, {}, text, places, MAX_FILES)
    return files
