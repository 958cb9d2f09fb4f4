"""The steps of a reviewed plan: what roles are to do, and what failed before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.goal import Goal
from schemas.kinds.reviewed_plan_files import ItemStatus, QrFile, QrItem, Severity
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.strategies.reviewed_plan.milestones import RoleName
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, MAX_TITLE, fit
from tasks.toolchain.catalogue import render

MAX_SUCCESS = 1000
AGAIN = re.compile(r"-t\d+$")  # at the end of the id of a step that is tried again
_ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Brief:
    """The fixed part of a row: who does what, and where it leads."""

    number: int
    name: str
    role: RoleName | None = None  # None: the planner decides by itself
    title: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    guidance: str = ""
    fix: str = ""  # instead of the guidance, where the gate sent the work back
    checklist: tuple[str, ...] = ()
    ahead: str | None = None  # where a pass leads
    back: str | None = None  # where a fail leads


def suffix(iteration: int, part: int = 1) -> str:
    """End the id of a step so that no other round has it."""
    return (f"-r{iteration}" if iteration > 1 else "") + (f"-p{part}" if part > 1 else "")


def failed_items(file: QrFile | None) -> tuple[QrItem, ...]:
    """List what a review found wrong and nobody accepted, the gravest first."""
    items = [item for item in file.items if item.status is ItemStatus.FAIL and not item.accepted] if file else []
    return tuple(sorted(items, key=lambda item: _ORDER.index(item.severity)))


def guidance_for(brief: Brief, failed: Sequence[QrItem], constraints: Iterable[str]) -> str:
    """Return what to do, what binds it, what failed and what will be checked.

    It is cut at its end, where nothing stands that the step's material does not have as a whole. What binds a step may
    be long: it leaves half of the room to what failed.
    """
    first = brief.fix if failed and brief.fix else brief.guidance
    wrong = " ".join(f"Failed: {item.id} {item.severity} {item.check}: {item.finding}" for item in failed)
    room = MAX_GUIDANCE - len(first) - 6  # blanks between the parts, and the marks of a cut
    binding = fit(" ".join(f"Constraint: {each}" for each in constraints), max(room // 2, room - len(wrong)))
    check = f"Check: {'; '.join(brief.checklist)}." if brief.checklist else ""
    return fit(" ".join((first, binding, wrong, check)), MAX_GUIDANCE)


def role_step(brief: Brief, kind: StepType, step_id: str, goal: Goal, failed: Sequence[QrItem] = ()) -> PlannedStep:
    """Make a step whose controller reads and answers."""
    mode = MODE_OF_TYPE[kind]
    return PlannedStep(
        step_id=step_id,
        title=fit(brief.title, MAX_TITLE),
        intent=fit(f"{brief.title}: {goal.goal}", MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=kind, hint=brief.fix if failed and brief.fix else None),
        mode=mode,
        success_criteria=fit("; ".join(brief.checklist), MAX_SUCCESS),
        phase=brief.name,
        guidance=guidance_for(brief, failed, goal.constraints),
        queue=(brief.role or RoleName.REVIEWER).value,
        estimate=estimate(mode),
    )


def patch_step(
    brief: Brief,
    step_id: str,
    files: tuple[str, ...],
    *,
    title: str,
    intent: str,
    success: str,
    role: RoleName,
    level: RiskLevel,
    tools: tuple[VerifyTool, ...],
    guidance: str,
    depends_on: tuple[str, ...] = (),
    phase: str | None = None,
) -> PlannedStep:
    """Make a step that writes `files`; its risk is never below what they ask for."""
    risk = assess_declared(level, files)
    mode = MODE_OF_TYPE[StepType.PATCH]
    return PlannedStep(
        step_id=step_id,
        title=fit(title, MAX_TITLE),
        intent=fit(intent, MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=risk.level,
        controller_task_spec=ControllerTaskSpec(type=StepType.PATCH, target_file=files[0]),
        mode=mode,
        success_criteria=fit(success, MAX_SUCCESS),
        depends_on=depends_on,
        rollback_hint=ROLLBACK,
        phase=phase or brief.name,
        guidance=fit(explain_raise(risk, guidance) or guidance, MAX_GUIDANCE),
        verify_tools=tools,
        queue=role.value,
        estimate=estimate(mode),
    )
