"""The regression firewall: remembers changes that failed their verification, so that no attempt repeats them.

A change has a digest (`diff_hash`), and failed under one verification on one tree. The plan remembers the failed
changes of its present tree, and reports them to each attempt with that verification. Those that failed on the goal's
base commit, before any change landed there, go to later plans of the tenant and repository with this base. A remembered
change is still verified, and is forgotten if it succeeds.
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

# Name of the kept values of a repository, and key in the log of a plan's creation. Among limits, 0: the feature is off.
FAILED_DIFFS = "failed_diffs"
MOST = 16  # of a plan, the newest
MOST_KEPT = 256  # of a tenant's repository, the newest
KEPT_S = 30 * 86_400  # without another one
_UNTOLD = frozenset({*OWN, FailureCategory.FLAKY_TEST})  # these prove nothing about the change
_DIGEST = re.compile(r"[\w:.+/=-]{8,128}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")  # a name such as main is another commit tomorrow


class FailedDiff(NamedTuple):
    """A change that failed: the name of the verification, the change's digest, and the first time `at` (ms)."""

    verification: str
    digest: str
    at: int


def name_of(tenant: str, repo: str | None, base_sha: str | None) -> str | None:
    """Return the name under which failed changes of a repository are kept; None without a repository or base commit."""
    return kept_name(FAILED_DIFFS, tenant, repo) if base_sha and _COMMIT.fullmatch(base_sha) else None


def read_kept(fields: Mapping[str, bytes], base_sha: str) -> tuple[FailedDiff, ...]:
    """Return the newest remembered changes of the commit `base_sha`, oldest first; unreadable ones are skipped."""
    found: list[FailedDiff] = []
    for name, at in fields.items():
        base, _, rest = name.partition(" ")
        verification, _, digest = rest.partition(" ")
        if base == base_sha and _DIGEST.fullmatch(digest) and at.isdigit():
            found.append(FailedDiff(verification, digest, int(at)))
    return tuple(sorted(found, key=lambda each: (each.at, each))[-MOST:])


def begin(plan: PlanRecord, known: Iterable[Sequence[Any]]) -> None:
    """Store the `known` failed changes in a plan that begins, unless the feature is off."""
    if _remembers(plan):
        plan.failed_diffs.known = [[*each] for each in known]


def given_to(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Return the failed changes that an attempt of a step gets, oldest first."""
    facts, known = step.facts, unit.plan.failed_diffs.known
    if not known or facts["mode"] != Mode.PATCH or not facts["verify_tools"]:
        return None
    name = name_verification(facts)
    told = [digest for verification, digest, _ in known if verification == name]
    return {"failed_diffs": told} if told else None


def note_failure(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any], began: int) -> str:
    """Remember the change of a failed attempt that began at `began` (ms).

    Returns the digest of the change if the attempt repeated it, although it was known as failed; else an empty text.
    """
    plan, digest = unit.plan, outcome.diff_hash or ""
    if not _is_of_change(plan, step, outcome) or failure["category"] in _UNTOLD:
        return ""
    landed, name = plan.streaks.landed, name_verification(step.facts)
    if began < landed:  # of an older tree
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
    """Forget the change of a successful attempt; if it landed forget all others, because the tree is new."""
    plan = unit.plan
    known = plan.failed_diffs.known
    if known and outcome.diff_hash and not plan.streaks.landed:
        name, digest = name_verification(step.facts), outcome.diff_hash
        if any(each[:2] == [name, digest] for each in known):
            unit.change.kept.extend(_change(plan.head, name, digest, b""))
    if known and (outcome.touched_files or outcome.created_files):
        plan.failed_diffs.known = []


def _is_of_change(plan: PlanRecord, step: Step, outcome: Outcome) -> bool:
    """Return whether an outcome proves that a change with a digest failed the verification of its step."""
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
    """Yield the write that keeps a failed change for later plans; an empty `value` drops the change.

    Yields nothing if the repository or the base commit of the plan is not known.
    """
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
