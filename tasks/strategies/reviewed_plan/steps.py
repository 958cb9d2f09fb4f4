"""Makes the steps of a reviewed plan from the work of their role and the failed items of the last review."""

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
from tasks.toolchain.command_lines import render

MAX_SUCCESS = 1000
AGAIN = re.compile(r"-t\d+$")  # at the end of the id of a step that is tried again
_ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Brief:
    """The constant part of a row: its role, its work, and the next rows after a pass and after a fail."""

    number: int
    name: str
    role: RoleName | None = None  # None: the planner decides by itself
    title: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    guidance: str = ""
    fix: str = ""  # in place of the guidance, if the gate sent the work back
    checklist: tuple[str, ...] = ()
    ahead: str | None = None  # the next row after a pass
    back: str | None = None  # the next row after a fail


def suffix(iteration: int, part: int = 1) -> str:
    """Return the end of a step's id that differs in each iteration and part; empty in the first."""
    return (f"-r{iteration}" if iteration > 1 else "") + (f"-p{part}" if part > 1 else "")


def failed_items(file: QrFile | None) -> tuple[QrItem, ...]:
    """Return the failed items of a review that no person accepted, gravest first."""
    items = [item for item in file.items if item.status is ItemStatus.FAIL and not item.accepted] if file else []
    return tuple(sorted(items, key=lambda item: _ORDER.index(item.severity)))


def guidance_for(brief: Brief, failed: Sequence[QrItem], constraints: Iterable[str]) -> str:
    """Return the guidance of a step: its work, constraints, failed items and checks.

    The end is cut if it is too long, since the step's material contains the complete text. Constraints get the space
    that failed items leave, and at least half.
    """
    first = brief.fix if failed and brief.fix else brief.guidance
    wrong = " ".join(f"Failed: {item.id} {item.severity} {item.check}: {item.finding}" for item in failed)
    room = MAX_GUIDANCE - len(first) - 6  # blanks between the parts, and the marks of a cut
    binding = fit(" ".join(f"Constraint: {each}" for each in constraints), max(room // 2, room - len(wrong)))
    check = f"Check: {'; '.join(brief.checklist)}." if brief.checklist else ""
    return fit(" ".join((first, binding, wrong, check)), MAX_GUIDANCE)


def role_step(brief: Brief, kind: StepType, step_id: str, goal: Goal, failed: Sequence[QrItem] = ()) -> PlannedStep:
    """Return a step that changes no files: the controller of its role reads the material and answers."""
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
    """Return a step that changes `files`; its risk is at least the risk of these files."""
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
