"""The phases from what is known to a plan, up to a question or to steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.envelope import FieldError
from schemas.kinds.campaign import LEAST_CONFIDENCE, CampaignInput, CoherenceDecision, PlanTask
from schemas.step import PlannedStep
from tasks.rules.strategy import MAX_EXPANSION, Answer, Draft, Expansion, Phase, Question
from tasks.rules.validation import reject
from tasks.strategies.campaign.document import campaign_name, document_of, progress_report
from tasks.strategies.campaign.exploration import EXPLORE, explore_step
from tasks.strategies.campaign.formulas import first_function, score
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.question import Coherence, check_coherence, likely_files, question_of
from tasks.strategies.campaign.sequence import depth, graph
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Knowledge, TaskProgress
from tasks.strategies.campaign.steps import DRAFT, StepFrame, drafting_step, steps_of
from tasks.strategies.campaign.tasks import design_tasks
from tasks.strategies.campaign.verification import project_of
from tasks.strategies.drafting.cycle import NONE, QUEUE

TEMPLATES, GOAL = "templates", "goal"  # where tasks come from, beside the drafters


@dataclass(frozen=True, slots=True)
class Outline:
    """How far planning came: to steps, to a question, or to a trouble."""

    state: CampaignState
    document: Mapping[str, Any]
    phases: tuple[Phase, ...]
    steps: tuple[PlannedStep, ...] = ()
    question: Question | None = None
    trouble: FieldError | None = None  # that makes a plan impossible


def outline(known: Knowledge, scope: CampaignScope, rounds: int = 0, before: int = 0) -> Outline:
    """Plan as far as what is known goes; nothing goes past CLARIFY and CONFIRM.

    `rounds` are the answers of people so far, `before` the steps.
    """
    coherence = coherence_of(known, scope)
    if coherence.decision is CoherenceDecision.PROCEED:
        plan = _drafting if scope.terms.drafter == QUEUE else outline_of_templates
        return with_phases(plan(known, scope, rounds, before), *decision_phases(known), *_too_late(scope))
    put = question_of(coherence, known, scope.objective, scope.allowed)
    return Outline(
        CampaignState(known=known, terms=scope.terms, waits=put.kind, rounds=rounds, made=before),
        document_of(scope.objective, known, coherence.decision),
        decision_phases(known, coherence.decision),
        question=put,
        trouble=_all_outside(known),
    )


def outline_of_templates(known: Knowledge, scope: CampaignScope, rounds: int = 0, before: int = 0) -> Outline:
    """Plan with the tasks that follow from what is known."""
    project = project_of(known, scope)
    tasks = design_tasks(known, project, campaign_name(scope.objective))
    return outline_of_tasks(known, tasks, scope, TEMPLATES, rounds, before)


def outline_of_tasks(
    known: Knowledge, tasks: Sequence[PlanTask], scope: CampaignScope, by: str, rounds: int = 0, before: int = 0
) -> Outline:
    """Write the plan of these tasks; `by` says where they come from."""
    made = steps_of(tasks, StepFrame(known, project_of(known, scope)))
    progress = {seq: TaskProgress(steps=tuple(step.step_id for step in steps)) for seq, steps in made.items()}
    steps = tuple(step for some in made.values() for step in some)
    plan = document_of(scope.objective, known, CoherenceDecision.PROCEED, tasks)
    return Outline(
        CampaignState(known=known, terms=scope.terms, rounds=rounds, progress=progress, made=before + len(steps)),
        {**plan, "drafted_by": by, "progress": progress_report(progress)},
        _sequenced(known, tasks),
        steps,
        trouble=_too_many(steps),
    )


def plan_unaided(known: Knowledge, phase: Phase, scope: CampaignScope) -> Answer:
    """Plan from the exploration that the goal brings, or begin with one."""
    if is_explored(scope):
        return draft_of(with_phases(outline(known, scope), phase))
    state = CampaignState(known=known, terms=scope.terms, waits=EXPLORE, made=1).model_dump(mode="json")
    return Draft((explore_step(scope.goal, scope.terms.quorum),), document_of(scope.objective, known), state=state)


def draft_of(made: Outline) -> Answer:
    """Make a draft of as much of a plan as there is."""
    if made.trouble:
        return reject(made.trouble.code, (made.trouble,))
    state = made.state.model_dump(mode="json")
    return Draft(made.steps, made.document, state=state, question=made.question, phases=made.phases)


def expand(made: Outline, why: str) -> Expansion:
    """Go on as outlined, or halt where a plan is impossible."""
    trouble = made.trouble
    errors = [trouble.model_dump()] if trouble else []
    return Expansion(
        made.state.model_dump(mode="json"),
        made.document,
        why,
        () if trouble else made.steps,
        made.phases,
        None if trouble else made.question,
        replaces=True,  # what explored or drafted may have failed or been skipped: planning goes on without it
        halt=("planning_failed", trouble.message, {"errors": errors}) if trouble else None,
    )


def is_explored(scope: CampaignScope) -> bool:
    """Tell whether the goal brings an exploration."""
    return (scope.goal.campaign or CampaignInput()).exploration is not None


def with_phases(made: Outline, *phases: Phase) -> Outline:
    """Put phases before those of `made`."""
    return replace(made, phases=(*phases, *made.phases))


def _too_late(scope: CampaignScope) -> tuple[Phase, ...]:
    """Tell that the worker's drafter had no part, since people were asked first."""
    name = scope.terms.drafter
    if name in (NONE, QUEUE):
        return ()
    return (Phase("DRAFT", f"Step: draft, Status: tasks by the templates, since {name} is asked before a plan exists"),)


