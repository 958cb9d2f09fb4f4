"""Whether an outcome counts, whether the attempt that it reports succeeded, and what its figures are worth.

No outcome is refused for the value of a number. What a controller or an agent says of itself must not lift a rule, so a
figure below 0 counts as 0: nobody gives back what an attempt used. `growth_kb` is negative where files were deleted.
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

STOPPED = 124  # the exit code of a tool that ran out of time, as timeout(1) says it
MAX_TESTS = 5
MAX_TRACE = 500
MOST = 10**12  # of any figure; sums of very many such figures are still whole numbers of 64 bits
MOST_GROWTH_KB = 10**9
WANTED, SHOWN = itemgetter("tool"), attrgetter("tool")  # the name of a tool that verifies a step, and of a receipt's
COUNTED = ("tokens_used", "patch_cycles", "tool_calls", "duration_ms")  # of `metrics`


def judge(snapshot: Snapshot, step_id: str, attempt: int | None, lease: str | None, digest: str) -> Verdict:
    """Return what becomes of an outcome; only one that reports the live attempt of its step is APPLIED.

    One that names no attempt means the live one, unless it repeats the last outcome.
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
    """Whether an outcome has no lease although a controller has claimed the attempt, which only that one may end."""
    if lease is not None:
        return False
    live, known = snapshot.active.get(step_id), snapshot.leases.get(step_id)
    return bool(live and known and known.attempt == live.attempt and known.claimed)


def failure_of(facts: dict[str, Any], outcome: Outcome) -> dict[str, Any] | None:
    """Return why the attempt failed, as its next attempt will read it; None for a success that holds.

    A success is not believed when it contradicts itself: failing tests on a step with a verification are a
    TEST_REGRESSION, as is an exit code by which its tool did not pass; a touched file outside the step's files, or any
    in a step that does not patch, is an ALLOWLIST_VIOLATION. A tool that ended with STOPPED ran out of time.
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
    """Make evidence fit for the prompt of the next attempt: without attacks, and cut."""
    return fit(text[:MAX_TRACE], MAX_TRACE, as_written)


def _passing(facts: dict[str, Any], receipt: VerifyReceipt | PlainReceipt) -> list[int]:
    """List the exit codes by which the tool of `receipt` passes; none where the step has no such tool."""
    codes: list[int] = []
    for tool in facts["verify_tools"]:
        if tool["tool"] == receipt.tool:
            codes += tool["pass_codes"]
    return codes


def _is_stopped(facts: dict[str, Any], receipt: VerifyReceipt) -> bool:
    return receipt.exit_code == STOPPED and STOPPED not in _passing(facts, receipt)


def contradiction(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> tuple[FailureCategory, str] | None:
    """Return by which category an outcome failed whatever it says, and why; None where it contradicts nothing."""
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
    """Say why a success that contradicts nothing is not verified; None where it is, or where nothing verifies the step.

    A receipt of every tool of the step verifies it. Unless receipts are required so does the controller's word
    (`tests_passed`), but not beside receipts of tools that are not the step's.
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
    """Say for which tool an outcome does not tell the folder that it ran in; None where it tells all that matter.

    Without that nothing follows from a receipt of a tool that runs below the root: a controller that does not know
    `cwd` ran it elsewhere.
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
    return f"no receipt tells that {untold[0]} ran in {fit_evidence(untold[1])} (`cwd`)" if untold else None


def judge_untold(facts: Mapping[str, Any], outcome: Outcome) -> str | None:
    """Say of a success that nothing tells that the held-out tests judged it by which its step is judged."""
    wanted = (facts["judged_by"] or {}).get("holdout")
    if not wanted or (outcome.judged and outcome.judged.holdout == wanted):
        return None
    return "nothing tells that the held-out tests judged it (`judged`)"


def _is_proved(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> bool:
    """Whether there is a receipt of every tool that verifies the step, if any does."""
    if not {*map(SHOWN, outcome.verify or ())}.issuperset(map(WANTED, facts["verify_tools"])):
        return False
    return folder_untold(facts, outcome) is None


def proves_itself(plan: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Whether nothing of a success is in doubt."""
    if _is_proved(facts, outcome):
        return True
    return doubt(facts, outcome, requires_receipts=requires_receipts(plan.head)) is None


def is_empty(outcome: Outcome | PlainOutcome) -> bool:
    """Whether the controller told which files it touched, and that is none."""
    return not (outcome.touched_files or outcome.created_files) and outcome.tells("touched_files")


def did_something(_: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Whether a success may have changed what its step was to change."""
    return bool(outcome.touched_files) or facts["mode"] != Mode.PATCH or not is_empty(outcome)


def _beyond_permission(facts: dict[str, Any], outcome: Outcome | PlainOutcome) -> tuple[FailureCategory, str] | None:
    """Return why a change is one that its step does not permit.

    One that is too large or too risky is so only as a success: each file of it may be changed by another step.
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
    """A figure that was reported, and what counts in its place."""

    reported: int
    counted: int


def within_range(outcome: Outcome) -> tuple[Outcome, dict[str, Wrong]]:
    """Return `outcome` with figures that can be counted, and those that were changed and are worth telling of."""
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
    """Lay out what was wrong for an event; a figure beyond all measure is shown as the largest that fits."""
    return {
        name: {"told": min(max(-(2**53), each.reported), 2**53), "counted": each.counted}
        for name, each in wrong.items()
    }
