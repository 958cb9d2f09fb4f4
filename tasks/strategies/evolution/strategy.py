"""Plans an evolution goal and continues its plan: the six functions of a strategy, in the order of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from schemas.base import Mode, StepState
from schemas.envelope import field_error
from schemas.goal import Goal
from schemas.kinds.evolution import Evolution, PlanningAgentResponse, ValidationMode
from schemas.step import PlannedStep
from tasks.memory.alike import results_for_drafters
from tasks.rules.strategy import (
    Answer,
    Consult,
    Draft,
    Drafted,
    End,
    Expansion,
    LivePlan,
    Phase,
    Rejected,
    Setting,
    Workflow,
)
from tasks.rules.validation import reject
from tasks.strategies.drafting.cycle import (
    FAILED,
    QUEUE,
    DraftOptions,
    QueueCycle,
    Refusal,
    WorkerCycle,
    attempts_within,
    failure,
)
from tasks.strategies.drafting.project import Project, project_of
from tasks.strategies.drafting.steps import GovernedSteps
from tasks.strategies.evolution.card import add, card_of
from tasks.strategies.evolution.document import (
    AcceptedDraft,
    describe_draft,
    document_of,
    drafted_plan,
    mode_of,
    notes_of,
    schema_of,
    shown_prompt,
)
from tasks.strategies.evolution.plan_parser import ParsedPlan, find_places, judge
from tasks.strategies.evolution.prompt import prompt_of, repair_of
from tasks.strategies.evolution.request import digest, prepare, remember, shortcomings, start_at_base
from tasks.strategies.evolution.state import EvolutionState, Progress, Stage, project_in, state_of
from tasks.strategies.evolution.steps import (
    DRAFT_ID,
    FALLBACK_ID,
    FIND_ID,
    RESERVED,
    VERIFY_ID,
    Places,
    draft_step,
    fallback_steps,
    find_step,
    plan_steps,
)
from tasks.strategies.evolution.trajectory import TrajectoryOptions
from tasks.text.fields import fit
from tasks.toolchain.catalogue import Catalogue, keep_contracts

WORKFLOW = Workflow(
    "004",
    "a base commit and its inspirations become a plan of an agent",
    "evolution",
    {"plan": (DRAFT_ID, FIND_ID, "the steps of the agent's plan", VERIFY_ID), "all failed": (FALLBACK_ID,)},
)
MAX_ERROR = 500
MAX_LISTED = 500  # files in the input of a step that looks for some


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Return the answer to `goal`: a step that asks for a draft, a request to the worker's drafter, or a rejection."""
    project = project_of(goal, catalogue, setting.forbidden)
    errors = project if isinstance(project, tuple) else shortcomings(goal, project, setting.drafter)
    if errors or isinstance(project, tuple) or goal.evolution is None:
        return reject("invalid_goal", errors)
    based = start_at_base(goal, goal.evolution)
    live = _begin(based, goal.evolution, project, setting)
    if setting.drafter == QUEUE:
        state = state_of(live)
        state = state.model_copy(update={"attempts": attempts_within(live.goal, state.attempts)})
        step = draft_step(live.goal, state.request.goal, state.prompt or "", state.attempts)
        return Draft((step,), live.document, state=state.model_dump(mode="json"), goal=based)
    answer = _worker_cycle(live).answer(setting.drafted)
    return replace(answer, goal=based) if isinstance(answer, Draft) else answer


