"""From an evolution goal to the question for its plan: a step that a controller answers, or one for a drafter."""

from __future__ import annotations

import re
from dataclasses import replace

from schemas.envelope import FieldError
from schemas.evolution import Evolution
from schemas.evolution_plan import PlanningAgentResponse
from schemas.goal import Goal
from tasks.rules.budget import limits_of
from tasks.rules.strategy import Answer, Draft, Growth, Setting
from tasks.rules.validation import max_steps, rejected
from tasks.strategies.drafting.project import Project, only_documents, project_of
from tasks.strategies.evolution.commits import MAX_TEXT
from tasks.strategies.evolution.consulting import consulted
from tasks.strategies.evolution.prompt import prompt_of
from tasks.strategies.evolution.request import digest, prepared, remembered
from tasks.strategies.evolution.setting import planning_of
from tasks.strategies.evolution.state import QUEUE, State, state_of
from tasks.strategies.evolution.steps import MAX_ATTEMPTS, draft_step
from tasks.text.fields import fit
from tasks.text.sanitize import TOKEN
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.catalogue_snapshot import keep

NOBODY = "none"  # drafts

NO_DRAFTER = "An evolution goal is planned by a drafter: set drafter to queue, or to another that is enabled here."
NO_INPUT = "An evolution goal needs its input: set evolution.base to the commit to start from."
NO_FILES = "A step that patches needs them: set allowed_files to the files that may change."
NO_TESTS = "No verification is known for these files: set context.test_command or context.language."
NO_ROOM = "A plan that is drafted has two steps at least: raise limits.max_steps."
NO_GOAL = "Nothing is left of the goal once what reads like an attack on the agent is taken out."

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def draft(goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
    """Answer `goal` with the step that drafts its plan, ask the worker's drafter, or say what the goal lacks. Pure."""
    project = project_of(goal, catalogue, setting.forbidden)
    errors = project if isinstance(project, tuple) else _shortcomings(goal, project, setting)
    if errors or isinstance(project, tuple) or goal.evolution is None:
        return rejected("invalid_goal", errors)
    based = _based(goal, goal.evolution)
    growth = _begun(based, goal.evolution, project, setting)
    answer = _queued(growth) if setting.drafter == QUEUE else consulted(growth, setting.drafted)
    return replace(answer, goal=based) if isinstance(answer, Draft) else answer


def _based(goal: Goal, evolution: Evolution) -> Goal:
    """Begin the work at the base commit, where the goal does not name another."""
    base = evolution.base.commit_hash
    if goal.context.base_sha or not _COMMIT.fullmatch(base):
        return goal
    return goal.model_copy(update={"context": goal.context.model_copy(update={"base_sha": base})})


def _begun(goal: Goal, evolution: Evolution, project: Project, setting: Setting) -> Growth:
    """Make the state and the document of a plan whose question has yet to be asked."""
    planning = planning_of(setting.options)
    mode = evolution.validation_mode or planning.validation_mode
    made = prepared(evolution, goal, planning)
    prompt = prompt_of(made.request, mode, project.files, planning)
    document = PlanningAgentResponse(
        prompt=digest(prompt),
        request=digest(made.request),
        validation_mode=mode,
        drafter=setting.drafter,
        trajectories=made.trajectories,
    )
    state = State(
        attempts=max(1, planning.max_attempts),
        began=setting.now,
        language=project.language.name if project.language else None,
        prompt=prompt,
        request=remembered(made.request),
    )
    literal = goal.model_copy(update={"allowed_files": project.files})
    tools = keep(project.catalogue, None)
    return Growth(literal, state.model_dump(mode="json"), document.model_dump(mode="json"), setting.now, tools)


def _queued(growth: Growth) -> Draft:
    state = state_of(growth)
    most = (limits_of(growth.goal)["consecutive_failures"] or MAX_ATTEMPTS + 1) - 1  # one more would halt the plan
    state = state.model_copy(update={"attempts": max(1, min(state.attempts, MAX_ATTEMPTS, most))})
    step = draft_step(growth.goal, state.request.goal, state.prompt or "", state.attempts)
    return Draft((step,), growth.document, state=state.model_dump(mode="json"))


def _shortcomings(goal: Goal, project: Project, setting: Setting) -> tuple[FieldError, ...]:
    evolution = goal.evolution
    asked = fit((evolution.goal if evolution else None) or goal.goal, MAX_TEXT)
    rules = (
        (evolution is None, "/evolution", "no_evolution", NO_INPUT),
        (setting.drafter == NOBODY, "/drafter", "no_drafter", NO_DRAFTER),
        (not re.search(r"\w", asked.replace(TOKEN, "")), "/evolution/goal", "empty_after_sanitizing", NO_GOAL),
        (not project.files, "/allowed_files", "no_allowed_files", NO_FILES),
        (_untested(project), "/context/test_command", "no_verification", NO_TESTS),
        (setting.drafter == QUEUE and max_steps(goal) < 2, "/limits/max_steps", "too_many_steps", NO_ROOM),
    )
    return tuple(FieldError(pointer=where, code=code, message=why) for wrong, where, code, why in rules if wrong)


def _untested(project: Project) -> bool:
    return bool(project.files) and not project.tests and not only_documents(project.files)
