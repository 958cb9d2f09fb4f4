"""Changes by an operator in a running plan: removed files, raised risk, skipped steps.

No step gets a file back. A skipped step counts as satisfied: its dependents go on as if it were done.
"""

from __future__ import annotations

from collections.abc import Collection

from schemas.base import Mode, RiskLevel
from schemas.base import StepState as S
from schemas.command import CommandName
from schemas.step import PlannedStep
from tasks.base.errors import EVERY_STEP, NeedsSteps
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt
from tasks.policy.pipeline import ON_COMMAND
from tasks.rules.risk import RISK, ROLLBACK, is_below

BLOCKED, PENDING, ACTIVE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value
SKIPPED, FAILED = S.SKIPPED.value, S.FAILED.value
MOST_READ = 1000  # steps that one decision reads


def tighten_plan(unit: UnitOfWork, files: Collection[str]) -> None:
    """Restrict the whole plan to `files`; attempts with another file are cancelled and start again with fewer files.

    Raises NeedsSteps if the snapshot lacks steps in flight.
    """
    before = unit.plan.head.tightened
    unit.plan.head.tightened = sorted(set(files) if before is None else set(files).intersection(before))
    unit.plan.dirty.add("head")
    missing = frozenset(unit.snapshot.active) - unit.snapshot.steps.keys()
    if missing:
        raise NeedsSteps(missing)
    for step_id in list(unit.snapshot.active):
        tighten_step(unit, unit.snapshot.steps[step_id], unit.plan.head.tightened)


def files_of_no_step(unit: UnitOfWork, files: Collection[str]) -> list[str]:
    """Return those of `files` that no step of the plan has, and that no step of an expansion could get.

    A plan of more than MOST_READ steps is not checked. Raises NeedsSteps if the snapshot lacks steps.
    """
    if unit.strategy_state:  # steps for any file of the goal may follow
        return sorted({*files}.difference(unit.strategy_state["goal"].get("allowed_files", files)))
    steps = [step for step in unit.snapshot.steps.values() if step.spec is not None]
    unknown = {*files}.difference(*(step.facts["allowed_files"] for step in steps))
    count = sum(unit.plan.counts.values())
    if not unknown or count > MOST_READ:
        return []
    if len(steps) < count:
        raise NeedsSteps(frozenset({EVERY_STEP}))
    return sorted(unknown)


def tighten_step(unit: UnitOfWork, step: Step, files: Collection[str]) -> None:
    """Restrict a step that has not ended to `files`; its attempt is cancelled if it has another file."""
    if fits(step, files):
        return
    if step.step_id in unit.snapshot.active:
        halt.cancel(unit, step)
        unit.make_ready(step)
    _narrow(unit, step, files)


def risk_refusal(unit: UnitOfWork, step: Step, level: str, files: Collection[str] | None = None) -> str | None:
    """Return why the risk of `step` cannot be raised to `level` with only `files` left (None: all of them)."""
    facts, row = step.facts, RISK[RiskLevel(level)]
    if step.step_id in unit.snapshot.active:
        return "the step is in flight"
    if not is_below(facts["risk_level"], RiskLevel(level)):
        return f"its risk is {facts['risk_level']}, and risk can only be raised"
    count = len(facts["allowed_files"] if files is None else {*files})
    if count > row.max_files:
        return f"at {level} a step has at most {row.max_files} files, and it has {count}; leave fewer in the same order"
    if row.tests_required and facts["mode"] == Mode.PATCH and not facts["verify_tools"]:
        return f"at {level} a step that patches must have a verification, and it has none"
    return None


def raise_risk(unit: UnitOfWork, step: Step, level: str) -> None:
    """Raise the risk of a step, after `risk_refusal` returned None; drop its approval, which was for less risk."""
    planned, row = PlannedStep.model_validate(step.facts), RISK[RiskLevel(level)]
    hint = planned.rollback_hint or (ROLLBACK if row.rollback_hint and planned.mode is Mode.PATCH else None)
    unit.rewrite(step, planned.model_copy(update={"risk_level": RiskLevel(level), "rollback_hint": hint}))
    if step.step_id not in unit.plan.waits:
        step.status.approval = ""
    unit.emit("step.tightened", {"step_id": step.step_id}, f"its risk is {level} from now on")


