"""The steps of an evolution plan: the one that drafts, one that looks for files, the drafted ones, and a last check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.goal import Goal
from schemas.kinds.evolution import PlanningPlan
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.rules.risk import estimate
from tasks.rules.strategy import LivePlan
from tasks.rules.validation import MAX_TOOLS
from tasks.strategies.drafting import cycle
from tasks.strategies.drafting.answers import connect_answers
from tasks.strategies.drafting.project import Project, commands_in
from tasks.strategies.drafting.steps import MAX_SUCCESS, DraftedStep, GovernedSteps, govern, last_check
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, fill, fit
from tasks.text.paths import clean
from tasks.toolchain.catalogue import once

DRAFT_ID = "draft-plan"
FIND_ID = "find-files"
VERIFY_ID = "verify-plan"
FALLBACK_ID = "fall-back"
RESERVED = frozenset({DRAFT_ID, FIND_ID, VERIFY_ID, FALLBACK_ID})

Places = Mapping[int, tuple[str, ...]]  # for the steps that name no files: positions and files

ONLY_READ = "Nothing of the plan may be done yet: only read."


def draft_step(goal: Goal, asked: str, prompt: str, attempts: int) -> PlannedStep:
    """Return the step that asks a controller for a plan with the aim `asked`."""
    sentence = "Answer the prompt of this step's input with a plan for: {goal}"
    return cycle.draft_step(
        goal,
        DRAFT_ID,
        title="Draft the plan",
        intent=fit(fill(sentence, fit(asked, MAX_INTENT), MAX_INTENT), MAX_INTENT),
        guidance="Answer in `output` as the input says: its prompt, its schema where it has one, its validation mode. "
        "On a later attempt mend what context.previous_failure says. " + ONLY_READ,
        attempts=attempts,
        read=len(prompt),
    )


def find_step(live: LivePlan, plan: PlanningPlan, unplaced: Sequence[int]) -> PlannedStep:
    """Return the step that looks for the files that the plan's steps do not name."""
    names = ", ".join(plan.steps[at].step_id for at in unplaced)
    mode = MODE_OF_TYPE[StepType.EXPLORE]
    intent = fill("Find the files to change for these steps of the plan: {goal}", names, MAX_INTENT)
    return PlannedStep(
        step_id=FIND_ID,
        title="Find the files to change",
        intent=fit(intent, MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=StepType.EXPLORE),
        mode=mode,
        guidance='Answer in `output`: {"files": {"<id of a step>": ["path", ...]}, "notes": "..."}, '
        f"with paths of the input's allowed_files, and what to do there. {ONLY_READ}",
        queue=live.goal.queue,
        estimate=estimate(mode),
        keeps_answer=True,
    )


def places(output: Any, plan: PlanningPlan, unplaced: Sequence[int], project: Project) -> Places:
    """Return the allowed files that an answer names for each unplaced step, by the position of the step.

    If the answer is one list, every unplaced step gets the whole list.
    """
    files = output.get("files", output) if isinstance(output, Mapping) else output
    allowed = frozenset(project.files)
    found: dict[int, tuple[str, ...]] = {}
    for at in unplaced:
        named = files.get(plan.steps[at].step_id) if isinstance(files, Mapping) else files
        paths = [clean(each.strip()) for each in named if isinstance(each, str)] if isinstance(named, list) else []
        found[at] = tuple(dict.fromkeys(path for path in paths if path in allowed))
    return found


def plan_steps(
    project: Project,
    plan: PlanningPlan,
    criteria: Sequence[str] = (),
    found: Places | None = None,
) -> GovernedSteps:
    """Return the governed steps of a drafted plan, with a last step that verifies everything.

    `criteria` are the acceptance criteria of the goal. `found` are the files of the steps that name none.
    """
    drafted = [
        DraftedStep(
            name=step.step_id,
            title=step.title,
            intent=step.intent,
            actions=step.actions,
            files=step.files,
            waits=step.dependencies,
            validation=step.validation,
            cautions=(*plan.guardrails, *step.risks),
        )
        for step in plan.steps
    ]
    made = govern(project, drafted, RESERVED, found)
    # A drafter may ask for more tests, never for fewer: the goal's own run as well.
    commands = project.placed(commands_in(plan.validation, project.catalogue, project.files, RiskLevel.HIGH))
    tools = once((*project.tests, *commands))[:MAX_TOOLS]
    words = {
        "success_criteria": fit("; ".join((*criteria, *plan.validation)), MAX_SUCCESS),
        "guidance": fit("; ".join(plan.handoff_notes), MAX_GUIDANCE) or None,
    }
    checks = last_check(project, made.steps, tools, VERIFY_ID, plan.summary)
    steps = (*made.steps, *(step.model_copy(update=words) for step in checks))
    return replace(made, steps=connect_answers(steps, (FIND_ID,) if found else ()))


def fallback_steps(
    project: Project, plan: PlanningPlan, files: tuple[str, ...], taken: frozenset[str]
) -> GovernedSteps:
    """Return the steps of a plan's fallback, which may change the same `files` as the plan."""
    step = DraftedStep(
        name=FALLBACK_ID,
        title="Fall back",
        intent=f"Carry the fallback plan out, since the plan failed: {plan.fallback_plan}",
        actions=(plan.fallback_plan or "",),
        files=files,
        validation=plan.validation,
        cautions=plan.guardrails,
    )
    return govern(project, [step], taken - {FALLBACK_ID}, verified_later=False)
