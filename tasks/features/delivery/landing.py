"""The step before a delivery: it puts the accepted changes on top of the target branch, and verifies them there.

If both changed the same lines, or the verification fails on top, one step that patches brings the plan up to date. Then
it lands again. A plan that cannot be brought up to date is halted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepType
from schemas.outcome import Outcome
from schemas.step import DELIVERIES, ControllerTaskSpec, PlannedStep, StepEstimate, VerifyTool
from schemas.stored import PlanRecord
from tasks.features.delivery.answer import COMMIT
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt, waits
from tasks.policy.advice_facts import AGAIN, Facts
from tasks.policy.outcome_verdict import is_empty
from tasks.policy.pipeline import Failure, Judgement
from tasks.policy.pre_steps import BRING_UP_TO_DATE, LAND
from tasks.rules.permission import Allowlist, is_permitted
from tasks.rules.risk import RISK, ROLLBACK, assess, estimate
from tasks.text.fields import fit, whole_lines
from tasks.text.forbidden_paths import FORBIDDEN, forbid
from tasks.text.paths import clean, fault
from tasks.text.patterns import matches
from tasks.toolchain.catalogue import once
from tasks.toolchain.command_lines import render

WAIT = "delivery_wait_s"  # among limits: the plan ends with a delivery, which may wait unclaimed for so many seconds
ROUNDS = "land_rounds"  # among limits: how often a plan is brought up to date
MOST_ROUNDS = 2
RETRIES = 1
VERIFICATION = "verification"  # the note of the last verification, and of the changed files
SIDES = "both sides"  # the note of the documents for a step that brings the plan up to date
MAX_TOOLS, MAX_FILES, MAX_RED = 20, 50, 200
MAX_TEXTS = 16_384  # bytes of both sides
MAX_TOLD = 4000  # bytes of both sides, as evidence
_DIGEST = re.compile(r"[0-9a-f]{64}")

IN_CONFLICT = (
    "The target branch changed these files too. They are as the target has them: make the plan's changes again, as its "
    "side shows, and keep the changes of the target's side."
)
RED = (
    "On top of what the target branch is now the plan's verification fails, as context.previous_failure has it. Change "
    "these files so that it passes, and keep what the target's side did."
)


@dataclass(frozen=True, slots=True)
class Landed:
    """A controller's answer about a landing."""

    target_sha: str
    result_sha: str
    conflicts: tuple[str, ...]
    digests: Mapping[str, str] | None  # of the changes of steps, as they are now; None where nothing moved
    target: str
    texts: Mapping[str, str]  # both sides, and the commits between
    is_there: bool  # whether the target has all of it already
    tree: str = ""  # the digest of the result's tree
    begin: str = ""  # the commit that the plan's own changes begin at now, if that is not the target's


def note_verification(unit: UnitOfWork, seen: Judgement) -> None:
    """Store the verification and the changed files of a done step, for the landing.

    The verifications of steps of mode `test` replace those of steps that patch.
    """
    outcome, facts = seen.outcome, seen.step.facts
    known = unit.note(VERIFICATION) or {"tools": [], "checks": False, "red": [], "files": [], "queue": facts["queue"]}
    found = dict(known)
    if facts["mode"] == Mode.PATCH and not is_empty(outcome):
        touched = (path for path in (*outcome.touched_files, *outcome.created_files) if is_permitted(facts, path))
        found["files"] = list(dict.fromkeys((*known["files"], *touched)))[-MAX_FILES:]
        found["queue"] = facts["queue"]
    is_check = facts["mode"] == Mode.TEST
    counts = (
        seen.doubt is None and not facts["inserted_by"] and not facts["at_base"] and (is_check or not known["checks"])
    )
    if counts and facts["verify_tools"]:
        before = known["tools"] if is_check == known["checks"] else ()
        tools = once(VerifyTool.model_validate(tool) for tool in (*before, *facts["verify_tools"]))[-MAX_TOOLS:]
        found |= {"tools": [tool.model_dump(mode="json") for tool in tools], "checks": is_check}
        if seen.is_excused:
            found["red"] = list(dict.fromkeys((*known["red"], *outcome.failing_tests)))[:MAX_RED]
    if found != known:
        unit.keep_note(VERIFICATION, found)


def make_land(unit: UnitOfWork) -> PlannedStep:
    """Return the step that lands. Raises NeedsSteps if the snapshot lacks the note of the verification."""
    known = unit.note(VERIFICATION) or {"tools": ()}
    tools = tuple(VerifyTool.model_validate(tool) for tool in known["tools"])
    made = PlannedStep(
        step_id=free_name(LAND, unit.plan.structure.taken),
        title="Land on the target branch",
        intent="Fetch the target branch. If it has moved, put the changes of input.accepted, and no others, on top of "
        "it, and verify them there.",
        verify=render(tools),
        verify_tools=tools,
        controller_task_spec=ControllerTaskSpec(type=StepType.LAND),
        mode=MODE_OF_TYPE[StepType.LAND],
        success_criteria="`output` names the target's commit, the result and the files in conflict.",
        queue=DELIVERIES,
        estimate=StepEstimate(tokens=0, patch_cycles=0),
        requires=(LAND,),
    )
    return made.model_copy(update={"requires": made.required})