def input_for(live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the input of a step: the drafter's prompt, the files to search, or the drafter's text for the step."""
    state = state_of(live)
    if facts["step_id"] == DRAFT_ID and state.prompt:
        return {"prompt": state.prompt, "schema": schema_of(live), "validation_mode": mode_of(live).value}
    if facts["step_id"] == FIND_ID:
        steps = [drafted_plan(live).steps[at].model_dump(mode="json") for at in state.unplaced]
        return {"steps": steps, "allowed_files": list(live.goal.allowed_files[:MAX_LISTED])}
    return _part(live, state, facts["step_id"])


def refusal(live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | None:
    """Return why the answer of the drafting or the searching step cannot be used; None if it can be used."""
    if facts["step_id"] == DRAFT_ID:
        found = _queue_cycle(live).refusal(output)
        return found.message if found else None
    if facts["step_id"] == FIND_ID:
        sought = find_places(live, output)
        return sought if isinstance(sought, str) else None
    return None


def advance(live: LivePlan, end: End, _: Catalogue) -> Expansion | None:
    """Expand the plan from its draft or the found files; later record the result of each step."""
    state = state_of(live)
    if state.stage is Stage.DRAFTING:
        return _queue_cycle(live).go_on(end) if end.step_id == DRAFT_ID else None
    if state.stage is Stage.FINDING:
        if end.step_id != FIND_ID:
            return None
        found = find_places(live, end.output) if end.state == StepState.DONE else ""
        return _halt(live, end) if isinstance(found, str) else _place(live, found)
    return _note(live, state, end)


def _note(live: LivePlan, state: EvolutionState, end: End) -> Expansion | None:
    """Record the result of a step; after the last step add the card of the plan's commit to the document."""
    progress = state.progress
    if end.state == StepState.FAILED or (end.step_id not in progress.left and not end.facts["inserted_by"]):
        return None
    patched = state.patched
    if end.state == StepState.DONE:
        patched = patched or end.facts["mode"] == Mode.PATCH
        at = progress.parts.get(end.step_id)
        progress = add(progress, end, None if at is None else drafted_plan(live).steps[at].title)
    left = tuple(name for name in progress.left if name != end.step_id)
    document, kept = live.document, progress.model_copy(update={"left": left})
    if patched and not left:
        card = card_of(state.request.base, kept, drafted_plan(live), live.plan_id)
        document = document_of(live).model_copy(update={"commit_card": card}).model_dump(mode="json")
    noted = state.model_copy(update={"patched": patched, "progress": kept})
    return Expansion(noted.model_dump(mode="json"), document, f"{end.step_id} has ended.")


def _part(live: LivePlan, state: EvolutionState, step_id: str) -> Mapping[str, Any] | None:
    """Return the drafter's full text for a step, and the parts of the draft that apply to the whole plan."""
    if step_id not in state.ids:
        return None
    plan = drafted_plan(live)
    whole = plan.model_dump(mode="json", exclude={"steps", "fallback_plan"})
    if (at := state.progress.parts.get(step_id)) is not None:
        return {"plan": whole, "step": plan.steps[at].model_dump(mode="json")}
    return {"plan": whole, **({"fallback_plan": plan.fallback_plan} if step_id in state.progress.fallback else {})}


def answer(_: LivePlan, __: Any, ___: Catalogue) -> Expansion | str:
    """Refuse any answer: this kind asks no question."""
    return "An evolution plan asks no questions."


def stuck(live: LivePlan, _: Catalogue) -> Expansion | None:
    """Expand the plan by its drafted fallback, once, if no step has changed anything; else return None."""
    state = state_of(live)
    if state.stage is not Stage.WORKING or state.patched or state.fell_back:
        return None
    plan = drafted_plan(live)
    if not plan.fallback_plan:
        return None
    taken = RESERVED | set(state.ids)
    made = fallback_steps(project_in(live), plan, state.files, taken)
    if not made.steps:
        return None
    ids = _ids(made.steps)
    progress = state.progress.model_copy(update={"fallback": ids, "left": ids})
    update = {"fell_back": True, "ids": (*state.ids, *ids), "progress": progress}
    kept = state.model_copy(update=update)
    return Expansion(
        kept.model_dump(mode="json"),
        live.document,
        "All steps of the plan failed: its fallback plan is carried out.",
        made.steps,
        phases=(Phase("fallback", "The fallback plan is carried out."),),
        replaces=True,
    )


def _begin(goal: Goal, evolution: Evolution, project: Project, setting: Setting) -> LivePlan:
    """Return the plan as it is before its draft, with its first state and document."""
    options = DraftOptions.of(setting.options)
    mode = evolution.validation_mode or ValidationMode(options.validation_mode or ValidationMode.LENIENT)
    made = prepare(evolution, goal, TrajectoryOptions.of(setting.options), setting.summaries)
    prompt = prompt_of(
        made.request, mode, project.files, results_for_drafters(setting.memory), with_schema=options.schema_in_prompt
    )
    document = PlanningAgentResponse(
        prompt=shown_prompt(prompt),
        prompt_digest=digest(prompt),
        request=digest(made.request),
        validation_mode=mode,
        drafter=setting.drafter,
        acceptance_criteria=made.request.acceptance_criteria,
        trajectories=made.trajectories,
    )
    state = EvolutionState(
        attempts=options.max_attempts,
        began=setting.now,
        language=project.language.name if project.language else None,
        prompt=prompt,
        request=remember(made.request),
    )
    literal = goal.model_copy(update={"allowed_files": project.files})
    tools = keep_contracts(project.catalogue, None)
    return LivePlan(literal, state.model_dump(mode="json"), document.model_dump(mode="json"), setting.now, tools)


def _worker_cycle(live: LivePlan) -> WorkerCycle[ParsedPlan]:
    """Return the functions for the worker's drafter; after a failed call the worker asks the same question again."""
    prompt, schema, mode = state_of(live).prompt or "", schema_of(live), mode_of(live).value
    first = Consult(prompt, schema, mode)

    def repair(said: Drafted, refusal: Refusal) -> Consult:
        return Consult(repair_of(prompt, said.output, refusal.errors), schema, mode) if said.error is None else first

    def accept(found: ParsedPlan, drafted: Sequence[Drafted]) -> Draft:
        refusals = [each.message if isinstance(each, Refusal) else "" for each in map(cycle.read, drafted[:-1])]
        notes = [fit(f"Attempt {number} was refused: {why}", MAX_ERROR) for number, why in enumerate(refusals, 1)]
        last = drafted[-1]
        made = _take(
            live,
            AcceptedDraft(
                found.plan,
                last.output,
                attempts=len(drafted),
                seconds=_seconds(drafted),
                notes=(*notes, *found.notes),
                command=last.command,
                stderr=last.stderr,
            ),
        )
        return Draft(made.steps, made.document, state=made.state, phases=made.phases)

    cycle = WorkerCycle(
        attempts=state_of(live).attempts,
        ask=first,
        judge=partial(judge, live),
        silence=lambda why: field_error("/drafter", "no_answer", fit(why, MAX_ERROR) or "no answer"),
        repair=repair,
        accept=accept,
        fall_back=_give_up,
    )
    return cycle


def _give_up(refusal: Refusal, drafted: Sequence[Drafted]) -> Rejected:
    """Reject the goal with the last errors; the message counts the questions, seconds and tokens."""
    tokens = sum(said.tokens for said in drafted)
    why = f"{_no_plan(len(drafted))} in {_seconds(drafted):.1f} s for {tokens} tokens; the last errors follow."
    return Rejected(FAILED, (failure(why), *refusal.errors))


def _seconds(drafted: Sequence[Drafted]) -> float:
    return sum(each.duration_ms for each in drafted) / 1000


def _no_plan(attempts: int) -> str:
    return f"could not produce a valid plan after {attempts} attempt(s)"


def _queue_cycle(live: LivePlan) -> QueueCycle[ParsedPlan]:
    """Return the functions for a controller's answer to the step that asks for a draft."""

    def accept(found: ParsedPlan, end: End) -> Expansion:
        seconds = (live.now - state_of(live).began) / 1000
        return _take(live, AcceptedDraft(found.plan, end.output, end.attempt or 1, seconds, found.notes))

    return QueueCycle(judge=partial(judge, live), accept=accept, fall_back=lambda end, _: _halt(live, end))


def _halt(live: LivePlan, end: End) -> Expansion:
    """Halt the plan, because the step that drafts or the step that finds files gave nothing usable."""
    most = state_of(live).attempts if end.step_id == DRAFT_ID else 1 + int(end.facts.get("retry_limit") or 0)
    attempts = end.attempt or most
    reason = _no_plan(attempts)
    if end.state == StepState.SKIPPED:
        reason = f"{end.step_id} was skipped, and there is no plan without it"
    counted = {"value": attempts, "limit": most, "limit_name": "max_attempts"}
    evidence = {"step_id": end.step_id, "attempts": attempts, "last_error": end.failure, **counted}
    return Expansion(live.state, live.document, reason, halt=("planning_failed", reason, evidence))


def _take(live: LivePlan, draft: AcceptedDraft) -> Expansion:
    """Expand an accepted draft to its steps, or to one step that finds files if drafted steps name none."""
    state = state_of(live)
    made = plan_steps(project_in(live), draft.plan, state.request.acceptance_criteria)
    document = describe_draft(live, draft, made).model_dump(mode="json")
    phase = Phase("drafted", f"The plan is drafted: {len(draft.plan.steps)} step(s), attempt {draft.attempts}.")
    kept = state.model_copy(update={"prompt": None, "unplaced": made.unplaced})
    if not made.unplaced:
        return _work(kept, document, made, phase)
    finding = kept.model_copy(update={"stage": Stage.FINDING}).model_dump(mode="json")
    why = "The plan is drafted, and some of its steps do not name the files that they change."
    steps = (find_step(live, draft.plan, made.unplaced),)
    return Expansion(finding, document, why, steps, phases=(phase,))


def _place(live: LivePlan, found: Places) -> Expansion:
    """Expand the plan to its drafted steps, with the files that the searching step found."""
    state, document = state_of(live), document_of(live)
    criteria = state.request.acceptance_criteria
    made = plan_steps(project_in(live), drafted_plan(live), criteria, found)
    notes = tuple(dict.fromkeys((*document.notes, *notes_of(made.notes))))
    shown = document.model_copy(update={"notes": notes}).model_dump(mode="json")
    return _work(state, shown, made, Phase("placed", "The files to change are found."))


def _work(state: EvolutionState, document: Mapping[str, Any], made: GovernedSteps, phase: Phase) -> Expansion:
    """Expand the plan by its drafted steps, and store their ids, positions in the draft, and files."""
    steps = made.steps
    files = tuple(dict.fromkeys(path for step in steps for path in step.allowed_files))
    progress = Progress(parts=dict(zip(_ids(steps), made.parts, strict=False)), left=_ids(steps))
    update = {"stage": Stage.WORKING, "unplaced": (), "ids": _ids(steps), "files": files, "progress": progress}
    kept = state.model_copy(update=update).model_dump(mode="json")
    return Expansion(kept, document, "The drafted plan becomes steps.", steps, phases=(phase,))


def _ids(steps: Sequence[PlannedStep]) -> tuple[str, ...]:
    return tuple(step.step_id for step in steps)