def _drafting(known: Knowledge, scope: CampaignScope, rounds: int, before: int) -> Outline:
    """Have a controller draft the tasks."""
    prompt = prompt_of(known, scope)
    return Outline(
        CampaignState(known=known, terms=scope.terms, waits=DRAFT, rounds=rounds, prompt=prompt, made=before + 1),
        document_of(scope.objective, known, CoherenceDecision.PROCEED),
        (),
        (drafting_step(scope.goal, scope.terms.attempts),),
    )


def coherence_of(known: Knowledge, scope: CampaignScope) -> Coherence:
    """Decide whether planning may go on.

    What a waiting plan asked is found again by this: it follows from what is known alone.
    """
    project = project_of(known, scope)
    return check_coherence(known, verifiable=bool(project.tests))


def decision_phases(known: Knowledge, decision: CoherenceDecision = CoherenceDecision.PROCEED) -> tuple[Phase, ...]:
    """Tell the phases that lead to the decision."""
    return (
        Phase("CALCULATE_COMPLEXITY", f"Step: complexity, Status: calculating C={score(known):g}"),
        Phase("COHERENCE_CHECK", f"Step: coherence, Status: {decision}"),
    )


def _sequenced(known: Knowledge, tasks: Sequence[PlanTask]) -> tuple[Phase, ...]:
    budgets = [task.budget for task in tasks]
    idioms = known.idioms
    doubt = "" if known.confidence >= LEAST_CONFIDENCE else ", low confidence"
    counted = f"{len(idioms.required)} required, {len(idioms.forbidden)} forbidden"
    return (
        Phase("DESIGN_SEQUENCE", f"Step: ordering, Status: {len(tasks)} tasks, depth={depth(graph(tasks))}"),
        Phase("LOCATE_TARGETS", f"Step: targets, Status: {first_function(known)}"),
        Phase("SET_BUDGETS", f"Step: budgets, Status: {sum(budgets)} tool calls, at most {max(budgets)} a task"),
        Phase("EXTRACT_IDIOMS", f"Step: idioms, Status: {counted}{doubt}"),
        Phase("OUTPUT_PLAN", f"Step: output, Status: plan.json with {len(tasks)} tasks"),
    )


def _all_outside(known: Knowledge) -> FieldError | None:
    if likely_files(known) or not known.outside:
        return None
    message = f"The exploration found only files that the goal does not allow: {', '.join(known.outside)}."
    return FieldError(pointer="/allowed_files", code="outside_allowlist", message=message)


def _too_many(steps: Sequence[PlannedStep]) -> FieldError | None:
    if len(steps) <= MAX_EXPANSION:
        return None
    message = f"These tasks make {len(steps)} steps, and {MAX_EXPANSION} are the most: name fewer files."
    return FieldError(pointer="/campaign/tasks", code="too_many_steps", message=message)
