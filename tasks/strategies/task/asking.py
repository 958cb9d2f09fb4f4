"""A task whose plan is drafted: the worker asks a drafter, or a controller does in the plan's first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schemas.base import StepType
from schemas.envelope import FieldError
from schemas.task_draft import TASK_DRAFT_SCHEMA
from tasks.rules.budget import limits_of
from tasks.rules.strategy import MAX_UNFOLDED, Answer, Consult, Draft, Drafted, Phase, Rejected, Setting
from tasks.rules.validation import max_steps
from tasks.strategies.drafting.project import Project
from tasks.strategies.task.prompt import prompt_of, repair_of
from tasks.strategies.task.setting import Options
from tasks.strategies.task.state import State
from tasks.strategies.task.steps import MAX_ATTEMPTS, Made, draft_step, made_of
from tasks.text.fields import fit

QUEUE = "queue"
MAX_WHY = 300


def drafted(project: Project, template: Answer, setting: Setting) -> Answer:
    """Answer a goal with a drafted plan, `template` being what it gets without a drafter. Pure.

    A goal that no template can plan is not drafted either, unless it only has too many files for one.
    """
    if isinstance(template, Rejected) and {error.code for error in template.errors} != {"too_many_files"}:
        return template
    options = Options.of(setting)
    prompt = prompt_of(project, with_schema=options.with_schema)
    if setting.drafter == QUEUE:
        return _queued(project, template, options, prompt)
    if not setting.drafted:
        return Consult(prompt, TASK_DRAFT_SCHEMA)
    last, tokens = setting.drafted[-1], sum(said.tokens for said in setting.drafted)
    made = _made(project, template, last, options)
    if made.steps:
        document = {"drafter": setting.drafter, "questions": len(setting.drafted)}
        return Draft(made.steps, told_of(made, document), phases=(phase_of(made),), tokens=tokens)
    if last.error is None and len(setting.drafted) < options.max_attempts:
        return Consult(repair_of(prompt, last.output, made.errors), TASK_DRAFT_SCHEMA)
    return _instead(template, made.errors, options, tokens)


def changes(template: Answer) -> bool:
    """Tell whether the goal asks for a change: its template makes one, or too many."""
    if not isinstance(template, Draft):
        return True
    return any(step.controller_task_spec.type is StepType.PATCH for step in template.steps)


def _made(project: Project, template: Answer, said: Drafted, options: Options) -> Made:
    if said.error is not None:
        message = f"The drafter did not answer: {fit(said.error, MAX_WHY)}."
        return Made(errors=(_failed(message),))
    return made_of(project, said.output, strict=options.strict, changes=changes(template))


def _instead(template: Answer, errors: tuple[FieldError, ...], options: Options, tokens: int) -> Answer:
    """Use the template plan, and say so; or none, where the operator wants it so or there is none."""
    why = why_of(errors)
    if isinstance(template, Draft) and options.fallback:
        document = {**(template.document or {}), "drafting": {"failed": why}}
        return replace(template, document=document, phases=(instead(why),), tokens=tokens)
    rest = template.errors if isinstance(template, Rejected) and options.fallback else ()
    error = _failed(why)
    return Rejected(error.code, (error, *rest), tokens=tokens)


def _failed(why: str) -> FieldError:
    return FieldError(pointer="/drafter", code="planning_failed", message=why)


def _queued(project: Project, template: Answer, options: Options, prompt: str) -> Answer:
    """Make the step that drafts; what its controller answers unfolds to the plan."""
    usable = isinstance(template, Draft) and options.fallback and len(template.steps) <= _room(project)
    state = State(
        prompt=prompt,
        strict=options.strict,
        changes=changes(template),
        language=project.language.name if project.language else None,
        template=template.steps if usable and isinstance(template, Draft) else (),
        document=dict(template.document or {}) if isinstance(template, Draft) else None,
    )
    most = (limits_of(project.goal)["consecutive_failures"] or MAX_ATTEMPTS) - 1  # one more would halt the plan
    step = draft_step(project.goal, min(options.max_attempts, most))
    return Draft((step,), {"drafter": QUEUE}, state=state.model_dump(mode="json"))


def _room(project: Project) -> int:
    return min(MAX_UNFOLDED, max_steps(project.goal) - 1)


def why_of(errors: tuple[FieldError, ...]) -> str:
    """Say in a line why a draft is of no use."""
    return fit(errors[0].message, MAX_WHY) if errors else "The answer is of no use."


def instead(why: str) -> Phase:
    """Tell that the template plan is used."""
    return Phase("fallback", f"The draft is of no use, and the template plan is used instead: {why}")


def phase_of(made: Made) -> Phase:
    """Tell that a plan was drafted."""
    return Phase("drafted", f"The plan is drafted: {len(made.steps)} step(s).")


def told_of(made: Made, about: Mapping[str, Any]) -> dict[str, Any]:
    """Make the document of a drafted plan: who drafted it, what it comes to, and what was changed without asking."""
    return {**about, "summary": made.summary, "notes": list(made.notes)}
