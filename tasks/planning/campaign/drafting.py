"""The first draft of a campaign: from its tasks, from its exploration, or a step that explores."""

from __future__ import annotations

from schemas.campaign import CampaignInput, Exploration, TaskType
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.errors import UnknownCommand
from tasks.planning.campaign import given
from tasks.planning.campaign.commands import verification
from tasks.planning.campaign.document import document
from tasks.planning.campaign.exploring import EXPLORE, explore_step
from tasks.planning.campaign.knowing import QUORUM, explored, objective_of, of_goal, quorum
from tasks.planning.campaign.outline import FALLING_BACK, READING, Outline, Scope, outline, written
from tasks.planning.campaign.state import Known, State
from tasks.planning.catalogue import Catalogue
from tasks.planning.draft import Answer, Draft, Phase, Setting
from tasks.planning.paths import expand_globs
from tasks.policy.validation import rejected

_BARE = Setting()


def draft(goal: Goal, catalogue: Catalogue, setting: Setting = _BARE) -> Answer:  # noqa: ARG001  all kinds take it
    """Answer a campaign with its steps, a question, or the step that explores for it. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files)
    test, untested = _test_command(goal, catalogue)
    if errors := allowed.errors + untested + _nothing_allowed(goal, allowed.files):
        return rejected("invalid_goal", errors)
    tested = catalogue.contracts[test.tool].languages if test else ()
    known = of_goal(goal, allowed.files, test, tested)
    return _drafted(known, Scope(goal, objective_of(goal), allowed.files, catalogue))


def _drafted(known: Known, scope: Scope) -> Answer:
    campaign = scope.goal.campaign or CampaignInput()
    known, phase = read(known, campaign.exploration, scope)
    if campaign.tasks is not None:
        return _given(known, phase, scope)
    if campaign.exploration is None:
        state = State(known=known, waits=EXPLORE).model_dump(mode="json")
        return Draft((explore_step(scope.goal),), document(scope.objective, known), state=state, phases=(READING,))
    return _of(outline(known, scope), phase)


def read(known: Known, exploration: Exploration | None, scope: Scope) -> tuple[Known, Phase]:
    """Add an exploration to what is known, or nothing where fewer than three of its modes came to something."""
    if exploration is None or quorum(exploration) < QUORUM:
        return known, FALLING_BACK
    return explored(known, exploration, scope.allowed), READING


def _given(known: Known, phase: Phase, scope: Scope) -> Answer:
    tasks = scope.goal.campaign.tasks or () if scope.goal.campaign else ()
    if errors := given.errors(tasks, scope.allowed, scope.catalogue):
        return rejected("invalid_tasks", errors)
    return _of(written(known, given.planned(tasks, known, scope.catalogue), scope), phase)


def _of(made: Outline, phase: Phase) -> Answer:
    if made.trouble:
        return rejected(made.trouble.code, (made.trouble,))
    state = made.state.model_dump(mode="json")
    return Draft(made.steps, made.document, state=state, question=made.question, phases=(phase, *made.phases))


def _test_command(goal: Goal, catalogue: Catalogue) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    command = (goal.context.test_command or "").strip()
    try:
        return (verification(command, catalogue) if command else None), ()
    except UnknownCommand as error:
        found = FieldError(pointer="/context/test_command", code="unknown_test_command", message=str(error))
        return None, (found,)


def _nothing_allowed(goal: Goal, files: tuple[str, ...]) -> tuple[FieldError, ...]:
    tasks = goal.campaign.tasks if goal.campaign else None
    if files or (tasks and all(task.type is TaskType.VERIFY for task in tasks)):
        return ()
    message = "A campaign changes files: set allowed_files to those that may change."
    return (FieldError(pointer="/allowed_files", code="no_allowed_files", message=message),)
