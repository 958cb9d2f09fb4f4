"""The verdict on an outcome: whether it counts, whether its attempt succeeded, and the range of its figures.

No outcome is refused for the value of a number. Claims of a controller or an agent must not disable a rule. So a figure
below 0 counts as 0: no report gives back a budget. `growth_kb` may be negative, if files were deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from schemas.base import FailureCategory, Mode, Verdict
from schemas.outcome import Outcome, VerifyReceipt
from schemas.plain_outcome import PlainOutcome, PlainReceipt
from schemas.step import ROOT, PreviousFailure
from schemas.stored import PlanRecord
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Snapshot
from tasks.rules.budget import requires_receipts
from tasks.rules.permission import exceeds, is_permitted, limits_of_files
from tasks.rules.risk import RISK
from tasks.text.fields import as_written, fit
from tasks.toolchain.classify import category_of

STOPPED = 124  # the exit code of a tool that ran out of time, as in timeout(1)
MAX_TESTS = 5
MAX_TRACE = 500
MOST = 10**12  # of any figure; sums of many such figures still fit into 64 bits
MOST_GROWTH_KB = 10**9
WANTED, SHOWN = itemgetter("tool"), attrgetter("tool")  # the name of a tool in a verification, and in a receipt
COUNTED = ("tokens_used", "patch_cycles", "tool_calls", "duration_ms")  # of `metrics`


def judge(snapshot: Snapshot, step_id: str, attempt: int | None, lease: str | None, digest: str) -> Verdict:
    """Return the verdict on an outcome: only a report of the live attempt of its step is APPLIED.

    An outcome without an attempt means the live one, unless it repeats the last outcome.
    """
    step, live = snapshot.steps.get(step_id), snapshot.active.get(step_id)
    if step is None:
        return Verdict.UNKNOWN
    repeats, is_over = digest == step.status.digest, snapshot.record.state in PLAN_ENDS
    if live and not is_over:
        if attempt is None and lease is None:
            is_meant = not repeats
        else:
            is_meant = (attempt or live.attempt) == live.attempt and (lease or live.lease) == live.lease
        if is_meant:
            return Verdict.REFUSED if lease is None and lacks_lease(snapshot, step_id, lease) else Verdict.APPLIED
    if repeats:
        return Verdict.DUPLICATE
    ended = attempt is not None and attempt <= step.status.attempt and not (live and attempt == live.attempt)
    return Verdict.LATE if ended or is_over else Verdict.REFUSED


def lacks_lease(snapshot: Snapshot, step_id: str, lease: str | None) -> bool:
    """Return whether an outcome lacks the lease of a claimed attempt; only the claimant may end such an attempt."""
    if lease is not None:
        return False
    live, known = snapshot.active.get(step_id), snapshot.leases.get(step_id)
    return bool(live and known and known.attempt == live.attempt and known.claimed)


def failure_of(facts: dict[str, Any], outcome: Outcome) -> dict[str, Any] | None:
    """Return why the attempt failed, in the form for its next attempt; None for a valid success.

    A success that contradicts itself is a failure. Failing tests of a step with a verification are a TEST_REGRESSION,
    and so is an exit code that is no pass code of its tool. A touched file outside of the step's files, or any in a
    step that does not patch, is an ALLOWLIST_VIOLATION. A tool that ended with STOPPED ran out of time.
    """
    evidence, reason = outcome.failure_evidence, None
    if finding := contradiction(facts, outcome):
        category, reason = finding
    else:
        if outcome.success:
            return None
        text = (evidence and evidence.stack_trace_head) or outcome.error_message or ""
        stopped = any(_is_stopped(facts, receipt) for receipt in outcome.verify or ())
        category = category_of(evidence.category if evidence else None, text, stopped=stopped)
    return PreviousFailure(
        category=category,
        failing_tests=tuple(fit_evidence(test) for test in evidence.top_failing_tests[:MAX_TESTS]) if evidence else (),
        trace=fit_evidence((evidence and evidence.stack_trace_head) or outcome.error_message or "") or None,
        suggestion=fit_evidence(reason or (evidence and evidence.suggestion) or "") or None,
    ).model_dump()


def fit_evidence(text: str) -> str:
    """Sanitize and truncate evidence for the prompt of the next attempt."""
    return fit(text[:MAX_TRACE], MAX_TRACE, as_written)


def _passing(facts: dict[str, Any], receipt: VerifyReceipt | PlainReceipt) -> list[int]:
    """Return the pass codes of the tool of `receipt`; empty if the step has no such tool."""
    codes: list[int] = []
    for tool in facts["verify_tools"]:
        if tool["tool"] == receipt.tool:
            codes += tool["pass_codes"]
    return codes


def _is_stopped(facts: dict[str, Any], receipt: VerifyReceipt) -> bool:
    return receipt.exit_code == STOPPED and STOPPED not in _passing(facts, receipt)


def contradiction(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> tuple[FailureCategory, str] | None:
    """Return why an outcome contradicts itself or its step, as category and reason; None if it does not."""
    changed = outcome.touched_files or outcome.created_files or getattr(outcome, "touched_count", None)
    if changed and (found := _beyond_permission(facts, outcome)):
        return found
    if not outcome.success or not facts["verify_tools"]:
        return None
    if outcome.tests_passed is False:
        return FailureCategory.TEST_REGRESSION, "success was reported although the tests did not pass"
    for receipt in outcome.verify or ():
        if (codes := _passing(facts, receipt)) and receipt.exit_code not in codes:
            reason = f"success was reported although {receipt.tool} ended with exit code {receipt.exit_code}"
            stopped = receipt.exit_code == STOPPED
            return (FailureCategory.TEST_TIMEOUT if stopped else FailureCategory.TEST_REGRESSION), reason
    return None


def doubt(facts: dict[str, Any], outcome: Outcome | PlainOutcome, *, requires_receipts: bool) -> str | None:
    """Return why a success is not verified; None if it is, or if the step has no verification.

    A success is verified if each tool of the step has a receipt. If no receipts are required, the controller's claim
    (`tests_passed`) is enough, unless there are receipts of tools that are not the step's.
    """
    if _is_proved(facts, outcome):
        return None
    if untold := folder_untold(facts, outcome):
        return untold
    wanted, shown = {*map(WANTED, facts["verify_tools"])}, {*map(SHOWN, outcome.verify or ())}
    if other := sorted(shown - wanted):
        return f"there are receipts of {fit_evidence(', '.join(other))}, and not of {', '.join(sorted(wanted - shown))}"
    if outcome.tests_passed and not requires_receipts:
        return None
    word = "" if outcome.tests_passed else " and no word that the tests passed"
    return f"there is no receipt of {', '.join(sorted(wanted - shown))}{word}"


def folder_untold(facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> str | None:
    """Return a sentence about a tool whose folder no receipt shows; None if the receipts show all that matter.

    A controller that does not support `cwd` runs a tool in another folder. So without the folder, the receipt of a tool
    that runs below the root proves nothing.
    """
    for tool in facts["verify_tools"]:
        if "cwd" in tool:
            break
    else:
        return None  # as of nearly every success
    elsewhere = [(tool["tool"], tool["cwd"]) for tool in facts["verify_tools"] if tool.get("cwd", ROOT) != ROOT]
    told = Counter((receipt.tool, receipt.cwd or ROOT) for receipt in outcome.verify or ())
    if outcome.success or (outcome.tests_passed is False and not told):
        untold = next((pair for pair in elsewhere if not told[pair]), None)
    else:
        at_root = Counter(tool["tool"] for tool in facts["verify_tools"] if tool.get("cwd", ROOT) == ROOT)
        untold = next((pair for pair in elsewhere if told[pair[0], ROOT] > at_root[pair[0]]), None)
    return f"no receipt shows that {untold[0]} ran in {fit_evidence(untold[1])} (`cwd`)" if untold else None


def judge_untold(facts: Mapping[str, Any], outcome: Outcome) -> str | None:
    """Return a sentence if the outcome does not show that the step's held-out tests judged it; else None."""
    wanted = (facts["judged_by"] or {}).get("holdout")
    if not wanted or (outcome.judged and outcome.judged.holdout == wanted):
        return None
    return "no report shows that the held-out tests judged it (`judged`)"


