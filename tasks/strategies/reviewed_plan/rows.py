"""The kinds of rows in the workflow; each function makes one row with its handlers.

`enter` runs when the workflow reaches the row: it adds steps and waits, or decides and names the next row. `leave` runs
when the row's steps have ended. It raises AnswerRefused with the reason if their answer cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from schemas.base import StepType
from schemas.kinds.reviewed_plan import ContextAnswer, Reconciliation, ReviewContext, ReviewDocument, WorkAnswer
from schemas.kinds.reviewed_plan_answers import (
    context_schema,
    findings_schema,
    operations_schema,
    reconciliation_schema,
    work_schema,
)
from schemas.kinds.reviewed_plan_files import GateVerdict, ItemStatus, Plan, QrItem, QrPhase, Review
from schemas.step import PlannedStep
from tasks.strategies.drafting.steps import room_for
from tasks.strategies.reviewed_plan import gate
from tasks.strategies.reviewed_plan.decision import ask
from tasks.strategies.reviewed_plan.document import fill_context, forget, make_report, reconcile, tally
from tasks.strategies.reviewed_plan.implementation import WorkRound, path_of, round_of, steps_again
from tasks.strategies.reviewed_plan.integrity import gaps
from tasks.strategies.reviewed_plan.milestones import RoleName
from tasks.strategies.reviewed_plan.operations import AnswerRefused, Writer, apply
from tasks.strategies.reviewed_plan.state import Turn
from tasks.strategies.reviewed_plan.steps import Brief, failed_items, role_step, suffix
from tasks.strategies.reviewed_plan.words import explain, sum_up
from tasks.text.fields import fit

MENDED = "Write a separate item with your findings for each file that `input.mended` names: it was changed since."
CONTRADICTED = (
    "The last verdict was PASS, though MUST items are open. Decide these again: answer FAIL, or PASS each that is "
    "right. A second PASS with open items passes the gate as unverified:"
)
MAX_PARTS = 20  # answers of a role in one phase

Moved = tuple[Turn, str | None]  # with the row that follows; None: it waits, or the workflow is over
Enter = Callable[[Turn], Moved]
Leave = Callable[[Turn, Any], Moved]
Change = Callable[[ReviewDocument, int], ReviewDocument]  # of the document, at a time in ms


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """One row of the workflow: its constant part, and the handlers that enter, leave and repeat it."""

    brief: Brief
    enter: Enter
    leave: Leave
    phase: QrPhase | None = None  # of its gate
    reads_answer: bool = False  # its one step answers in `output`
    schema: Callable[[Plan], Mapping[str, Any]] | None = None  # of its steps' answers
    holds: tuple[str, ...] = ()  # the fields that no answer is without
    again: Callable[[Turn, str], Turn] | None = None  # tries its failed steps again, by a person's decision


def planner_step(brief: Brief, change: Callable[[Turn], Turn] | None = None) -> WorkflowRow:
    """Return a row without steps: the planner applies `change` and goes on."""

    def enter(turn: Turn) -> Moved:
        done = (change(turn) if change else turn).with_state(row=brief.name)
        if done.halt is not None:
            return done.with_phase(brief.name, done.halt[1]), None
        return done.with_phase(brief.name, "done"), brief.ahead

    return WorkflowRow(brief, enter, leave=lambda turn, _: (turn, None))


def context_step(brief: Brief) -> WorkflowRow:
    """Return a row that takes context.json from the goal, or lets the architect write it if the goal asks for this."""

    asked = replace(brief, role=RoleName.ARCHITECT)

    def enter(turn: Turn) -> Moved:
        if not turn.state.asks_context:
            return turn.with_state(row=brief.name).with_phase(brief.name, "done"), brief.ahead
        return turn.hand_out(brief.name, (role_step(asked, StepType.EXPLORE, brief.name, turn.goal),)), None

    def leave(turn: Turn, output: Any) -> Moved:
        turn = turn.with_state(asks_context=False)
        if turn.unreviewed:  # an operator let the step be
            return turn, brief.ahead
        said = _parse(ContextAnswer, output).context
        if said == ReviewContext():
            raise AnswerRefused("empty: the context has no text; name the goal, its scope and the parts out of scope")
        return turn.with_document(context=fill_context(turn.goal, said)), brief.ahead

    return WorkflowRow(brief, enter, leave, reads_answer=True, schema=lambda _: context_schema(), holds=("context",))


def execute_dispatch_step(brief: Brief, phase: QrPhase, then: Change | None = None) -> WorkflowRow:
    """Return a row with a step whose role writes plan.json by operations."""

    def enter(turn: Turn) -> Moved:
        if turn.state.review_first and turn.loop(phase).iteration == 1 and not any(gaps(turn.plan, phase)):
            return _written(turn.with_loop(phase, turn.loop(phase)).with_phase(brief.name, "it is there")), brief.ahead
        return _dispatch(turn.with_state(part=1)), None

    def _written(turn: Turn) -> Turn:
        return replace(turn, document=then(turn.document, turn.now)) if then else turn

    def _dispatch(turn: Turn) -> Turn:
        step_id = brief.name + suffix(turn.loop(phase).iteration, turn.state.part)
        step = role_step(brief, StepType.DRAFT, step_id, turn.goal, failed_items(turn.document.qr.get(phase)))
        if phase is QrPhase.PLAN_DESIGN:  # its role explores first
            step = step.model_copy(update={"goal_texts": True})
        return turn.with_loop(phase, turn.loop(phase)).hand_out(brief.name, (step,))

    def leave(turn: Turn, output: Any) -> Moved:
        if turn.unreviewed:  # an operator let the step be
            return turn, brief.ahead
        answer = _parse(WorkAnswer, output)
        writer = Writer(brief.writes, turn.now, frozenset(turn.allowed) or None)
        turn = turn.with_document(plan=apply(turn.plan, answer.operations, writer))
        if answer.more and turn.state.part < MAX_PARTS:
            return _dispatch(turn.with_state(part=turn.state.part + 1)), None
        if wanting := sum_up(gaps(turn.plan, phase)):
            raise AnswerRefused(wanting)
        return _written(turn), brief.ahead

    return WorkflowRow(
        brief,
        enter,
        leave,
        phase,
        reads_answer=True,
        schema=lambda _: operations_schema(brief.writes),
        holds=("operations",),
    )


def patch_dispatch_step(
    brief: Brief, phase: QrPhase, make: Callable[[WorkRound, int], tuple[PlannedStep, ...] | None]
) -> WorkflowRow:
    """Return a row with steps that change files, wave by wave.

    A wave is added in parts, each small enough for one commit.
    """

    def enter(turn: Turn) -> Moved:
        return _next(turn.with_loop(phase, turn.loop(phase)).with_state(wave=0, part=1))

    def leave(turn: Turn, _: Any) -> Moved:
        return _next(tally(turn).with_state(part=turn.state.part + 1, tries=0))

    def _next(turn: Turn) -> Moved:
        """Add the steps of the next part of a wave; after the last wave go to the next row."""
        work = round_of(turn, brief, phase)
        size = room_for(turn.goal, 0)
        while (wave := make(work, turn.state.wave)) is not None:
            start = (turn.state.part - 1) * size
            if part := wave[start : start + size]:
                names = {step.step_id for step in part}  # earlier parts have ended, so no step waits for them
                waits = [tuple(name for name in step.depends_on if name in names) for step in part]
                steps = [step.model_copy(update={"depends_on": own}) for step, own in zip(part, waits, strict=True)]
                return turn.hand_out(brief.name, tuple(steps)), None
            turn = turn.with_state(wave=turn.state.wave + 1, part=1)
        return turn, brief.ahead

    def again(turn: Turn, hint: str) -> Turn:
        tries = turn.state.tries + 1
        wave = make(round_of(turn, brief, phase), turn.state.wave) or ()
        steps = steps_again(wave, turn.state.ended, tries, hint, room_for(turn.goal, 0))
        return forget(turn).with_state(tries=tries, work_asked=False).hand_out(brief.name, steps)

    return WorkflowRow(brief, enter, leave, phase, schema=lambda _: work_schema(), again=again)


def qr_dispatch_step(brief: Brief, phase: QrPhase) -> WorkflowRow:
    """Return a row with a step whose reviewer decides the items of a phase."""

    def enter(turn: Turn) -> Moved:
        file = turn.file(phase)
        step_id = brief.name + suffix(file.iteration)
        step = role_step(brief, StepType.REVIEW, step_id, turn.goal, failed_items(file))
        if turn.state.mended:
            hint = step.controller_task_spec.model_copy(update={"hint": MENDED})
            step = step.model_copy(update={"controller_task_spec": hint})
        return turn.with_file(file).with_state(contradicted=False).hand_out(brief.name, (step,)), None

    def leave(turn: Turn, output: Any) -> Moved:
        if turn.unreviewed:
            return turn, brief.ahead
        review = _parse(Review, output)
        file = turn.file(phase)
        decided = gate.take_review(file, review, gate.severities_at(turn.state.schedule, file.iteration))
        said = {item.id for item in review.items}
        covered = {path_of(item) for item in decided.items if item.id in said}
        if left_out := [path for path in turn.state.mended if covered.isdisjoint((path, "*"))]:
            raise AnswerRefused(
                fit(f"incomplete: no item is about the changes of a repair: {', '.join(left_out)}", 900)
            )
        word, open_items = fit(review.verdict or "", 20) or None, gate.open_musts(decided)
        if word == GateVerdict.FAIL and all(item.status is ItemStatus.PASS for item in decided.items):
            raise AnswerRefused("contradiction: the verdict is FAIL, and no item names a failure")
        asked_again, turn = turn.state.contradicted, turn.with_state(mended=(), contradicted=False).with_file(decided)
        if word == GateVerdict.PASS and open_items and not asked_again:
            return _ask_again(turn, open_items), None
        return replace(turn, review=word), brief.ahead

    def _ask_again(turn: Turn, items: Sequence[QrItem]) -> Turn:
        """Return the turn with a second review, because open MUST findings contradict the reviewer's PASS."""
        file = gate.uncount(turn.file(phase))
        step = role_step(
            brief, StepType.REVIEW, f"{brief.name}{suffix(file.iteration)}-again", turn.goal, failed_items(file)
        )
        hint = f"{CONTRADICTED} {', '.join(item.id for item in items)}"
        spec = step.controller_task_spec.model_copy(update={"hint": fit(hint, 500)})
        step = step.model_copy(update={"controller_task_spec": spec})
        return turn.with_file(file).with_state(contradicted=True).hand_out(brief.name, (step,))

    return WorkflowRow(
        brief, enter, leave, phase, reads_answer=True, schema=lambda _: findings_schema(), holds=("items",)
    )


