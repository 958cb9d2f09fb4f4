"""Runs a verification again on the same tree before an agent is paid for its failing tests: they may be flaky.

This happens once for a step that only verifies, if steps before it patched files. The failure counts for no rule. The
failing tests must be listed in full. None may be a failing test of the goal, or be in a file that the patches changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.sources import sources_of
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.test_ids import file_and_name, is_aimed_at

MENDS = "mends"  # among limits, 0: no red verification leads back to a patch
MOST = 64  # steps of a plan
IN_HEAD = 20  # failing tests of the goal that a plan's head has; there may be more of so many
AGAIN = "run again on the same tree"


def runs_again(unit: UnitOfWork, step: Step, failure: Mapping[str, Any], red: Collection[str], began: int) -> bool:
    """Return whether a step runs again, and store this; its attempt began at `began` (ms).

    `red` are all of its failing tests, empty if not known.

    Raises NeedsSteps if the snapshot lacks a step.
    """
    facts, done = step.facts, unit.plan.reruns.landed
    if facts["mode"] != Mode.TEST or facts["inserted_by"] or not facts["retry_limit"]:
        return False
    if unit.plan.head.limits.get(MENDS) == 0 or failure["category"] != C.TEST_REGRESSION or not red:
        return False
    if step.step_id in done or len(done) >= MOST:
        return False
    own = unit.plan.head.context.get("failing_tests") or ()
    if len(own) >= IN_HEAD or any(is_aimed_at(own, test) for test in red):
        return False
    tightened = unit.plan.head.tightened
    sources = list(sources_of(unit, PlannedStep.model_validate(facts)))
    changed = {path for source in sources for path in source.files(tightened)}
    if not sources or any(file_and_name(test)[0] in changed for test in red):
        return False
    done[step.step_id] = unit.plan.streaks.tree_of(began)
    step.status.previous = dict(failure)
    unit.plan.dirty.add("live")
    return True


def all_red(unit: UnitOfWork, outcome: Outcome) -> Collection[str]:
    """Return the failing tests of an outcome; empty if there may be more, because a tool did not run."""
    contracts = catalogue_of(unit.plan.head.tools).contracts
    known = [(contracts.get(each.tool), each.exit_code) for each in outcome.verify or ()]
    ran = bool(known) and all(contract and code in contract.ran_codes for contract, code in known)
    return outcome.failing_tests if ran and outcome.failing_tests_complete else ()
