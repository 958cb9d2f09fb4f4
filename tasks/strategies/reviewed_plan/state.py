"""A turn of the workflow: the goal, state and document that a row reads, and the results that it adds."""

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

MAX_RETRIES = 5  # if no limit of the goal is lower


@dataclass(frozen=True, slots=True)
class Turn:
    """The workflow between two answers; a handler never changes a turn, and returns the next one."""

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
    unreviewed: bool = False  # it ended without a word

    @property
    def plan(self) -> Plan:
        """plan.json as it is now."""
        return self.document.plan

    def loop(self, phase: QrPhase) -> Loop:
        """Return the loop of a phase's gate, which counts its iterations; a new loop before the first review."""
        return self.state.loops.get(phase) or Loop(limit=self.state.max_iterations)

    def file(self, phase: QrPhase) -> QrFile:
        """Return the review items of a phase (qr-{phase}.json) at its present iteration; at first there are none."""
        found = self.document.qr.get(phase) or QrFile(phase=phase)
        return found.model_copy(update={"iteration": self.loop(phase).iteration})

    def with_state(self, **fields: Any) -> Turn:
        """Return the turn with a changed state."""
        return replace(self, state=self.state.model_copy(update=fields))

    def with_document(self, **fields: Any) -> Turn:
        """Return the turn with a changed document."""
        return replace(self, document=self.document.model_copy(update=fields))

    def with_loop(self, phase: QrPhase, loop: Loop) -> Turn:
        """Return the turn with a gate's new loop."""
        return self.with_state(loops={**self.state.loops, phase: loop})

    def with_file(self, file: QrFile) -> Turn:
        """Return the turn with these review items, which the document contains until the gate passes."""
        return self.with_document(qr={**self.document.qr, file.phase: file})

    def with_record(self, record: GateRecord) -> Turn:
        """Return the turn with the result of a gate added to the history, which keeps it for good."""
        said = f"iteration {record.iteration}: {record.verdict}, {len(record.blocking)} blocking"
        said += ", unverified: the reviewer passed it with open MUST findings" if record.unverified else ""
        turn = self.with_document(gate_history=(*self.document.gate_history, record))
        return turn.with_phase(f"{record.phase}-qr-gate", said)

    def with_phase(self, name: str, status: str) -> Turn:
        """Return the turn with another phase."""
        return replace(self, phases=(*self.phases, Phase(name, status)))

    def hand_out(self, row: str, steps: tuple[PlannedStep, ...]) -> Turn:
        """Return the turn with the steps of a row added; the workflow waits until all of these have ended.

        Patches and tests get fewer retries if their failures in a row would otherwise halt the plan.
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
        """Return the results of the turn as an expansion; with `replaces` its steps replace all failed steps."""
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
    """Return the first state of a workflow, by the settings of its goal."""
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
    """Return a turn with the present state and document of a plan."""
    document = ReviewDocument.model_validate(live.document)
    return Turn(live.goal, live.goal.allowed_files, catalogue, live.now, state, document)


def project_in(turn: Turn) -> Project:
    """Return the project as it was at the beginning, from the stored facts."""
    context = turn.goal.context.model_copy(update={"language": turn.state.language})
    goal = turn.goal.model_copy(update={"context": context})
    test, unknown = read_test_command(goal, turn.catalogue.match)
    if unknown:
        raise LookupError(f"This goal was planned, and cannot be any more: {unknown[0].message}")
    return Project.of(goal, turn.allowed, test, turn.catalogue)
