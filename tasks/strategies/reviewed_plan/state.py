"""A turn of the workflow: what is known, kept, and comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.base import Mode
from schemas.goal import Goal
from schemas.kinds.reviewed_plan import Loop, ReviewContext, ReviewDocument, ReviewedPlanInput, ReviewState, Workflow
from schemas.kinds.reviewed_plan_files import GateRecord, Plan, QrFile, QrPhase
from schemas.step import PlannedStep
from tasks.rules.budget import limits_of
from tasks.rules.strategy import Expansion, LivePlan, Phase, Question
from tasks.strategies.drafting.project import Project, read_test_command
from tasks.strategies.reviewed_plan.gate import schedule_of
from tasks.toolchain.catalogue import Catalogue

MAX_RETRIES = 5  # where no limit of the goal says less


@dataclass(frozen=True, slots=True)
class Turn:
    """The workflow between two answers; a handler makes the next turn of it."""

    goal: Goal
    allowed: tuple[str, ...]  # the goal's files, literal
    catalogue: Catalogue
    now: int  # ms
    state: ReviewState
    document: ReviewDocument
    steps: tuple[PlannedStep, ...] = ()
    phases: tuple[Phase, ...] = ()
    question: Question | None = None
    halt: tuple[str, str, Mapping[str, Any]] | None = None
    review: str | None = None  # the word of the review that has just ended
    unreviewed: bool = False  # it ended without one

    @property
    def plan(self) -> Plan:
        """plan.json as it is now."""
        return self.document.plan

    def loop(self, phase: QrPhase) -> Loop:
        """The loop of a gate; a new one where it has not begun."""
        return self.state.loops.get(phase) or Loop(limit=self.state.max_iterations)

    def file(self, phase: QrPhase) -> QrFile:
        """qr-{phase}.json at the iteration of its loop; an empty one before the first review."""
        found = self.document.qr.get(phase) or QrFile(phase=phase)
        return found.model_copy(update={"iteration": self.loop(phase).iteration})

    def with_state(self, **fields: Any) -> Turn:
        """Change the state."""
        return replace(self, state=self.state.model_copy(update=fields))

    def with_document(self, **fields: Any) -> Turn:
        """Change the document."""
        return replace(self, document=self.document.model_copy(update=fields))

    def with_loop(self, phase: QrPhase, loop: Loop) -> Turn:
        """Move a gate's loop."""
        return self.with_state(loops={**self.state.loops, phase: loop})

    def with_file(self, file: QrFile) -> Turn:
        """Keep a qr file until its gate passes."""
        return self.with_document(qr={**self.document.qr, file.phase: file})

    def with_record(self, record: GateRecord) -> Turn:
        """Keep what a gate said, for good."""
        said = f"iteration {record.iteration}: {record.verdict}, {len(record.blocking)} blocking"
        said += ", unverified: the reviewer's word stands against open MUST findings" if record.unverified else ""
        turn = self.with_document(gate_history=(*self.document.gate_history, record))
        return turn.with_phase(f"{record.phase}-qr-gate", said)

    def with_phase(self, name: str, status: str) -> Turn:
        """Tell of a phase."""
        return replace(self, phases=(*self.phases, Phase(name, status)))

    def hand_out(self, row: str, steps: tuple[PlannedStep, ...]) -> Turn:
        """Hand out the steps of a row, and wait for all of them.

        A step that changes or verifies fails for good before the failures in a row would halt the plan.
        """
        most = max((limits_of(self.goal)["consecutive_failures"] or MAX_RETRIES) - 2, 0)
        steps = tuple(
            step
            if step.mode is Mode.READ_ONLY
            else step.model_copy(update={"retry_limit": min(step.retry_limit, most)})
            for step in steps
        )
        turn = self.with_state(row=row, open=tuple(step.step_id for step in steps), ended=(), failed=False)
        count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
        return replace(turn, steps=(*self.steps, *steps)).with_phase(row, count)

    def expansion(self, why: str, *, replaces: bool = False) -> Expansion:
        """Return what came out of the turn; whether its steps stand for all that failed so far."""
        return Expansion(
            state=self.state.model_dump(mode="json"),
            document=self.document.model_dump(mode="json"),
            why=why,
            steps=self.steps,
            phases=self.phases,
            question=self.question,
            replaces=replaces,
            halt=self.halt,
        )


def begin_state(given: ReviewedPlanInput, project: Project) -> ReviewState:
    """Begin the state of a workflow, as its goal wants it to go."""
    return ReviewState(
        workflow=Workflow.BOTH if given.review_first else given.workflow,
        asks_context=given.ask_context and given.context == ReviewContext(),
        review_first=given.review_first,
        schedule=schedule_of(given.severity_schedule),
        cap=given.convergence_cap,
        max_iterations=given.max_iterations,
        language=project.language.name if project.language else None,
    )


def state_of(live: LivePlan) -> ReviewState:
    """Read the state of a plan."""
    return ReviewState.model_validate(live.state)


def turn_of(live: LivePlan, catalogue: Catalogue, state: ReviewState) -> Turn:
    """Take a plan up where its state and its document have left it."""
    document = ReviewDocument.model_validate(live.document)
    return Turn(live.goal, live.goal.allowed_files, catalogue, live.now, state, document)


def project_in(turn: Turn) -> Project:
    """Read the project as it was at the beginning, from what was kept since."""
    context = turn.goal.context.model_copy(update={"language": turn.state.language})
    goal = turn.goal.model_copy(update={"context": context})
    test, unknown = read_test_command(goal, turn.catalogue.match)
    if unknown:
        raise LookupError(f"This goal was planned, and cannot be any more: {unknown[0].message}")
    return Project.of(goal, turn.allowed, test, turn.catalogue)