def read(output: Any) -> Landed | None:
    """Parse a controller's answer; None if it has no commits or no list of conflicts."""
    if not isinstance(output, dict):
        return None
    target, result, conflicts = (output.get(name) for name in ("target_sha", "result_sha", "conflicts"))
    if not (isinstance(target, str) and isinstance(result, str) and isinstance(conflicts, list)):
        return None
    if not (COMMIT.fullmatch(target) and COMMIT.fullmatch(result)):
        return None
    digests, commits = None, output.get("commits")
    if isinstance(commits, list):
        told = [(each.get("step_id"), each.get("diff_hash")) for each in commits if isinstance(each, dict)]
        digests = {str(name): digest for name, digest in told if isinstance(digest, str) and _DIGEST.fullmatch(digest)}
    branch, begin = output.get("target"), output.get("begin_sha")
    return Landed(
        target,
        result,
        tuple(dict.fromkeys(clean(path) for path in conflicts if isinstance(path, str))),
        digests,
        branch if isinstance(branch, str) else "",
        _texts(output),
        is_there=target == result,
        tree=tree if isinstance(tree := output.get("result_tree"), str) and COMMIT.fullmatch(tree) else "",
        begin=begin if isinstance(begin, str) and COMMIT.fullmatch(begin) else "",
    )


def _texts(output: Mapping[str, Any]) -> dict[str, str]:
    """Return the diffs of both sides of a conflict, and the target's new commits, as documents by path.

    Entries without a valid path are left out.
    """
    sides, between = output.get("sides"), output.get("between")
    found: dict[str, str] = {}
    if isinstance(between, list):
        found["commits-of-the-target.txt"] = "\n".join(each for each in between if isinstance(each, str))
    for each in sides if isinstance(sides, list) else ():
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str) or fault(path, FORBIDDEN):
            continue
        for name in ("ours", "theirs"):
            if isinstance(text := each.get(name), str) and text:
                found[f"{path}.{name}.diff"] = text
    return _fitted(found, MAX_TEXTS)


