"""The regression firewall: which changes failed their verification, so that no attempt is made in vain once more.

A change is known by its digest (`diff_hash`), and has failed under one verification on one tree. The plan remembers
those of its own tree, tells each attempt of its verification of them, and leaves those that failed on the goal's base
commit, before anything landed there, to later plans of the tenant and repository that begin at this commit. What is
remembered keeps nothing from being verified: where the change succeeds all the same, it is forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import FailureCategory, Mode
from schemas.outcome import Outcome
from schemas.stored import PlanHead, PlanRecord
from schemas.stored.features import FailedDiffs
from tasks.plan.changeset import KeptChange, kept_name
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.flips import name_verification
from tasks.policy.pipeline import (
    AT_FAILURE,
    AT_SUCCESS,
    LIMITS,
    RECALLS,
    SPEC_FIELDS,
    Feature,
    Recall,
    keeping,
    switched,
)
from tasks.toolchain.classify import OWN

# What is kept of a repository, and in the log what its plans begin with; among limits, 0: nothing is remembered.
FAILED_DIFFS = "failed_diffs"
MOST = 16  # of a plan, the newest
MOST_KEPT = 256  # of a tenant's repository, the newest
KEPT_S = 30 * 86_400  # without another one
_UNTOLD = frozenset({*OWN, FailureCategory.FLAKY_TEST})  # say nothing of the change
_DIGEST = re.compile(r"[\w:.+/=-]{8,128}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")  # a name such as main is another commit tomorrow


class FailedDiff(NamedTuple):
    """A change that failed, by its digest, under a verification, by its name; since `at`, ms."""

    verification: str
    digest: str
    at: int


def name_of(tenant: str, repo: str | None, base_sha: str | None) -> str | None:
    """Name what is kept of changes that failed on commits of a repository; None where nothing is of this base."""
    return kept_name(FAILED_DIFFS, tenant, repo) if base_sha and _COMMIT.fullmatch(base_sha) else None


def read_kept(fields: Mapping[str, bytes], base_sha: str) -> tuple[FailedDiff, ...]:
    """Read what is remembered of the commit `base_sha`: the newest, oldest first; passes over what cannot be read."""
    found: list[FailedDiff] = []
    for name, at in fields.items():
        base, _, rest = name.partition(" ")
        verification, _, digest = rest.partition(" ")
        if base == base_sha and _DIGEST.fullmatch(digest) and at.isdigit():
            found.append(FailedDiff(verification, digest, int(at)))
    return tuple(sorted(found, key=lambda each: (each.at, each))[-MOST:])


def begin(plan: PlanRecord, known: Iterable[Sequence[Any]]) -> None:
    """Give a plan that begins what is remembered of its base; nothing where it does not remember."""
    if _remembers(plan):
        plan.failed_diffs.known = [[*each] for each in known]


def given_to(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """List the changes that an attempt of a step is told of, oldest first."""
    facts, known = step.facts, unit.plan.failed_diffs.known
    if not known or facts["mode"] != Mode.PATCH or not facts["verify_tools"]:
        return None
    name = name_verification(facts)
    told = [digest for verification, digest, _ in known if verification == name]
    return {"failed_diffs": told} if told else None


def note_failure(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any], began: int) -> str:
    """Remember the change of an attempt that failed, and `began` then (ms).

    Returns its digest where the attempt was told of it, and made it again: that is one failure, met again.
    """
    plan, digest = unit.plan, outcome.diff_hash or ""
    if not _is_of_change(plan, step, outcome) or failure["category"] in _UNTOLD:
        return ""
    landed, name = plan.streaks.landed, name_verification(step.facts)
    if began < landed:  # of a tree that is none any more
        return ""
    known = [FailedDiff(*each) for each in plan.failed_diffs.known]
    before = next((each for each in known if each[:2] == (name, digest)), None)
    others = [each for each in known if each is not before]
    told = [*others, FailedDiff(name, digest, before.at if before else unit.snapshot.now)][-MOST:]
    plan.failed_diffs.known = [[*each] for each in told]
    if not landed:
        unit.change.kept.extend(_change(plan.head, name, digest, b"%d" % unit.snapshot.now))
    return digest if before and before.at <= began else ""


def note_success(unit: UnitOfWork, step: Step, outcome: Outcome) -> None:
    """Forget the change of an attempt that succeeded, and with the tree all others where it landed."""
    plan = unit.plan
    known = plan.failed_diffs.known
    if known and outcome.diff_hash and not plan.streaks.landed:
        name, digest = name_verification(step.facts), outcome.diff_hash
        if any(each[:2] == [name, digest] for each in known):
            unit.change.kept.extend(_change(plan.head, name, digest, b""))
    if known and (outcome.touched_files or outcome.created_files):
        plan.failed_diffs.known = []


def _is_of_change(plan: PlanRecord, step: Step, outcome: Outcome) -> bool:
    """Whether an outcome says what the verification of its step said of a change that can be known again."""
    facts, digest = step.facts, outcome.diff_hash
    if not digest or not _DIGEST.fullmatch(digest) or not (outcome.touched_files or outcome.created_files):
        return False
    return facts["mode"] == Mode.PATCH and _is_red(facts, outcome) and _remembers(plan)


def _is_red(facts: Mapping[str, Any], outcome: Outcome) -> bool:
    if outcome.tests_passed is False:
        return bool(facts["verify_tools"])
    codes = {tool["tool"]: tool["pass_codes"] for tool in facts["verify_tools"]}
    return any(each.exit_code not in codes[each.tool] for each in outcome.verify or () if each.tool in codes)


def _remembers(plan: PlanRecord) -> bool:
    return plan.limits.get(FAILED_DIFFS) != 0


def _change(head: PlanHead, verification: str, digest: str, value: bytes) -> Iterable[KeptChange]:
    """Change what is left to later plans, where the base of this one is known."""
    base = head.context.get("base_sha")
    if name := name_of(head.tenant, head.repo, base):
        yield KeptChange(name, f"{base} {verification} {digest}", value, MOST_KEPT, KEPT_S)


FEATURE = Feature(
    "failed_changes",
    (
        LIMITS.row(switched(FAILED_DIFFS)),
        RECALLS.row(
            Recall(
                FAILED_DIFFS,
                FAILED_DIFFS,
                kept_as="kept",
                where=lambda goal: name_of(goal.tenant, goal.context.repo, goal.context.base_sha),
                read=lambda fields, goal, _: read_kept(fields, goal.context.base_sha or ""),
                begin=begin,
                known=lambda plan: plan.failed_diffs.known,
            )
        ),
        AT_SUCCESS.row(note_success),
        AT_FAILURE.row(note_failure),
        SPEC_FIELDS.row(given_to, only=keeping(FailedDiffs)),
    ),
    is_idle=lambda plan: not plan.keeps(FailedDiffs),
)