def narrow_ready(unit: UnitOfWork) -> None:
    """Restrict every ready step to the plan's remaining files; a step without a file to patch cannot start."""
    files = unit.plan.head.tightened or ()
    for step in list(unit.ready.values()):
        if step.spec is not None and not fits(step, files):
            _narrow(unit, step, files)


def fits(step: Step, files: Collection[str]) -> bool:
    """Return whether all files of `step` are among `files`."""
    return set(step.facts["allowed_files"]) <= set(files)


def _narrow(unit: UnitOfWork, step: Step, files: Collection[str]) -> None:
    planned = PlannedStep.model_validate(step.facts)
    left = tuple(path for path in planned.allowed_files if path in files)
    if left or planned.mode is not Mode.PATCH:
        task = planned.controller_task_spec
        if task.target_file not in (None, *left):
            task = task.model_copy(update={"target_file": left[0] if left else None})
        narrow = planned.model_copy(update={"allowed_files": left, "controller_task_spec": task})
        unit.rewrite(step, narrow)
        unit.emit("step.tightened", {"step_id": step.step_id}, f"{len(left)} of its files are left")
        return
    unit.withdraw(step)
    after, what = (FAILED, "failed") if step.status.state == ACTIVE else (SKIPPED, "skipped")
    if step.status.state == BLOCKED:
        unit.move_step(step, PENDING)
    unit.end_step(step, after, what, "an operator left none of its files to it")


def skip(unit: UnitOfWork, step: Step, actor: str, reason: str) -> str | None:
    """Skip a step that has not ended; returns why that is not possible, else None.

    A step that waits for others is skipped later in its turn, because its dependents also rely on them. A step that was
    tried before ends as FAILED, the only end that the step machine has for it; its pre-step ends, too. Raises
    NeedsSteps if the snapshot lacks the pre-step.
    """
    status = step.status
    if status.skipped_by:
        return "the step will be skipped in its turn anyway"
    going = [step, *_pre_steps(unit, step)]
    for each in going:
        if unit.is_delivering and _is_unclaimed(unit, each):
            halt.cancel(unit, each)
        if each.step_id in unit.snapshot.active:
            return f"an attempt of {each.step_id} is in flight: pause the plan, and skip the step when it has ended"
    status.skipped_by = actor
    if status.state == BLOCKED:
        unit.touched[step.step_id] = step
        return None
    for each in going:
        each.status.skipped_by = actor
        end(unit, each, f"{actor}: {reason}")
    return None


def _is_unclaimed(unit: UnitOfWork, step: Step) -> bool:
    lease = unit.snapshot.leases.get(step.step_id)
    return step.step_id in unit.snapshot.active and lease is not None and not lease.claimed


def end(unit: UnitOfWork, step: Step, reason: str) -> None:
    """End a step that an operator skips."""
    unit.withdraw(step)
    for obey in ON_COMMAND[CommandName.SKIP]:
        obey(unit, step, reason)
    unit.plan.structure.skipped += 1
    unit.end_step(step, FAILED if step.status.state == ACTIVE else SKIPPED, "skipped", reason)


def _pre_steps(unit: UnitOfWork, step: Step) -> list[Step]:
    """Return the step that has to end before the next attempt of `step`: its last dependency, if that is open."""
    if step.status.state != ACTIVE or not step.status.unmet:
        return []
    name = step.facts["depends_on"][-1]
    if name not in unit.snapshot.steps:
        raise NeedsSteps(frozenset({name}))
    found = unit.snapshot.steps[name]
    return [found] if found.status.state in (PENDING, ACTIVE) else []