def qr_gate_step(brief: Brief, phase: QrPhase, then: Change | None = None) -> WorkflowRow:
    """Return a row that judges the items of a phase: the workflow goes on, goes back, or asks a person."""

    def enter(turn: Turn) -> Moved:
        severities = gate.severities_at(turn.state.schedule, turn.file(phase).iteration)
        file = gate.converge(turn.file(phase), severities, turn.state.cap)
        record = gate.judge(file, severities, turn.review)
        if turn.unreviewed:
            record = record.model_copy(update={"verdict": GateVerdict.SKIPPED})
        turn = turn.with_file(file).with_record(record).with_state(row=brief.name, open=(), ended=())
        if record.verdict is GateVerdict.PASS:
            return open_gate(turn, phase, then), brief.ahead
        turn = turn.with_loop(phase, gate.move(turn.loop(phase), passed=False))
        worn = [item for item in gate.capped_items(file, severities, turn.state.cap) if item.severity is gate.MUST]
        if worn or turn.unreviewed or record.iteration >= turn.loop(phase).limit:
            return ask(turn, phase, gate.blocking_items(file, severities)), None
        return turn, brief.back

    def leave(turn: Turn, _: Any) -> Moved:
        """Go to the next row, because a person let the gate pass."""
        return open_gate(turn, phase, then), brief.ahead

    return WorkflowRow(brief, enter, leave, phase)


