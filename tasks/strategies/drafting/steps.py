"""Turns drafted steps into governed steps.

A step may only change files that the goal allows. A step that names no files gets all of these if its risk allows it.
Otherwise it is `unplaced`: another step has to find its files first. If a step names more files than one step may
change, it becomes several steps. The goal's own tests run at the end, after any verification of the drafter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import RISK, ROLLBACK, assess_declared, estimate, explain_raise
from tasks.rules.strategy import MAX_EXPANSION
from tasks.rules.validation import max_steps
from tasks.strategies.drafting.order import NamedStep, free_name, order_steps
from tasks.strategies.drafting.pieces import PHASES, Piece, fits_one_piece, fits_one_step, join_pieces, pieces
from tasks.strategies.drafting.project import Check, Project, commands_in, keep_permitted, only_documents
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, MAX_TITLE, fill, fit
from tasks.text.paths import clean
from tasks.toolchain.command_lines import render

MAX_HINT = 1000
MAX_SUCCESS = 1000
NOT_PLACED = "none of its files may be changed, so it only reads"
LEFT_OUT = "some of its files may not be changed and are left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedStep:
    """A step in its drafter's words, of any kind of plan."""

    name: str
    title: str
    intent: str
    actions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GovernedSteps:
    """The steps made from a draft, the faults and changes of the draft, and the drafted steps that name no files."""

    steps: tuple[PlannedStep, ...]
    faults: tuple[tuple[str, str], ...] = ()  # pointer and sentence: the drafter should repair these
    notes: tuple[tuple[str, str], ...] = ()  # changes without a question
    unplaced: tuple[int, ...] = ()  # positions of the steps that name no files
    parts: tuple[int, ...] = ()  # for each step the position of its drafted one


@dataclass(frozen=True, slots=True)
class _Place:
    """The files of a drafted step; a step without files only reads."""

    files: tuple[str, ...]
    fault: str = ""
    note: str = ""
    unknown: bool = False


def govern(
    project: Project,
    drafted: Sequence[DraftedStep],
    taken: frozenset[str] = frozenset(),
    found: Mapping[int, tuple[str, ...]] | None = None,
    *,
    verified_later: bool = True,
) -> GovernedSteps:
    """Return governed steps for the drafted steps.

    `found` maps positions of drafted steps to files that a search found. `taken` contains ids that are in use.
    `verified_later` is true if a last step verifies everything. If a step is unplaced, no steps are made, because
    dependent steps are made together.
    """
    used = set(taken)
    order = order_steps([NamedStep(step.name, step.title, step.waits) for step in drafted], used)
    places = [_place(project, step, (found or {}).get(at)) for at, step in enumerate(drafted)]
    faults = order.faults + tuple((f"/steps/{at}/files", each.fault) for at, each in enumerate(places) if each.fault)
    notes = tuple((f"/steps/{at}/files", each.note) for at, each in enumerate(places) if each.note)
    unplaced = tuple(at for at, each in enumerate(places) if each.unknown)
    if unplaced:
        return GovernedSteps((), faults, notes, unplaced)
    ends: dict[int, str] = {}
    made: dict[int, tuple[PlannedStep, ...]] = {}
    left = list(range(len(drafted)))
    while left:
        at = next(each for each in left if all(waited in ends for waited in order.waits[each]))
        left.remove(at)
        waits = tuple(ends[waited] for waited in order.waits[at])
        make = _pieces_by_own_files if verified_later and not fits_one_piece(places[at].files) else _steps
        made[at] = make(project, drafted[at], order.ids[at], places[at].files, waits, used)
        ends[at] = made[at][-1].step_id
    placed = [(step, at) for at in range(len(drafted)) for step in made[at]]
    return GovernedSteps(tuple(step for step, _ in placed), faults, notes, parts=tuple(at for _, at in placed))


def room_for(goal: Goal, before: int) -> int:
    """Return how many steps one expansion may add to a plan with `before` steps."""
    return min(MAX_EXPANSION, max_steps(goal) - before)


def crowd(
    steps: Sequence[PlannedStep], room: int, what: str = "The plan's files", pointer: str = "/steps"
) -> tuple[FieldError, ...]:
    """Return an error if there are more than `room` steps; `what` names their origin in the message."""
    if len(steps) <= room:
        return ()
    return (field_error(pointer, "too_many_steps", f"{what} make {len(steps)} steps, and there is room for {room}."),)


