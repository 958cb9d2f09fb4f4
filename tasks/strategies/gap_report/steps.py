"""The steps of an iteration: patches in the order of its actions, then the verification.

The last step lints, checks types and runs the tests, and so does the last patch, which is the one that can make them
pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.kinds.gap_report import ActionType, PlannedAction
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import RISK, ROLLBACK, assess_declared, estimate, explain_raise, is_below
from tasks.strategies.drafting.pieces import cut
from tasks.strategies.drafting.project import Check, only_documents
from tasks.strategies.gap_report.document import Iteration, level_of
from tasks.strategies.gap_report.verification import verification
from tasks.text.fields import MAX_INTENT, MAX_TITLE, fit
from tasks.toolchain.catalogue import render

EXPLORE_ID = "explore-scope"
VERIFY_ID = "verify"
MAX_CRITERIA = 1000

_DOES = {ActionType.CREATE: "Create", ActionType.MODIFY: "Change", ActionType.DELETE: "Delete"}
_ASKED = (
    "Find out which of the files that may change must change, and answer {{}}: their paths, as few as will do. {goal}"
)


@dataclass(frozen=True, slots=True)
class PatchPiece:
    """The files of one patch, and the action that it is a part of."""

    action: PlannedAction
    files: tuple[str, ...]
    level: RiskLevel
    part: str = ""  # such as ` (1 of 2)`


def must_explore(iteration: Iteration) -> bool:
    """Tell whether an action names no files, and too many may change."""
    allowed, actions = iteration.allowed, iteration.plan.actions
    if all(action.target_files for action in actions):
        return False
    return len(allowed) > RISK[_level(allowed, ActionType.MODIFY, iteration)].max_files


def pieces_of(iteration: Iteration) -> tuple[PatchPiece, ...]:
    """Cut every action by what the risk of its files allows, riskier ones first."""
    return tuple(piece for action in iteration.plan.actions for piece in _pieces(action, iteration))


def make_steps(iteration: Iteration, pieces: Sequence[PatchPiece]) -> tuple[PlannedStep, ...]:
    """Make one step per piece, in a row, and the verification of all."""
    steps: list[PlannedStep] = []
    files = tuple(dict.fromkeys(path for piece in pieces for path in piece.files))
    gone = {path for piece in pieces if piece.action.action_type is ActionType.DELETE for path in piece.files}
    left = tuple(path for path in files if path not in gone)
    whole = verification(iteration.plan.gap, iteration.project, left, iteration.checks, failed=iteration.failed)
    for number, piece in enumerate(pieces, 1):
        tools = whole if number == len(pieces) else _quick(iteration, piece)
        after = (steps[-1].step_id,) if steps else ()
        steps.append(_patch(iteration, piece, f"action-{number}", tools, after))
    return (*steps, _verify(iteration, whole, steps[-1].step_id))


def explore_step(iteration: Iteration) -> PlannedStep:
    """Make the step that finds out what an action is about."""
    asked = _ASKED.format(goal=_about(iteration, iteration.plan.actions[0].description)).replace("{}", '{"files": []}')
    step = _step(iteration, EXPLORE_ID, "Find the files to change", asked, StepType.EXPLORE)
    return step.model_copy(update={"success_criteria": "The files to change are named."})


def lacks_verification(steps: Sequence[PlannedStep]) -> bool:
    """Tell whether a patch lacks the verification that its risk asks for."""
    return any(step.allowed_files and RISK[step.risk_level].tests_required and not step.verify_tools for step in steps)


def _pieces(action: PlannedAction, iteration: Iteration) -> Iterator[PatchPiece]:
    if not action.target_files:  # whoever does it chooses among all that may change
        if iteration.allowed:
            yield PatchPiece(action, iteration.allowed, _level(iteration.allowed, ActionType.MODIFY, iteration))
        return
    files = tuple(path for path in iteration.allowed if path in action.target_files)
    parts = cut(files, lambda path: _level((path,), action.action_type, iteration))
    found = [PatchPiece(action, part, level) for part, level in parts]
    for number, piece in enumerate(found, 1):
        yield replace(piece, part=f" ({number} of {len(found)})") if len(found) > 1 else piece


def _level(files: Sequence[str], action: ActionType, iteration: Iteration) -> RiskLevel:
    worst = RiskLevel.LOW
    for path in files:
        level = assess_declared(level_of(path, action, failed=iteration.failed), (path,)).level
        worst = level if is_below(worst, level) else worst
    return worst


def _patch(
    iteration: Iteration, piece: PatchPiece, step_id: str, tools: tuple[VerifyTool, ...], after: tuple[str, ...]
) -> PlannedStep:
    step = _step(
        iteration, step_id, _title(piece), _about(iteration, piece.action.description), StepType.PATCH, tools, after
    )
    if only_documents(piece.files) and piece.level is RiskLevel.LOW:
        step = step.model_copy(update={"verify": "", "verify_tools": ()})
    declared = level_of(piece.files[0], piece.action.action_type, failed=iteration.failed)
    asked = ControllerTaskSpec(type=StepType.PATCH, target_file=piece.files[0], hint=_hint(piece))
    changes = {
        "allowed_files": piece.files,
        "risk_level": piece.level,
        "controller_task_spec": asked,
        "rollback_hint": ROLLBACK,
        "guidance": explain_raise(assess_declared(declared, piece.files), iteration.guidance),
    }
    return step.model_copy(update=changes)


def _title(piece: PatchPiece) -> str:
    does, description = _DOES[piece.action.action_type] if piece.action.target_files else "Do", piece.action.description
    said = description if description.casefold().startswith(does.casefold()) else f"{does}: {description}"
    return fit(said, MAX_TITLE - len(piece.part)) + piece.part


def _hint(piece: PatchPiece) -> str:
    if piece.action.target_files:
        return f"{_DOES[piece.action.action_type]} these files."
    return "Change those of these files that need it."


def _verify(iteration: Iteration, tools: tuple[VerifyTool, ...], after: str) -> PlannedStep:
    """Verify everything; where no tool can, somebody has to look."""
    kind = StepType.TEST if tools else StepType.REVIEW
    about = _about(iteration, f"Verify that this is done: {iteration.plan.gap.description}")
    return _step(iteration, VERIFY_ID, "Verify the iteration", about, kind, tools, (after,))


def _step(
    iteration: Iteration,
    step_id: str,
    title: str,
    intent: str,
    kind: StepType,
    tools: tuple[VerifyTool, ...] = (),
    after: tuple[str, ...] = (),
) -> PlannedStep:
    mode = MODE_OF_TYPE[kind]
    return PlannedStep(
        step_id=step_id,
        title=title,
        intent=intent,
        verify=render(tools),
        controller_task_spec=ControllerTaskSpec(type=kind),
        mode=mode,
        success_criteria=fit("; ".join(iteration.plan.acceptance_criteria), MAX_CRITERIA),
        depends_on=after,
        guidance=iteration.guidance,
        verify_tools=tools,
        queue=iteration.goal.queue,
        estimate=estimate(mode),
    )


def _about(iteration: Iteration, text: str) -> str:
    return fit(f"[{iteration.plan.iteration_id}] {text}", MAX_INTENT - 150)


def _quick(iteration: Iteration, piece: PatchPiece) -> tuple[VerifyTool, ...]:
    if piece.action.action_type is ActionType.DELETE:
        return iteration.project.tests  # what is gone cannot be looked at
    return iteration.project.check(Check.QUICK, piece.files)