def _is_proved(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> bool:
    """Return whether there is a receipt of every tool that verifies the step."""
    if not {*map(SHOWN, outcome.verify or ())}.issuperset(map(WANTED, facts["verify_tools"])):
        return False
    return folder_untold(facts, outcome) is None


def proves_itself(plan: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Return whether there is no doubt that the success is verified."""
    if _is_proved(facts, outcome):
        return True
    return doubt(facts, outcome, requires_receipts=requires_receipts(plan.head)) is None


def is_empty(outcome: Outcome | PlainOutcome) -> bool:
    """Return whether the controller reported that no file was touched; false if it did not report files."""
    return not (outcome.touched_files or outcome.created_files) and outcome.tells("touched_files")


def did_something(_: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Return whether a success may have changed a file; always true if its step does not patch."""
    return bool(outcome.touched_files) or facts["mode"] != Mode.PATCH or not is_empty(outcome)


def _beyond_permission(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> tuple[FailureCategory, str] | None:
    """Return why the step does not permit a change, as category and reason; None if it permits the change.

    Only a successful change is refused because of its size or its risk, since other steps may change each of its files.
    """
    touched, level = {*outcome.touched_files, *outcome.created_files}, facts["risk_level"]
    patches = facts["mode"] == Mode.PATCH
    unnamed = touched.difference(facts["allowed_files"] if patches else ())
    if unnamed and (outside := [path for path in unnamed if not (patches and is_permitted(facts, path))]):
        reason = f"these files were touched and are not the step's: {', '.join(sorted(outside))}"
        return FailureCategory.ALLOWLIST_VIOLATION, reason
    if not outcome.success:
        return None
    if unnamed and (riskier := sorted(path for path in unnamed if exceeds(facts, path))):
        return FailureCategory.RISK_EXCEEDED, f"these files are riskier than {level}: {', '.join(riskier)}"
    count, most = max(len(touched), getattr(outcome, "touched_count", None) or 0), RISK[level].max_files
    if count > most and limits_of_files(facts):
        return FailureCategory.TOO_MANY_FILES, f"{count} files were changed, and a {level} step may change {most}"
    return None


class Wrong(NamedTuple):
    """A reported figure outside of its range, and the figure that counts instead."""

    reported: int
    counted: int


def within_range(outcome: Outcome) -> tuple[Outcome, dict[str, Wrong]]:
    """Return `outcome` with figures in range, and the changed figures that are worth an event."""
    wrong: dict[str, Wrong] = {}
    if metrics := outcome.metrics:
        for name in COUNTED:
            reported = getattr(metrics, name) or 0
            if not 0 <= reported <= MOST:
                wrong[name] = Wrong(reported, min(max(0, reported), MOST))
        if wrong:
            counted = {name: each.counted for name, each in wrong.items()}
            outcome = outcome.model_copy(update={"metrics": metrics.model_copy(update=counted)})
    if (growth_kb := outcome.growth_kb) and not 0 <= growth_kb <= MOST_GROWTH_KB:
        counted_kb = min(max(0, growth_kb), MOST_GROWTH_KB)
        outcome = outcome.model_copy(update={"growth_kb": counted_kb})
        if abs(growth_kb) > MOST_GROWTH_KB:
            wrong["growth_kb"] = Wrong(growth_kb, counted_kb)
    return outcome, wrong


def describe_wrong(wrong: dict[str, Wrong]) -> dict[str, Any]:
    """Return the wrong figures for an event; figures are clamped to the integers that JSON can hold."""
    return {
        name: {"told": min(max(-(2**53), each.reported), 2**53), "counted": each.counted}
        for name, each in wrong.items()
    }