def _fitted(texts: Mapping[str, str], room: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in texts.items():
        if (kept := fit(text, room - len(name.encode()), whole_lines) if room > len(name.encode()) else "").strip():
            found[name] = kept
            room -= len(name.encode()) + len(kept.encode())
    return found


def is_red(unit: UnitOfWork, seen: Judgement, landed: Landed) -> bool:
    """Return whether the verification failed on top of the target by tests that did not fail before the plan."""
    outcome = seen.outcome
    if seen.failure is None or not outcome.verify or outcome.verified_at != landed.target_sha:
        return False
    known = frozenset((unit.note(VERIFICATION) or {}).get("red", ()))
    is_known = outcome.failing_tests and outcome.failing_tests_complete and known.issuperset(outcome.failing_tests)
    return not is_known


def unproved(outcome: Outcome, step: Step, landed: Landed) -> str | None:
    """Return why a landing proves nothing; None if nothing moved, or if the verification ran on top of the target."""
    is_verified = landed.digests is None or landed.conflicts or landed.is_there or not step.facts["verify_tools"]
    if is_verified or outcome.verified_at == landed.target_sha:
        return None
    return "`verified_at` must name the target's commit under the verified changes"


def bring_up_to_date(unit: UnitOfWork, step: Step, landed: Landed, failure: Failure | None) -> bool:
    """Insert a step that brings the plan up to date; False if a person is asked or the plan is halted.

    With a `failure` the verification failed on top of the target, else files conflict. Raises NeedsSteps if the
    snapshot lacks notes.
    """
    plan, known = unit.plan, unit.note(VERIFICATION) or {"files": (), "tools": (), "queue": "default"}
    kept, most = plan.delivery, plan.limits.get(ROUNDS) or 0
    files = tuple(known["files"]) if failure else landed.conflicts
    outside = _outside(unit, files)
    what = "the plan's verification fails on top of it" if failure else f"both changed {', '.join(files[:MAX_TOOLS])}"
    moved = f"the target branch has moved to {landed.target_sha[:12]}, and {what}"
    unit.keep_note(SIDES, landed.texts)
    plan.structure.taken = [*plan.structure.taken, step.step_id]
    if outside or not files or kept.rounds >= most or len(files) > MAX_FILES:
        why = moved + (f"; {', '.join(outside[:MAX_TOOLS])} may not be changed" if outside else "")
        if plan.head.approvals:  # people watch this plan
            _ask(unit, step, failure, why)
            return False
        evidence = {
            "value": kept.rounds,
            "limit": most,
            "limit_name": ROUNDS,
            "step_id": step.step_id,
            "target_sha": landed.target_sha,
            "paths": list(files[:MAX_FILES]),
            "sides": _fitted(landed.texts, MAX_TOLD),
        }
        halt.halt(unit, "conflict", why, evidence, step)
        return False
    _end(unit, step, failure)
    made = _make(unit, step, files, known, RED if failure else IN_CONFLICT)
    kept.rounds, kept.mending, kept.step = kept.rounds + 1, made.step_id, ""
    unit.is_delivering = False
    plan.structure.taken = [*plan.structure.taken, made.step_id]
    _add(unit, made, moved)
    unit.snapshot.steps[made.step_id].status.previous = dict(failure) if failure else None
    return True


def _end(unit: UnitOfWork, step: Step, failure: Failure | None) -> None:
    """End a landing that did not succeed; another landing follows."""
    if failure:
        unit.plan.structure.replaced += 1
        unit.end_step(step, "FAILED", "failed", failure["category"])
    else:
        unit.end_step(step, "DONE", "done", "conflict")


def _add(unit: UnitOfWork, made: PlannedStep, why: str) -> None:
    unit.pass_revising(why)
    unit.insert((made,), sum(unit.plan.counts.values()), {})
    unit.log_added((made.step_id,), LAND, why)


def _ask(unit: UnitOfWork, step: Step, failure: Failure | None, why: str) -> None:
    """Have the plan land again after a person approves it; until then it waits."""
    _end(unit, step, failure)
    made, kept = make_land(unit), unit.plan.delivery
    kept.step, kept.until = made.step_id, unit.snapshot.now + waits.APPROVAL_MS + 1000 * (unit.plan.limits[WAIT] or 0)
    _add(unit, made, why)
    del unit.ready[made.step_id]
    waits.ask_approval(unit, unit.snapshot.steps[made.step_id], why)


def _outside(unit: UnitOfWork, files: Iterable[str]) -> list[str]:
    """Return the files that the goal does not allow, or an operator removed. Raises NeedsSteps without the note."""
    asked, tightened = unit.note("delivery"), unit.plan.head.tightened
    names = asked.get("forbidden")
    allowed = Allowlist.of(asked["allowed"], forbid(tuple(names)) if names else FORBIDDEN)
    excluded = [each.casefold() for each in asked["excluded"] if each not in allowed.files]
    return [
        path
        for path in files
        if path not in allowed
        or (path not in allowed.files and any(matches(each, path.casefold()) for each in excluded))
        or (tightened is not None and path not in tightened)
    ]


def _make(unit: UnitOfWork, land: Step, files: tuple[str, ...], known: Mapping[str, Any], intent: str) -> PlannedStep:
    risk = assess(files).level
    tools = tuple(VerifyTool.model_validate(tool) for tool in known["tools"])
    made = PlannedStep(
        step_id=free_name(BRING_UP_TO_DATE, unit.plan.structure.taken),
        title="Bring the plan up to date",
        intent=intent,
        allowed_files=files,
        verify=render(tools),
        verify_tools=tools,
        risk_level=max(risk, RiskLevel(unit.plan.delivery.risk or risk), key=tuple(RISK).index),
        controller_task_spec=ControllerTaskSpec(type=StepType.PATCH),
        mode=MODE_OF_TYPE[StepType.PATCH],
        success_criteria="The verification passes with the changes of both.",
        retry_limit=RETRIES,
        queue=known["queue"],
        estimate=estimate(Mode.PATCH),
        inserted_by=land.step_id,
        allow_empty=True,  # the target may already have the plan's changes of these files
    )
    hint = {"rollback_hint": ROLLBACK} if RISK[made.risk_level].rollback_hint else {}
    return made.model_copy(update={"requires": made.required, **hint})


def given_to(unit: UnitOfWork, step: Step) -> dict[str, Any] | None:
    """Return the base commit and the documents for a step on top of the target; None for any other step.

    Raises NeedsSteps if the snapshot lacks a note.
    """
    kept = unit.plan.delivery
    if not kept.base or step.step_id not in (kept.step, kept.mending):
        return None
    given: dict[str, Any] = {"base_sha": kept.base}
    return given | ({"documents": unit.note(SIDES)} if step.step_id == kept.mending else {})


def fires(plan: PlanRecord, step: Step, failure: Failure) -> tuple[str, str, dict[str, Any]] | None:
    """Halt a plan if the step that brings it up to date failed for good."""
    if step.step_id != plan.delivery.mending or step.status.failures <= RETRIES:
        return None
    value = {"value": step.status.failures, "limit": RETRIES, "limit_name": "retry_limit", "step_id": step.step_id}
    paths = {"paths": list(step.facts["allowed_files"]), "target_sha": plan.delivery.base}
    reason = f"{step.step_id} could not bring the plan up to date with {plan.delivery.base[:12]}"
    return "conflict", reason, {**value, **paths, "told": failure["suggestion"]}


def advise(_: Facts) -> str:
    """Return how to go on with a plan that could not be brought up to date with its target branch."""
    return f"Merge the target branch into the changes by hand, or {AGAIN}: it begins at the new commit of the target."


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """Return a name for a step that no other step has."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
