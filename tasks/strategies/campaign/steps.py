"""Makes the steps that draft and execute the tasks, and records how these steps end.

A SPEC or a BUILD patches its files, and a VERIFY runs tests. The guidance of a step names the budget of its task. Only
the last step of a task runs the task's whole verification, because earlier steps cannot pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from schemas.base import MODE_OF_TYPE, RiskLevel, StepState, StepType
from schemas.goal import Goal
from schemas.kinds.campaign import LEAST_CONFIDENCE, PlanTask, TaskStatus, TaskType
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import ROLLBACK, assess_declared, estimate, explain_raise
from tasks.rules.strategy import End
from tasks.strategies.campaign.parts import meant_for
from tasks.strategies.campaign.sequence import parents
from tasks.strategies.campaign.state import REPORTED, CampaignState, Knowledge, Setback
from tasks.strategies.campaign.verification import UNVERIFIED, goes_unverified, read_commands, spec_checks
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.cycle import draft_step
from tasks.strategies.drafting.pieces import PHASES, Piece, join_pieces, pieces
from tasks.strategies.drafting.project import Project
from tasks.text.blocked_report import BLOCKED, NO_REASON, blocked_report
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, MAX_TITLE, fill, fit, guidance, several_lines
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.command_lines import render

DRAFT = "draft"  # the step, and the campaign's wait while it runs; a replanned one ends in -r2
RETRIES = 1  # then the task is blocked, and the campaign is replanned before failures in a row end it
MAX_DELIVERED, MAX_REASON = 200, 100  # characters
MAX_TRACE = 500
MOST_TO_COME = 200  # files that judge the imports of tests

_ASKED = "Answer the prompt of this step's input in `output`, by its schema. Change nothing."
_INTENTS = {
    TaskType.SPEC: "Write the tests first, before the code that they test ({slug}), for: {goal}",
    TaskType.BUILD: "Implement this task alone ({slug}), so that its tests pass, for: {goal}",
    TaskType.VERIFY: "Run the verification of the whole campaign ({slug}) after: {goal}",
}
_SUCCESS = {
    TaskType.SPEC: "The tests check the wanted behaviour, are well-formed, and import nothing that no task creates.",
    TaskType.BUILD: "The code passes its tests, and the verification passes.",
    TaskType.VERIFY: "The verification passes.",
}
_TESTS_AGAIN = "Look at these tests again, and change them where they are wrong ({slug}), for: {goal}"
_TESTS_AGAIN_SUCCESS = "The tests check the objective, no more and no less, are well-formed, and can pass."
_WHY = "Find out why this task was blocked, without changing anything ({slug}), for: {goal}"
_WHY_SUCCESS = "The cause and the needed change of the task are named."
_REPORT = (
    'If you cannot go on, change nothing and answer {"status": "blocked", "reason": "...", "tried": "...", '
    '"unknown": "...", "discovery": "..."}.'
)
CANCELLED_AT = 2  # times the budget of a task, if that is a limit
_MAX_ID = 56  # characters of a step's id before its suffix
_DELIVERED = ("delivered", "summary", "result", "message")  # keys of a controller's report of its work
_SKIPPED = "skipped by an operator"


def drafting_step(goal: Goal, attempts: int, step_id: str = DRAFT) -> PlannedStep:
    """Return the step that lets a controller's agent write the tasks."""
    return draft_step(
        goal,
        step_id,
        title="Draft the tasks" if step_id == DRAFT else "Draft the tasks again",
        intent=fill("Answer the prompt of this step's input with the tasks of: {goal}", goal.goal, MAX_INTENT),
        guidance=_ASKED,
        attempts=attempts,
        success="The tasks are those of a plan that the planner accepts.",
    )


def redo_suffix(replans: int) -> str:
    """Return the suffix of the ids of replanned steps: `-r2` for the first replan."""
    return f"-r{replans + 1}"


@dataclass(frozen=True, slots=True)
class StepFrame:
    """The facts that all steps of one planning or replanning share."""

    known: Knowledge
    project: Project
    suffix: str = ""  # of their ids, where tasks come again
    exploring: Collection[str] = ()  # tasks that only find something out
    before: Mapping[str, Setback] | None = None  # what blocked tasks that come again
    waits: Mapping[str, Sequence[str]] | None = None  # the dependencies of every task of the campaign, repeated or not
    limits_calls: bool = False  # an attempt is cancelled at twice the budget of its task
    to_come: tuple[str, ...] = ()  # files that its BUILDs change: tests may import these before


