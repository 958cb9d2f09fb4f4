"""Drops checks that the planner added to a step and that already failed before the plan.

Old findings are no reason to discard a patch. So the first failure of an added check, in a step of mode `patch` or
`test`, is not counted at once. A baseline step runs the added checks once at the commit that the plan began with. A
check that fails there is dropped if the step has another verification. A check that passes there, or has no result,
counts. A check of files that may be new is never dropped, because it always fails at that commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.plain_outcome import PlainOutcome
from schemas.step import PlannedStep, VerifyTool
from schemas.stored import PlanRecord
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import NOTE, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import failing, halt_rules, revision
from tasks.policy.pipeline import Judgement
from tasks.policy.pre_steps import BASELINE, make_baseline
from tasks.policy.revision import has_room
from tasks.policy.sources import sources_of
from tasks.rules import budget
from tasks.text.folders import outer
from tasks.toolchain.catalogue import catalogue_of, looks_at
from tasks.toolchain.command_lines import render
from tasks.toolchain.contract import operand

_CREATED = "new of {}"
DROPPED = "drop_red_checks"  # the name of the revision
DROPPED_IN = (Mode.PATCH, Mode.TEST)  # the modes of the steps whose checks may be dropped


def awaits_base(unit: UnitOfWork, step: Step, outcome: Outcome, failure: dict[str, Any]) -> bool:
    """Insert a baseline of the step's added checks, or drop the checks that are known to fail at the base.

    Returns whether either happened; this failure is not counted then.
    """
    red = _red_check(unit, step, outcome, failure)
    if red is None:
        return False
    known = unit.note(name_of(red.words))
    if not _is_open(step, known):
        if known["red"]:
            unit.move_step(step, S.ACTIVE.value, "retried", failure["category"])
            _drop(unit, step, failure["category"])
        return bool(known["red"])
    was = PlannedStep.model_validate(step.facts)
    if not has_room(unit.plan):
        return False
    unknown = tuple(
        tool
        for tool in _added(was)
        if _is_open(step, unit.note(name_of(tool.words))) and (tool == red or _was_there(unit, step, outcome, tool))
    )
    before = make_baseline(was, unknown, unit.plan.structure.taken, _catalogue(unit))
    before = before.model_copy(update={"quick_checks": tuple(tool.tool for tool in unknown)})
    revised = was.model_copy(update={"depends_on": (*was.depends_on, before.step_id)})
    for tool in unknown:
        unit.keep_note(name_of(tool.words), {"by": step.step_id, "red": None})
    unit.keep_note(
        f"red {step.step_id}", {"outcome": failing.keep(outcome), "failure": failure, "check": name_of(red.words)}
    )
    revision.carry_out(unit, step, revision.Revision(revised, before, (BASELINE,)), failure["category"])
    step.status.previous = failure
    return True


def note_created(unit: UnitOfWork, seen: Judgement) -> None:
    """Store the files that a step created, if it has added checks or a later step gets some.

    If a patch did not report the files that it created, the plan remembers that.
    """
    step, outcome = seen.step, seen.outcome
    if outcome.created_files:
        if step.facts["quick_checks"] or budget.REVIEWS in unit.plan.limits:
            unit.keep_note(_CREATED.format(step.step_id), list(outcome.created_files))
    elif _leaves_untold(unit.plan, step.facts, outcome):
        unit.plan.growth.untold = True


def _leaves_untold(plan: PlanRecord, facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> bool:
    """Return whether a patch did not report the files that it created, in a plan that needs to know them."""
    if not plan.head.limits.get(budget.EXCUSES) or facts["mode"] != Mode.PATCH or outcome.tells("created_files"):
        return False
    return bool(outcome.touched_files) or not outcome.tells("touched_files")


def notes_nothing(plan: PlanRecord, facts: Mapping[str, Any], outcome: PlainOutcome) -> bool:
    """Return whether `note_created` would change nothing."""
    return not outcome.created_files and (plan.growth.untold or not _leaves_untold(plan, facts, outcome))


def drop_known(unit: UnitOfWork, step: Step) -> bool:
    """Remove checks from a starting step if they failed, or could not run, before the plan. Always returns false."""
    kept, added = unit.plan.reproduced, _added(PlannedStep.model_validate(step.facts))
    not_run = {name for name, *_ in kept.not_run}
    remains = any(tool["tool"] not in step.facts["quick_checks"] for tool in step.facts["verify_tools"])
    red = set(kept.red if remains else ())
    gone = [tool for tool in added if name_of(tool.words) in not_run | red]
    if gone and not step.facts["at_base"]:
        category = C.CANNOT_VERIFY if all(name_of(tool.words) in not_run for tool in gone) else C.LINT_ERROR
        why = f"{', '.join(tool.tool for tool in gone)} was red, or could not run, before the plan"
        _take_out(unit, step, {tool.words for tool in gone}, category.value, why)
    return False


def keep_base(unit: UnitOfWork, step: Step, outcome: Outcome) -> None:
    """Store which checks failed before the plan, if each of them ran to its end there."""
    tools, receipts = PlannedStep.model_validate(step.facts).verify_tools, outcome.verify or ()
    contracts = _catalogue(unit).contracts
    if outcome.verified_at != unit.plan.head.context.get("base_sha") or [each.tool for each in receipts] != [
        tool.tool for tool in tools
    ]:
        return
    if any(
        each.exit_code not in {*contracts[each.tool].pass_codes, *contracts[each.tool].ran_codes} for each in receipts
    ):
        return
    for tool, each in zip(tools, receipts, strict=True):
        red = each.exit_code not in contracts[each.tool].pass_codes
        unit.keep_note(name_of(tool.words), {"by": step.facts["inserted_by"], "red": red})


def judge(unit: UnitOfWork, step: Step, kept: Mapping[str, Any]) -> None:
    """Drop the failed check and retry the step if the check also failed at the base; else count the kept failure."""
    for name in (name_of(tool.words) for tool in _added(PlannedStep.model_validate(step.facts))):
        known = unit.note(name)
        if known == {"by": step.step_id, "red": None}:  # no result, and no baseline will run again
            unit.keep_note(name, {**known, "red": False})
    if unit.note(kept["check"])["red"]:
        _drop(unit, step, kept["failure"]["category"])
    else:
        failing.count_failure(unit, step, kept["failure"], Outcome.model_validate(kept["outcome"]))


def _red_check(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any]) -> VerifyTool | None:
    """Return the added check that failed, if it is the only known fault of the attempt and other tools remain."""
    facts, receipts = step.facts, outcome.verify or ()
    if not facts["quick_checks"] or facts["mode"] not in DROPPED_IN or facts["inserted_by"] or not receipts:
        return None
    if not unit.plan.head.limits.get(budget.EXCUSES):
        return None
    tools, last = PlannedStep.model_validate(facts).verify_tools, receipts[-1]
    if failure["category"] in halt_rules.AT_ONCE or [each.tool for each in receipts] != [
        tool.tool for tool in tools[: len(receipts)]
    ]:
        return None
    tool, contract = tools[len(receipts) - 1], _catalogue(unit).contracts.get(last.tool)
    if contract is None or last.exit_code in contract.pass_codes or last.exit_code not in contract.ran_codes:
        return None
    if tool.tool not in facts["quick_checks"] or all(each.tool in facts["quick_checks"] for each in tools):
        return None
    return tool if _was_there(unit, step, outcome, tool) else None


def _was_there(unit: UnitOfWork, step: Step, outcome: Outcome, tool: VerifyTool) -> bool:
    """Return whether a check is of files that existed before the plan, or of the whole project."""
    facts, contract = step.facts, _catalogue(unit).contracts[tool.tool]
    named = {operand(path) for path in facts["allowed_files"] if looks_at(tool, path)}
    if facts["mode"] == Mode.TEST and (reading := contract.read(tool.argv)):
        named = {outer(word, tool.cwd) for word in reading.positionals}
    return not (named and _may_be_new(unit, step, outcome, named))


def _is_open(step: Step, known: Mapping[str, Any] | None) -> bool:
    """Return whether `step` has to run a check at the base, because no result of it is `known`.

    While the baseline of another step has not ended, its result is not known either.
    """
    return known is None or (known["red"] is None and known["by"] != step.step_id)


def _may_be_new(unit: UnitOfWork, step: Step, outcome: Outcome, files: Collection[str]) -> bool:
    """Return whether the attempt or the plan may have created any of `files`; false if all created files are known."""
    growth = unit.plan.growth
    if not outcome.tells("created_files") or growth.untold:
        return True
    if not set(files).isdisjoint(map(operand, outcome.created_files)):
        return True
    if not growth.created:
        return False
    sources = sources_of(unit, PlannedStep.model_validate(step.facts))
    names = [_CREATED.format(source.facts["step_id"]) for source in sources]
    if missing := frozenset(NOTE + name for name in names if name not in unit.snapshot.notes):
        raise NeedsSteps(missing)
    created = [path for name in names for path in unit.note(name) or ()]
    return len(created) != growth.created or not set(files).isdisjoint(map(operand, created))


def _drop(unit: UnitOfWork, step: Step, category: str) -> None:
    """Remove the checks that failed before the plan from a step, and try it again."""
    was = PlannedStep.model_validate(step.facts)
    red = {tool.words for tool in _added(was) if (unit.note(name_of(tool.words)) or {}).get("red")}
    _take_out(unit, step, red, category)
    step.status.previous = None
    unit.make_ready(step)


def _take_out(unit: UnitOfWork, step: Step, gone: Collection[tuple[str, ...]], category: str, why: str = "") -> None:
    was = PlannedStep.model_validate(step.facts)
    left = tuple(tool for tool in was.verify_tools if tool.words not in gone)
    ids = {tool.tool for tool in left}
    revised = was.model_copy(
        update={
            "verify_tools": left,
            "verify": render(left),
            "quick_checks": tuple(name for name in was.quick_checks if name in ids),
        }
    )
    revision.carry_out(unit, step, revision.Revision(revised, None, (DROPPED,)), category, why=why)


def _added(step: PlannedStep) -> tuple[VerifyTool, ...]:
    return tuple(tool for tool in step.verify_tools if tool.tool in step.quick_checks)


def _catalogue(unit: UnitOfWork) -> Any:
    return catalogue_of(unit.plan.head.tools)


def name_of(argv: Sequence[str]) -> str:
    """Return the name of the note with a check's result before the plan: the same for all steps with the same check."""
    told = " ".join(argv).encode(errors="replace")
    return "check " + hashlib.blake2b(told, digest_size=8).hexdigest()
