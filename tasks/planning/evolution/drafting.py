"""From an evolution goal to the step that drafts its plan."""

from __future__ import annotations

import re

from schemas.envelope import FieldError
from schemas.evolution import PlanningAgentResponse
from schemas.goal import Goal
from tasks.planning.catalogue import Catalogue
from tasks.planning.draft import Answer, Draft, Setting
from tasks.planning.drafted.reading import plain
from tasks.planning.drafted.verification import project_of
from tasks.planning.evolution.commits import MAX_TEXT
from tasks.planning.evolution.prompt import prompt_of
from tasks.planning.evolution.request import digest, prepared, remembered
from tasks.planning.evolution.setting import DEFAULTS, Planning
from tasks.planning.evolution.state import State
from tasks.planning.evolution.steps import MAX_ATTEMPTS, draft_step
from tasks.planning.project import Project, only_documents
from tasks.policy.sanitize import TOKEN
from tasks.policy.validation import max_steps, rejected

NO_INPUT = "An evolution goal needs its input: set evolution.base to the commit to start from."
NO_FILES = "A step that patches needs them: set allowed_files to the files that may change."
NO_TESTS = "No verification is known for these files: set context.test_command or context.language."
NO_ROOM = "A plan that is drafted has two steps at least: raise limits.max_steps."
NO_GOAL = "Nothing is left of the goal once what reads like an attack on the agent is taken out."


def draft(goal: Goal, catalogue: Catalogue, _: Setting, planning: Planning = DEFAULTS) -> Answer:
    """Answer `goal` with the step that drafts its plan, or say what the goal lacks. Pure."""
    project = project_of(goal, catalogue)
    errors = project if isinstance(project, tuple) else _shortcomings(goal, project)
    if errors or isinstance(project, tuple) or goal.evolution is None:
        return rejected("invalid_goal", errors)
    mode = goal.evolution.validation_mode or planning.validation_mode
    made = prepared(goal.evolution, goal, planning)
    prompt = prompt_of(made.request, mode, project.files, planning)
    document = PlanningAgentResponse(
        prompt=digest(prompt), request=digest(made.request), validation_mode=mode, trajectories=made.trajectories
    )
    state = State(
        attempts=min(max(1, planning.max_attempts), MAX_ATTEMPTS),
        language=project.language.name if project.language else None,
        prompt=prompt,
        request=remembered(made.request),
    )
    step = draft_step(goal, made.request.goal, state.attempts)
    return Draft((step,), document.model_dump(mode="json"), state=state.model_dump(mode="json"))


def _shortcomings(goal: Goal, project: Project) -> tuple[FieldError, ...]:
    evolution = goal.evolution
    asked = plain((evolution.goal if evolution else None) or goal.goal, MAX_TEXT)
    rules = (
        (evolution is None, "/evolution", "no_evolution", NO_INPUT),
        (not re.search(r"\w", asked.replace(TOKEN, "")), "/evolution/goal", "empty_after_sanitizing", NO_GOAL),
        (not project.files, "/allowed_files", "no_allowed_files", NO_FILES),
        (_untested(project), "/context/test_command", "no_verification", NO_TESTS),
        (max_steps(goal) < 2, "/limits/max_steps", "too_many_steps", NO_ROOM),
    )
    return tuple(FieldError(pointer=where, code=code, message=why) for wrong, where, code, why in rules if wrong)


def _untested(project: Project) -> bool:
    return bool(project.files) and not project.tests and not only_documents(project.files)