def steps_of(tasks: Sequence[PlanTask], frame: StepFrame) -> dict[str, tuple[PlannedStep, ...]]:
    """Return the steps of each task, by the number of the task."""
    parts = {task.seq: _pieces(task, frame) for task in tasks}
    ends = {seq: list(some)[-1] for seq, some in parts.items()}  # dependencies outside of these are finished
    catalogue = frame.project.catalogue
    builds = (task for task in tasks if task.type is TaskType.BUILD)
    to_come = dict.fromkeys(path for task in builds for path in (*task.delta, *(task.creates or ())))
    frame = replace(frame, to_come=tuple(to_come)[:MOST_TO_COME])
    made: dict[str, tuple[PlannedStep, ...]] = {}
    for task in tasks:
        waits = _awaited(task, ends, frame.waits or {})
        tools = tuple(map(catalogue.separate, read_commands(task.verify, catalogue)))
        if task.type is TaskType.SPEC and task.seq not in frame.exploring:
            tools = spec_checks(frame.project, tools, (*task.delta, *(task.creates or ())))
        steps: list[PlannedStep] = []
        for step_id, piece in parts[task.seq].items():
            if step_id == ends[task.seq]:
                own = tools
            elif goes_unverified(piece.files):
                own = ()
            else:
                own = frame.project.own_checks(piece.files, whole=False) or tools
            steps.append(_step(task, step_id, frame, piece=piece, tools=own, depends_on=waits))
            waits = (step_id,)
        made[task.seq] = tuple(join_pieces(steps))
    connected = iter(connect_answers([step for some in made.values() for step in some]))
    return {seq: tuple(islice(connected, len(some))) for seq, some in made.items()}