def last_check(
    project: Project, steps: Sequence[PlannedStep], tools: tuple[VerifyTool, ...], step_id: str, about: str
) -> tuple[PlannedStep, ...]:
    """Return a step that runs `tools` after all of `steps`; none if the last step runs them or no code changed."""
    changed = tuple(path for step in steps for path in step.allowed_files)
    if not tools or not changed or only_documents(changed):
        return ()
    awaited = {name for step in steps for name in step.depends_on}
    ends = [step for step in steps if step.step_id not in awaited]
    if len(ends) == 1 and {tool.key for tool in tools} <= {tool.key for tool in ends[0].verify_tools}:
        return ()
    levels = {project.catalogue.contracts[tool.tool].min_risk for tool in tools}
    mode = MODE_OF_TYPE[StepType.TEST]
    return (
        PlannedStep(
            step_id=step_id,
            title="Verify the plan as a whole",
            intent=fill("Verify all that was changed for: {goal}", fit(about, MAX_INTENT), MAX_INTENT),
            verify=render(tools),
            risk_level=max(levels, key=tuple(RISK).index),
            controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
            mode=mode,
            success_criteria="Every test passes.",
            depends_on=tuple(step.step_id for step in ends),
            verify_tools=tools,
            queue=project.goal.queue,
            estimate=estimate(mode),
        ),
    )


def _place(project: Project, step: DraftedStep, found: tuple[str, ...] | None) -> _Place:
    named = step.files or found
    if named is None:
        whole = fits_one_step(project.files)
        return _Place(project.files if whole else (), unknown=not whole)
    wanted = tuple(dict.fromkeys(map(clean, named)))
    allowed = frozenset(project.files)
    files = tuple(path for path in wanted if path in allowed)
    if not files:
        return _Place((), fault="" if found == () else "none of these files is among the allowed ones", note=NOT_PLACED)
    return _Place(files, note=LEFT_OUT if len(files) < len(wanted) else "")


def _steps(
    project: Project, step: DraftedStep, step_id: str, files: tuple[str, ...], waits: tuple[str, ...], used: set[str]
) -> tuple[PlannedStep, ...]:
    """Return the steps of a drafted step: one, or a sequence with one for each part of its files."""
    parts = pieces(files) or (Piece((), RiskLevel.LOW),)
    made: list[PlannedStep] = []
    for number, piece in enumerate(parts, 1):
        name = step_id if len(parts) == 1 else free_name(f"{step_id}-{number}", used)
        tools = _tools(project, step, piece, last=number == len(parts)) if files else ()
        made.append(_step(project, step, name, piece, tools, (made[-1].step_id,) if made else waits))
    return tuple(join_pieces(made))


def _pieces_by_own_files(
    project: Project, step: DraftedStep, step_id: str, files: tuple[str, ...], waits: tuple[str, ...], used: set[str]
) -> tuple[PlannedStep, ...]:
    """Return a step for each part of the files, and a last step that runs the drafter's verification.

    A part is verified by its own files alone.
    """
    made: list[PlannedStep] = []
    for number, piece in enumerate(pieces(files), 1):
        usual = () if only_documents(piece.files) else project.own_checks(piece.files, whole=False)
        tools = keep_permitted(usual, project.catalogue, piece.level)
        name = free_name(f"{step_id}-{number}", used)
        made.append(_step(project, step, name, piece, tools, (made[-1].step_id,) if made else waits))
    asked = project.placed(commands_in(step.validation, project.catalogue, files, RiskLevel.HIGH))
    if not asked:
        return tuple(join_pieces(made))
    return (*join_pieces(made), *last_check(project, made, asked, free_name(f"{step_id}-check", used), step.intent))


def _tools(project: Project, step: DraftedStep, piece: Piece, *, last: bool) -> tuple[VerifyTool, ...]:
    """Return the tools of one part of a step: quick checks, or the drafter's or the project's tests for the last part.

    A part with only documents gets no tools.
    """
    if not last:
        usual = () if only_documents(piece.files) else project.check(Check.QUICK, piece.files)
    else:
        own = project.placed(commands_in(step.validation, project.catalogue, piece.files, piece.level))
        usual = own or (() if only_documents(piece.files) else project.tests)
    return keep_permitted(usual, project.catalogue, piece.level)


def _step(
    project: Project,
    step: DraftedStep,
    step_id: str,
    piece: Piece,
    tools: tuple[VerifyTool, ...],
    waits: tuple[str, ...],
) -> PlannedStep:
    kind = StepType.PATCH if piece.files else StepType.READ
    mode = MODE_OF_TYPE[kind]
    phase = f"{PHASES[piece.phase]} " if piece.phase else ""
    asked = fit(phase + _listed(step.actions), MAX_HINT)
    cautions = explain_raise(
        assess_declared(RiskLevel.LOW, piece.files), _listed((*project.goal.constraints, *step.cautions))
    )
    return PlannedStep(
        step_id=step_id,
        title=fit(step.title, MAX_TITLE) or step_id,
        intent=fit(step.intent, MAX_INTENT) or step_id,
        allowed_files=piece.files,
        verify=render(tools),
        risk_level=piece.level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=piece.files[0] if piece.files else None, hint=asked or None
        ),
        mode=mode,
        success_criteria=fit(_listed(step.validation), MAX_SUCCESS),
        depends_on=waits,
        rollback_hint=ROLLBACK if piece.files else None,
        phase=piece.phase,
        guidance=fit(cautions or "", MAX_GUIDANCE) or None,
        verify_tools=tools,
        queue=project.goal.queue,
        estimate=estimate(mode),
    )


def _listed(lines: Sequence[str]) -> str:
    return "; ".join(line.strip() for line in lines if line.strip())