def reconcile_step(brief: Brief) -> WorkflowRow:
    """Return the last row, with a step whose reviewer compares plan and outcome."""

    def enter(turn: Turn) -> Moved:
        step = role_step(brief, StepType.REVIEW, brief.name, turn.goal)
        return turn.hand_out(brief.name, (step,)), None

    def leave(turn: Turn, output: Any) -> Moved:
        if turn.unreviewed:
            return turn.with_document(report=make_report(turn.document, "COMPLETED")), brief.ahead
        return reconcile(turn, _parse(Reconciliation, output)), brief.ahead

    def schema(plan: Plan) -> Mapping[str, Any]:
        return reconciliation_schema([each.id for each in plan.milestones])

    return WorkflowRow(brief, enter, leave, reads_answer=True, schema=schema, holds=("milestones",))


def open_gate(turn: Turn, phase: QrPhase, then: Change | None) -> Turn:
    """Return the turn after a gate has passed: its review is dropped, and its result stays in the history."""
    turn = turn.with_loop(phase, gate.move(turn.loop(phase), passed=True)).with_state(mended=())
    turn = turn.with_document(qr={name: file for name, file in turn.document.qr.items() if name is not phase})
    if then is None:
        return turn
    turn = replace(turn, document=then(turn.document, turn.now))
    return turn.with_phase("plan.json", f"frozen at {turn.plan.frozen_at}") if turn.plan.frozen_at else turn


_FORMS = {
    ContextAnswer: '{"context": {"task_spec", "constraints", "entry_points", ...}}',
    WorkAnswer: '{"operations": [{"op", "entity", "id", "version", "value"}], "more": false}',
    Review: '{"items": [{"id", "scope", "check", "severity", "status", "finding"}], "verdict"}',
    Reconciliation: '{"milestones": [{"id", "outcome", "deviations"}], "summary"}',
}


def _parse(model: Any, output: Any) -> Any:
    try:
        return model.model_validate(output)
    except ValidationError as error:
        raise AnswerRefused(f"invalid: {explain(error)}", f"an object like {_FORMS[model]}") from error