def _awaited(task: PlanTask, ends: Mapping[str, str], waits: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the last step of each task that `task` waits for; a finished task is replaced by its own dependencies."""
    names = [*parents(task.depends)]
    for name in names:  # the list grows meanwhile
        if name not in ends:
            names += (each for each in waits.get(name, ()) if each not in names)
    return tuple(ends[name] for name in names if name in ends)


def _pieces(task: PlanTask, frame: StepFrame) -> dict[str, Piece]:
    """Return the parts of a task's files that one step may touch, each by the id of its step.

    If the files need several parts, a last step without files runs the task's verification.
    """
    if task.type is TaskType.VERIFY or task.seq in frame.exploring:
        parts: tuple[Piece, ...] = (Piece((), RiskLevel.LOW),)
    else:
        parts = pieces(tuple(dict.fromkeys((*task.delta, *(task.creates or ())))))
    name = f"{task.seq}-{task.slug}"[:_MAX_ID].rstrip("-")
    if len(parts) == 1:
        return {name + frame.suffix: parts[0]}
    found = {f"{name}-{number}{frame.suffix}": piece for number, piece in enumerate(parts, 1)}
    if task.verify != UNVERIFIED:
        found[f"{name}-check{frame.suffix}"] = Piece((), RiskLevel.LOW)
    return found


def _step(
    task: PlanTask,
    step_id: str,
    frame: StepFrame,
    *,
    piece: Piece,
    tools: tuple[VerifyTool, ...],
    depends_on: tuple[str, ...],
) -> PlannedStep:
    exploring, files, phase = task.seq in frame.exploring, piece.files, piece.phase
    kind = StepType.EXPLORE if exploring else StepType.PATCH if files else StepType.TEST
    mode = MODE_OF_TYPE[kind]
    tools = () if exploring else tools
    goal, slug = frame.project.goal, task.slug.replace("-", " ")
    # Only the goal's words are truncated if the sentence is too long.
    reading = meant_for(task, frame.known)
    meant = f" (what is meant: {reading})" if reading else ""
    rewrites = _rewrites_tests(task, frame)
    asked = _WHY if exploring else _TESTS_AGAIN if rewrites else _INTENTS[task.type]
    success = _WHY_SUCCESS if exploring else _TESTS_AGAIN_SUCCESS if rewrites else _SUCCESS[task.type]
    sentence = asked.replace("{slug}", slug) + meant
    is_collected = task.type is TaskType.SPEC and any(tool.tool == COLLECTS for tool in tools)
    return PlannedStep(
        step_id=step_id,
        title=fit(f"{task.seq} {slug}", MAX_TITLE),
        intent=fit(fill(sentence, fit(goal.goal, MAX_INTENT), MAX_INTENT), MAX_INTENT),
        allowed_files=files,
        verify=render(tools),
        risk_level=piece.level,
        controller_task_spec=ControllerTaskSpec(
            type=kind, target_file=files[0] if files else None, hint=PHASES[phase] if phase else None
        ),
        mode=mode,
        success_criteria=success,
        depends_on=depends_on,
        rollback_hint=ROLLBACK if files else None,
        phase=phase,
        guidance=fit(
            explain_raise(assess_declared(RiskLevel.LOW, files), _guidance(task, files, frame)) or "", MAX_GUIDANCE
        ),
        verify_tools=tools,
        retry_limit=RETRIES,
        queue=goal.queue,
        estimate=estimate(mode),
        allow_empty=rewrites,  # the code under test may have been wrong instead
        collects=frame.to_come if is_collected else (),
        tool_calls=CANCELLED_AT * task.budget if frame.limits_calls else 0,
    )


def _rewrites_tests(task: PlanTask, frame: StepFrame) -> bool:
    """Return whether a task is repeated because its tests kept another one from passing."""
    before = (frame.before or {}).get(task.seq)
    return task.type is TaskType.SPEC and before is not None and before.task != task.seq


def _guidance(task: PlanTask, files: Sequence[str], frame: StepFrame) -> str:
    """Return the guidance for the controller of a task, most important facts first."""
    known, constraints = frame.known, frame.project.goal.constraints
    before, asked, banned = (frame.before or {}).get(task.seq), known.idioms.required, known.idioms.forbidden
    idioms = [f"use {'; '.join(asked)}"] if asked else []
    idioms += [f"never use {'; '.join(banned)}"] if banned else []
    doubt = "" if known.confidence >= LEAST_CONFIDENCE else ", which is not sure"
    target = ""
    if task.type is TaskType.BUILD and files:
        lines_of = task.target_lines or {}
        lines = [f"{path} lines {lines_of[path]}" for path in files if path in lines_of]
        target = ", ".join(lines[:5]) or f"the first 20 definitions of {files[0]}"
    parts = (
        f"Use at most {task.budget} tool calls.",
        _was_blocked(before, task.seq) if before else "",
        _REPORT if files or task.seq in frame.exploring else "",
        f"It is for these sections of the objective: {'; '.join(task.sections)}." if task.sections else "",
        f"Look at {target} first." if target else "",
        f"Run before you begin: {'; '.join(task.preflight)}." if task.preflight else "",
        f"Idioms of {known.framework}{doubt}: {', '.join(idioms)}." if files and idioms else "",
        f"Keep in mind: {guidance(constraints)}." if constraints else "",
        f"Earlier failures: {'; '.join(known.failures)}." if known.failures else "",
        f"What worked before: {'; '.join(known.patterns)}." if known.patterns else "",
    )
    return " ".join(filter(None, parts))


def _was_blocked(before: Setback, seq: str) -> str:
    if before.task == seq or not before.category:
        return f"It was blocked before: {before.reason}."
    tests = f" ({', '.join(before.failing_tests)})" if before.failing_tests else ""
    return f"Task {before.task} could not pass{tests}: {before.reason}."


def tasks_of(document: Mapping[str, Any] | None) -> tuple[PlanTask, ...]:
    """Return the tasks in a campaign's document."""
    return tuple(PlanTask.model_validate(each) for each in (document or {}).get("tasks", ()))


def task_of(state: CampaignState, step_id: str) -> str | None:
    """Return the number of the task that a step belongs to; None if the step has ended or is of no task."""
    return next((seq for seq, each in state.progress.items() if step_id in each.steps), None)


def complete_tasks(state: CampaignState) -> frozenset[str]:
    """Return the numbers of the complete tasks."""
    return frozenset(seq for seq, each in state.progress.items() if each.status is TaskStatus.COMPLETE)


def note_end(state: CampaignState, seq: str, end: End, document: Mapping[str, Any]) -> CampaignState:
    """Return the state after the end of one step of the task `seq`."""
    task, skipped = state.progress[seq], end.state == StepState.SKIPPED
    left = tuple(step_id for step_id in task.steps if step_id != end.step_id)
    used = task.tool_calls if end.tool_calls is None else (task.tool_calls or 0) + end.tool_calls
    budget = next((each.budget for each in tasks_of(document) if each.seq == seq), used)
    beyond = used - budget if used is not None and budget is not None and used > budget else None
    update: dict[str, Any] = {"steps": left, "tool_calls": used, "beyond_budget": beyond}
    if task.status is TaskStatus.BLOCKED:
        pass  # ends after the blocking step add nothing
    elif end.state == StepState.FAILED:
        setback = _setback(seq, end)
        update |= {"status": TaskStatus.BLOCKED, "setback": setback, "reason": setback.reason}
    elif skipped and (blocker := _blocker(state, seq, document)):
        update |= {"status": TaskStatus.BLOCKED, "blocked_by": blocker}
    elif left:
        update |= {"status": TaskStatus.IN_PROGRESS, "delivered": _delivery(end.output) or task.delivered}
    else:  # the step that verifies several patches delivers nothing itself
        said = _delivery(end.output) or task.delivered
        update |= {"status": TaskStatus.COMPLETE, "delivered": _SKIPPED if skipped else said}
    return state.model_copy(update={"progress": {**state.progress, seq: task.model_copy(update=update)}})


def _blocker(state: CampaignState, seq: str, document: Mapping[str, Any]) -> str | None:
    """Return the blocked dependency that made the planner skip a task; None if an operator skipped the task."""
    waits = {task.seq: parents(task.depends) for task in tasks_of(document)}
    blocked = {other for other, each in state.progress.items() if each.status is TaskStatus.BLOCKED}
    return next((other for other in waits.get(seq, ()) if other in blocked), None)


def _delivery(output: Any) -> str | None:
    """Return a controller's report of its delivery, in a few words."""
    said = output
    if isinstance(output, dict):
        said = next((output[name] for name in _DELIVERED if isinstance(output.get(name), str)), None)
    return (fit(said[: MAX_DELIVERED * 5], MAX_DELIVERED) or None) if isinstance(said, str) else None


def blocked_reason(output: Any) -> str | None:
    """Return the reason in a controller's report that its task is blocked; None without such a report."""
    report = blocked_report(output)
    return _short(report["reason"]) if report else None


def _setback(seq: str, end: End) -> Setback:
    """Return the failure that blocked a task, with the details of the failed attempt and of its controller's report."""
    report, failure = blocked_report(end.output), end.failure or {}
    update: dict[str, Any] = {
        "category": fit(failure.get("category") or "", MAX_REASON) or None,
        "failing_tests": tuple(filter(None, (fit(test, MAX_TRACE) for test in failure.get("failing_tests") or ()))),
        "trace": fit(failure.get("trace") or "", MAX_TRACE, several_lines) or None,
    }
    reported = {name: report.get(name) for name in REPORTED[1:]} if report else {}
    return Setback(task=seq, reason=_reason(end)).model_copy(update=update | reported)


def _reason(end: End) -> str:
    """Return why a task was blocked: by its controller's report, else by its failure."""
    failure = end.failure or {}
    reported = blocked_reason(end.output) or (NO_REASON if _is_unexplained(end.output) else None)
    said = (reported, failure.get("trace"), failure.get("suggestion"), failure.get("category"))
    return next((_short(each) for each in said if isinstance(each, str) and each.strip()), "it failed")


def _is_unexplained(output: Any) -> bool:
    """Return whether a controller reports a block without a reason."""
    if not isinstance(output, dict) or output.get("status") != BLOCKED:
        return False
    reason = output.get("reason")
    return not isinstance(reason, str) or not reason.strip()


def _short(text: str) -> str:
    return fit(text[: MAX_REASON * 10], MAX_REASON)
