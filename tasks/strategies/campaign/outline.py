"""Goes through the phases from the known facts to a question or to a plan with steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.envelope import FieldError, field_error
from schemas.kinds.campaign import LEAST_CONFIDENCE, CampaignInput, CoherenceDecision, PlanTask
from schemas.step import PlannedStep
from tasks.rules.strategy import MAX_EXPANSION, Answer, Draft, Expansion, Phase, Question
from tasks.rules.validation import reject
from tasks.strategies.campaign.document import campaign_name, document_of, progress_report
from tasks.strategies.campaign.exploration import EXPLORE, explore_step
from tasks.strategies.campaign.formulas import complexity
from tasks.strategies.campaign.parts import unplaced
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.question import Coherence, check_coherence, likely_files, page_of
from tasks.strategies.campaign.sequence import depends_on, graph, graph_faults, sequence_phase
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Knowledge, MissingParents, TaskProgress
from tasks.strategies.campaign.steps import DRAFT, StepFrame, drafting_step, steps_of
from tasks.strategies.campaign.tasks import design_tasks
from tasks.strategies.campaign.verification import goes_unverified, project_of
from tasks.strategies.drafting.cycle import NONE, QUEUE

TEMPLATES, GOAL = "templates", "goal"  # origins of tasks, in addition to the drafters


@dataclass(frozen=True, slots=True)
class Outline:
    """The result of planning so far: steps, a question to a person, or the error that makes a plan impossible."""

    state: CampaignState
    document: Mapping[str, Any]
    phases: tuple[Phase, ...]
    steps: tuple[PlannedStep, ...] = ()
    question: Question | None = None
    trouble: FieldError | None = None  # that makes a plan impossible


def outline(known: Knowledge, scope: CampaignScope, rounds: int = 0, before: int = 0) -> Outline:
    """Plan as far as the known facts allow; if they do not suffice, ask a person (CLARIFY or CONFIRM).

    `rounds` is the number of answers that people gave so far, `before` the number of steps that the plan already has.
    """
    coherence, terms = coherence_of(known, scope), scope.terms
    if coherence.decision is not CoherenceDecision.PROCEED:
        page = page_of(coherence, known, scope.objective, scope.allowed)
        put = Question(coherence.decision.value.lower(), coherence.questions, page)
        outside = f"The exploration found only files that the goal does not allow: {', '.join(known.outside)}."
        nowhere = bool(known.outside) and not likely_files(known)
        return Outline(
            CampaignState(known=known, terms=terms, waits=put.kind, rounds=rounds, made=before),
            document_of(scope.objective, known, coherence.decision),
            decision_phases(known, coherence.decision),
            question=put,
            trouble=field_error("/allowed_files", "outside_allowlist", outside) if nowhere else None,
        )
    phases = decision_phases(known)
    if terms.drafter == QUEUE:
        prompt = prompt_of(known, scope)
        return Outline(
            CampaignState(known=known, terms=terms, waits=DRAFT, rounds=rounds, prompt=prompt, made=before + 1),
            document_of(scope.objective, known, CoherenceDecision.PROCEED),
            phases,
            (drafting_step(scope.goal, terms.attempts),),
        )
    if terms.drafter != NONE:  # the worker's drafter was not used, since people were asked first
        why = f"tasks by the templates, since {terms.drafter} is asked before a plan exists"
        phases += (Phase("DRAFT", f"Step: draft, Status: {why}"),)
    return with_phases(outline_of_templates(known, scope, rounds, before), *phases)


def outline_of_templates(known: Knowledge, scope: CampaignScope, rounds: int = 0, before: int = 0) -> Outline:
    """Plan with tasks that the planner itself designs from the known facts."""
    project = project_of(known, scope)
    tasks = design_tasks(known, project, campaign_name(scope.objective))
    return outline_of_tasks(known, tasks, scope, TEMPLATES, rounds, before)


def outline_of_tasks(
    known: Knowledge, tasks: Sequence[PlanTask], scope: CampaignScope, by: str, rounds: int = 0, before: int = 0
) -> Outline:
    """Return the plan with these tasks as steps; `by` is the origin of the tasks: goal, templates or drafter."""
    made = steps_of(tasks, StepFrame(known, project_of(known, scope), limits_calls=scope.terms.limits_calls))
    progress = {seq: TaskProgress(steps=tuple(step.step_id for step in steps)) for seq, steps in made.items()}
    steps = tuple(step for some in made.values() for step in some)
    plan = document_of(scope.objective, known, CoherenceDecision.PROCEED, tasks)
    without = unplaced(known, tasks)
    plan |= {"unplaced": without} if without else {}
    places = (f"{each.function}@{each.first}" for each in (*known.candidates, *known.defined) if each.first)
    target = next(places, "no functions known")
    budgets, idioms = [task.budget for task in tasks], known.idioms
    counted = f"{len(idioms.required)} required, {len(idioms.forbidden)} forbidden"
    doubt = "" if known.confidence >= LEAST_CONFIDENCE else ", low confidence"
    many = f"These tasks make {len(steps)} steps, and {MAX_EXPANSION} are the most: name fewer files."
    return Outline(
        CampaignState(known=known, terms=scope.terms, rounds=rounds, progress=progress, made=before + len(steps)),
        {**plan, "drafted_by": by, "progress": progress_report(progress)},
        (
            sequence_phase(tasks, without),
            Phase("LOCATE_TARGETS", f"Step: targets, Status: {target}"),
            Phase("SET_BUDGETS", f"Step: budgets, Status: {sum(budgets)} tool calls, at most {max(budgets)} a task"),
            Phase("EXTRACT_IDIOMS", f"Step: idioms, Status: {counted}{doubt}"),
            Phase("OUTPUT_PLAN", f"Step: output, Status: plan.json with {len(tasks)} tasks"),
        ),
        steps,
        trouble=field_error("/campaign/tasks", "too_many_steps", many) if len(steps) > MAX_EXPANSION else None,
    )


def outline_of_given(
    known: Knowledge, tasks: Sequence[PlanTask], scope: CampaignScope, rounds: int = 0
) -> Outline | str:
    """Plan with the tasks that the goal brings, or ask a person about tasks with unknown dependencies.

    Return a sentence if the dependencies that a person named make the graph invalid.
    """
    seqs = [task.seq for task in tasks]
    waits = {
        seq: tuple(dict.fromkeys((*(name for name in names if name in seqs), *known.instead.get(seq, ()))))
        if seq in known.instead
        else names
        for seq, names in graph(tasks).items()
    }
    missing = tuple(
        MissingParents(seq=seq, names=lost, before=seqs[place - 1] if place else None)
        for place, seq in enumerate(seqs)
        if (lost := tuple(name for name in waits[seq] if name not in waits)) and seq not in known.instead
    )
    if not missing or not all(name.isdecimal() for each in missing for name in each.names):
        if fault := next(graph_faults(waits), None):
            return f"Task {fault[0]}: {fault[2]}"
        joined = [task.model_copy(update={"depends": depends_on(waits[task.seq])}) for task in tasks]
        return with_phases(outline_of_tasks(known, joined, scope, GOAL, rounds), *decision_phases(known))
    made = outline(known.model_copy(update={"missing": missing}), scope, rounds)
    return replace(made, state=made.state.model_copy(update={"given": tuple(tasks)}))


def plan_unaided(known: Knowledge, phase: Phase, scope: CampaignScope) -> Answer:
    """Plan without a drafter, by the exploration that the goal brings; without one, begin with a step that explores."""
    if is_explored(scope):
        return draft_of(with_phases(outline(known, scope), phase))
    state = CampaignState(known=known, terms=scope.terms, waits=EXPLORE, made=1).model_dump(mode="json")
    return Draft((explore_step(scope.goal, scope.terms.quorum),), document_of(scope.objective, known), state=state)


def draft_of(made: Outline) -> Answer:
    """Return the outline as the answer to the goal: a draft, or a rejection if no plan is possible."""
    if made.trouble:
        return reject(made.trouble.code, (made.trouble,))
    state = made.state.model_dump(mode="json")
    return Draft(made.steps, made.document, state=state, question=made.question, phases=made.phases)


def expand(made: Outline, why: str) -> Expansion:
    """Return the outline as an expansion of a running plan; the expansion halts the plan if no plan is possible."""
    trouble = made.trouble
    errors = [trouble.model_dump()] if trouble else []
    return Expansion(
        made.state.model_dump(mode="json"),
        made.document,
        why,
        () if trouble else made.steps,
        made.phases,
        None if trouble else made.question,
        replaces=True,  # exploring or drafting steps may have failed or been skipped: planning goes on without them
        halt=("planning_failed", trouble.message, {"errors": errors}) if trouble else None,
    )


def is_explored(scope: CampaignScope) -> bool:
    """Return whether the goal brings an exploration."""
    return (scope.goal.campaign or CampaignInput()).exploration is not None


def with_phases(made: Outline, *phases: Phase) -> Outline:
    """Return the outline with these phases before its own."""
    return replace(made, phases=(*phases, *made.phases))


def coherence_of(known: Knowledge, scope: CampaignScope) -> Coherence:
    """Return whether planning may go on, with the questions to ask if it may not.

    The decision depends only on the known facts, so a waiting plan gets the same question again.
    """
    project = project_of(known, scope)
    documents = goes_unverified(likely_files(known) or scope.allowed)
    return check_coherence(known, verifiable=bool(project.tests), documents=documents)


def decision_phases(known: Knowledge, decision: CoherenceDecision = CoherenceDecision.PROCEED) -> tuple[Phase, ...]:
    """Return the phases that report the complexity of the campaign and the decision whether planning may go on."""
    return (
        Phase("CALCULATE_COMPLEXITY", f"Step: complexity, Status: calculating C={complexity(known):g}"),
        Phase("COHERENCE_CHECK", f"Step: coherence, Status: {decision}"),
    )
