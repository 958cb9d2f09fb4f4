"""Tasks become governed steps: SPEC and BUILD patch their delta, VERIFY tests, and each says how much it may use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.campaign import LEAST_CONFIDENCE, TaskType
from schemas.campaign_plan import PlanTask
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.assessment import raised, told
from tasks.rules.risk import ROLLBACK, estimate
from tasks.strategies.campaign.commands import verifications
from tasks.strategies.campaign.dag import parents
from tasks.strategies.campaign.state import Known
from tasks.strategies.drafting.pieces import PHASES, Piece, pieces
from tasks.strategies.drafting.project import Check, Project
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, MAX_TITLE, filled, fit, guidance
from tasks.toolchain.catalogue import render

_INTENTS = {
    TaskType.SPEC: "Write the tests first, before the code that they test ({slug}), for: {goal}",
    TaskType.BUILD: "Implement this task alone ({slug}), so that its tests pass, for: {goal}",
    TaskType.VERIFY: "Run the verification of the whole campaign ({slug}) after: {goal}",
}
_SUCCESS = {
    TaskType.SPEC: "The tests say what is wanted, and are well-formed.",
    TaskType.BUILD: "The code does what its tests say, and the verification passes.",
    TaskType.VERIFY: "The verification passes.",
}
_WHY = "Find out why this task was blocked, without changing anything ({slug}), for: {goal}"
_WHY_SUCCESS = "The cause is named, and what the task has to do otherwise."
RETRIES = 1  # then the task is blocked, and the campaign is planned anew before failures in a row end it
_MAX_ID = 56  # of a step's id, before what is appended to it


@dataclass(frozen=True, slots=True)
class Frame:
    """What is the same for all steps that are made at once."""

    known: Known
    project: Project
    suffix: str = ""  # of their ids, where tasks come again
    exploring: Collection[str] = ()  # tasks that only find something out
    reasons: Mapping[str, str] | None = None  # why tasks were blocked before


def steps_of(tasks: Sequence[PlanTask], frame: Frame) -> dict[str, tuple[PlannedStep, ...]]:
    """Make the steps of each of `tasks`; what they wait for beyond these is over."""
    ids = {task.seq: _ids(task, frame) for task in tasks}
    ends = {seq: names[-1] for seq, names in ids.items()}
    return {task.seq: tuple(_steps(task, ids[task.seq], ends, frame)) for task in tasks}


def _ids(task: PlanTask, frame: Frame) -> tuple[str, ...]:
    name = f"{task.seq}-{task.slug}"[:_MAX_ID].rstrip("-")
    count = len(_pieces(task, frame))
    if count == 1:
        return (name + frame.suffix,)
    return tuple(f"{name}-{part}{frame.suffix}" for part in range(1, count + 1))


def _pieces(task: PlanTask, frame: Frame) -> tuple[Piece, ...]:
    """Split what a task changes into what one step may touch; what changes nothing is one step."""
    if task.type is TaskType.VERIFY or task.seq in frame.exploring:
        return (Piece((), RiskLevel.LOW),)
    return pieces(tuple(dict.fromkeys((*task.delta, *(task.creates or ())))))


def _steps(task: PlanTask, ids: Sequence[str], ends: Mapping[str, str], frame: Frame) -> Iterator[PlannedStep]:
    """Make the steps of a task, one after the other; only the last can pass its verification, so only it must."""
    waits = tuple(ends[seq] for seq in parents(task.depends) if seq in ends)
    catalogue = frame.project.catalogue
    tools = tuple(map(catalogue.separated, verifications(task.verify, catalogue)))
    for step_id, piece in zip(ids, _pieces(task, frame), strict=True):
        own = tools if step_id == ids[-1] else frame.project.check(Check.QUICK, piece.files) or tools
        yield _step(task, step_id, frame, piece=piece, tools=own, depends_on=waits)
        waits = (step_id,)


def _step(
    task: PlanTask,
    step_id: str,
    frame: Frame,
    *,
    piece: Piece,
    tools: tuple[VerifyTool, ...],
    depends_on: tuple[str, ...],
) -> PlannedStep:
    exploring, files, phase = task.seq in frame.exploring, piece.files, piece.phase
    kind = StepType.EXPLORE if exploring else StepType.PATCH if files else StepType.TEST
    mode = MODE_OF_TYPE[kind]
    tools = () if exploring else tools
    return PlannedStep(
        step_id=step_id,
        title=fit(f"{task.seq} {task.slug.replace('-', ' ')}", MAX_TITLE),
        intent=_intent(_WHY if exploring else _INTENTS[task.type], task, frame),
        allowed_files=files,
        verify=render(tools),
        risk_level=piece.level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=files[0] if files else None, hint=PHASES[phase] if phase else None
        ),
        mode=mode,
        success_criteria=_WHY_SUCCESS if exploring else _SUCCESS[task.type],
        depends_on=depends_on,
        rollback_hint=ROLLBACK if files else None,
        phase=phase,
        guidance=fit(told(raised(RiskLevel.LOW, files), _guidance(task, files, frame)) or "", MAX_GUIDANCE),
        verify_tools=tools,
        retry_limit=RETRIES,
        queue=frame.project.goal.queue,
        estimate=estimate(mode),
    )


def _intent(sentence: str, task: PlanTask, frame: Frame) -> str:
    """Say what is wanted: the goal's words, cut if need be, and the reading of them that is meant, which is not."""
    meant = f" (what is meant: {frame.known.reading})" if frame.known.reading else ""
    sentence = sentence.replace("{slug}", task.slug.replace("-", " ")) + meant
    return fit(filled(sentence, fit(frame.project.goal.goal, MAX_INTENT), MAX_INTENT), MAX_INTENT)


def _guidance(task: PlanTask, files: Sequence[str], frame: Frame) -> str:
    """Put together what a controller is told of a task, what matters most first."""
    known = frame.known
    parts = (
        f"Use at most {task.budget} tool calls.",
        _of_failure((frame.reasons or {}).get(task.seq)),
        _of_targets(task, files),
        f"Run before you begin: {'; '.join(task.preflight)}." if task.preflight else "",
        _of_idioms(known) if files else "",
        f"Keep in mind: {guidance(frame.project.goal.constraints)}." if frame.project.goal.constraints else "",
        f"Earlier failures: {'; '.join(known.failures)}." if known.failures else "",
        f"What worked before: {'; '.join(known.patterns)}." if known.patterns else "",
    )
    return " ".join(filter(None, parts))


def _of_failure(reason: str | None) -> str:
    return f"It was blocked before: {reason}." if reason else ""


def _of_targets(task: PlanTask, files: Sequence[str]) -> str:
    if task.type is not TaskType.BUILD or not files:
        return ""
    lines_of = task.target_lines or {}
    lines = [f"{path} lines {lines_of[path]}" for path in files if path in lines_of]
    if not lines:
        return f"Look at the first 20 definitions of {files[0]} first."
    return f"Look at {', '.join(lines[:5])} first."


def _of_idioms(known: Known) -> str:
    idioms = known.idioms
    asked = f"use {'; '.join(idioms.required)}" if idioms.required else ""
    banned = f"never use {'; '.join(idioms.forbidden)}" if idioms.forbidden else ""
    if not asked and not banned:
        return ""
    doubt = "" if known.confidence >= LEAST_CONFIDENCE else ", which is not sure"
    return f"Idioms of {known.framework}{doubt}: {', '.join(filter(None, (asked, banned)))}."
