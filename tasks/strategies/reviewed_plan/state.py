"""One turn of the workflow: what is known, what is kept, and what comes out of it so far. A value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.goal import Goal
from schemas.review import (
    Loop,
    ReviewDocument,
    ReviewedPlanInput,
    ReviewState,
)
from schemas.review_plan import Plan
from schemas.review_qr import GateRecord, QrFile, QrPhase
from schemas.step import PlannedStep
from tasks.rules.budget import limits_of
from tasks.rules.strategy import Phase, Question, Unfolding
from tasks.strategies.drafting.project import Project
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

    def keeping(self, **fields: Any) -> Turn:
        """Change the state."""
        return replace(self, state=self.state.model_copy(update=fields))

    def writing(self, **fields: Any) -> Turn:
        """Change the document."""
        return replace(self, document=self.document.model_copy(update=fields))

    def looped(self, phase: QrPhase, loop: Loop) -> Turn:
        """Move a gate's loop."""
        return self.keeping(loops={**self.state.loops, phase: loop})

    def filed(self, file: QrFile) -> Turn:
        """Keep a qr file until its gate passes."""
        return self.writing(qr={**self.document.qr, file.phase: file})

    def recorded(self, record: GateRecord) -> Turn:
        """Keep what a gate said, for good."""
        said = f"iteration {record.iteration}: {record.verdict}, {len(record.blocking)} blocking"
        return self.writing(gate_history=(*self.document.gate_history, record)).told(f"{record.phase}-qr-gate", said)

    def told(self, name: str, status: str) -> Turn:
        """Tell of a phase."""
        return replace(self, phases=(*self.phases, Phase(name, status)))

    def waiting_for(self, row: str, steps: tuple[PlannedStep, ...]) -> Turn:
        """Hand out the steps of a row, and wait for all of them; a step fails for good before the plan is halted."""
        most = max((limits_of(self.goal)["consecutive_failures"] or MAX_RETRIES) - 2, 0)
        steps = tuple(step.model_copy(update={"retry_limit": min(step.retry_limit, most)}) for step in steps)
        opened = self.keeping(row=row, open=tuple(step.step_id for step in steps), ended=(), failed=False)
        return replace(opened, steps=(*self.steps, *steps)).told(
            row, "1 step" if len(steps) == 1 else f"{len(steps)} steps"
        )

    def unfolding(self, why: str) -> Unfolding:
        """Say what came out of the turn."""
        return Unfolding(
            state=self.state.model_dump(mode="json"),
            document=self.document.model_dump(mode="json"),
            why=why,
            steps=self.steps,
            phases=self.phases,
            question=self.question,
            halt=self.halt,
        )


def state_of(given: ReviewedPlanInput, project: Project | str) -> ReviewState:
    """Begin the state of a workflow that has not begun."""
    language = None if isinstance(project, str) or project.language is None else project.language.name
    return ReviewState(
        workflow=given.workflow,
        schedule=schedule_of(given.severity_schedule),
        cap=given.convergence_cap,
        max_iterations=given.max_iterations,
        language=language,
    )


def project_of(turn: Turn) -> Project:
    """Read the project as it was read at the beginning, whatever of the goal has not been kept since."""
    context = turn.goal.context.model_copy(update={"language": turn.state.language})
    command = (context.test_command or "").strip()
    test = turn.catalogue.match(command) if command else None
    return Project.of(turn.goal.model_copy(update={"context": context}), turn.allowed, test, turn.catalogue)
