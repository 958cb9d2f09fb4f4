"""Handles changed files with a higher risk than their step: the change is discarded, and a new step gets the files.

The new step changes only these files, with the risk and the approvals that they need. It goes before the next attempt
of the first step; or after it, if its files import files that the first step changes. This happens once for a step, and
is no failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.base import StepState as S
from schemas.step import PlannedStep
from schemas.stored.features import RiskierFiles
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.imports import imports_any, imports_of
from tasks.policy.insertion import insert_behind, waiting_for
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import AFTER_END, JUDGES, Feature, Judgement, keeping
from tasks.policy.pre_steps import RISKY, name_of
from tasks.policy.quick_checks import checks_of_files
from tasks.policy.revision import Revision, carry_out, has_room
from tasks.rules.permission import PATTERNS, exceeds, is_permitted
from tasks.rules.risk import RISK, ROLLBACK, assess, is_below
from tasks.text.fields import MAX_TITLE
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.command_lines import render

APART = "risk_apart"  # the rule of the revision


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Move the riskier files of a change to a separate step; else the failure counts, with the reason."""
    step, failure = seen.step, seen.failure
    if failure is None or step.facts["mode"] != Mode.PATCH:
        return False
    was, files = PlannedStep.model_validate(step.facts), _riskier(seen)
    if why := _obstacle(unit, was, files):
        told = f"{failure['suggestion'] or 'riskier files were changed'}; {why}"
        seen.failure = {**failure, "suggestion": fit_evidence(told)}
        return False
    comes_after = _comes_after(unit, seen, files)
    kept = unit.plan.riskier_files
    kept.steps = [*kept.steps, step.step_id]
    unit.inputs.append([APART, step.step_id, step.status.attempt, [*files]])
    unit.move_step(step, S.ACTIVE.value)
    apart = _make(unit, was, files)
    when = "after this step" if comes_after else "before this attempt"
    told = f"These files are changed by {apart.step_id} {when}, so leave them: {', '.join(files)}"
    step.status.previous = {**failure, "suggestion": fit_evidence(told)}
    if comes_after:
        kept.after[step.step_id] = [*files]
        carry_out(unit, step, Revision(was, None, (APART,)), failure["category"])
        unit.make_ready(step)
    else:
        after = was.model_copy(update={"depends_on": (*was.depends_on, apart.step_id)})
        carry_out(unit, step, Revision(after, None, (APART,), (apart,)), failure["category"])
    return True


def _comes_after(unit: UnitOfWork, seen: Judgement, files: Sequence[str]) -> bool:
    """Return whether the riskier files import other changed files, and none of these imports them."""
    imports = imports_of(unit)
    others = {*seen.outcome.touched_files, *seen.outcome.created_files}.difference(files)
    return imports_any(imports, files, others) and not imports_any(imports, others, files)


def insert_after(unit: UnitOfWork, seen: Judgement) -> None:
    """Insert the step with the riskier files after a step that is done, if `judge` has put it there.

    Raises NeedsSteps if the snapshot lacks a step that waits for the done step.
    """
    step = seen.step
    if not (files := unit.plan.riskier_files.after.get(step.step_id)):
        return
    waiting = waiting_for(unit, step) or []
    was = PlannedStep.model_validate(step.facts)
    made = _make(unit, was, tuple(files)).model_copy(update={"depends_on": (step.step_id,)})
    del unit.plan.riskier_files.after[step.step_id]
    insert_behind(unit, step, made, waiting, APART, f"its riskier files come behind {step.step_id}")


def _riskier(seen: Judgement) -> tuple[str, ...]:
    """Return the files that the step may change only at a higher level."""
    outcome, facts = seen.outcome, seen.step.facts
    told = outcome.failure_evidence.affected_files if outcome.failure_evidence else ()
    named = dict.fromkeys((*outcome.touched_files, *outcome.created_files, *outcome.discarded_files, *told))
    return tuple(path for path in named if exceeds(facts, path) and is_permitted(facts, path))


def _obstacle(unit: UnitOfWork, step: PlannedStep, files: Sequence[str]) -> str:
    """Return why these files get no step; empty if they get one."""
    if step.step_id in unit.plan.riskier_files.steps:
        return "this happened to the step before"
    if not files:
        return "which ones is not known"
    level = assess(files).level
    if len(files) > RISK[level].max_files:
        return f"they are {len(files)}, and a {level} step may change {RISK[level].max_files}: name them in the goal"
    return "" if has_room(unit.plan) else "the plan has no room for another step; raise limits.max_steps"


def _make(unit: UnitOfWork, step: PlannedStep, files: tuple[str, ...]) -> PlannedStep:
    level, catalogue = assess(files).level, catalogue_of(unit.plan.head.tools)
    taken = [*unit.plan.structure.taken, *step.depends_on]
    known = tuple(tool for tool in step.verify_tools if tool.tool in catalogue.contracts)
    nothing = dict.fromkeys(("allowed_patterns", "excluded_patterns", "depends_on"), ())
    update = {
        **nothing,
        "step_id": name_of(RISKY, step.step_id, taken),
        "title": f"{step.title[: MAX_TITLE - 20]}: riskier files",
        "allowed_files": files,
        "requires": tuple(name for name in step.requires if name != PATTERNS),
        "focus": tuple(place for place in step.focus if place.path in files),
        "risk_level": level,
        "controller_task_spec": step.controller_task_spec.model_copy(update={"target_file": files[0]}),
        "rollback_hint": step.rollback_hint or ROLLBACK,
        "guidance": f"Change these {level} files alone, as far as they have to change; the others follow.",
        "inserted_by": step.step_id,
        "allow_empty": True,
        "keeps_answer": False,
        "checks_after": {},
    }
    made = step.model_copy(update=update)
    found = checks_of_files(made, known, catalogue)
    tools = tuple(tool for tool in found if not is_below(level, catalogue.contracts[tool.tool].min_risk))
    marked = tuple(name for name in made.quick_checks if any(tool.tool == name for tool in tools))
    return made.model_copy(update={"verify_tools": tools, "verify": render(tools), "quick_checks": marked})


FEATURE = Feature(
    "riskier_files",
    (JUDGES.row(judge, of=(C.RISK_EXCEEDED,)), AFTER_END.row(insert_after, only=keeping(RiskierFiles))),
    is_idle=lambda plan: not plan.keeps(RiskierFiles),
)
