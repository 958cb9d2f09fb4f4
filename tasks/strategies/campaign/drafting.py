"""The first draft of a campaign: from its tasks, its exploration or a drafter, or a step that asks for these."""

from __future__ import annotations

from schemas.campaign import CampaignInput, TaskType
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.strategy import Answer, Phase, Setting
from tasks.rules.validation import rejected
from tasks.strategies.campaign import given
from tasks.strategies.campaign.asking import NONE, QUEUE
from tasks.strategies.campaign.commands import verification
from tasks.strategies.campaign.consulting import consulted, drafted, unaided
from tasks.strategies.campaign.exploring import read
from tasks.strategies.campaign.knowing import objective_of, of_goal
from tasks.strategies.campaign.outline import GOAL, led, weighed, written
from tasks.strategies.campaign.scope import Scope
from tasks.strategies.campaign.state import Known, Terms
from tasks.text.fields import fit
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue

BARE = Setting()


def draft(goal: Goal, catalogue: Catalogue, setting: Setting = BARE) -> Answer:
    """Answer a campaign with its steps, a question, the step that explores or drafts for it, or ask a drafter. Pure."""
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden)
    test, untested = _test_command(goal, catalogue)
    if errors := allowed.errors + untested + _nothing_allowed(goal, allowed.files):
        return rejected("invalid_goal", errors)
    tested = catalogue.contracts[test.tool].languages if test else ()
    terms = terms_of(goal, setting)
    known = of_goal(goal, allowed.files, test, tested, terms.failures)
    return _drafted(known, Scope(goal, objective_of(goal), allowed.files, catalogue, terms), setting)


def terms_of(goal: Goal, setting: Setting) -> Terms:
    """Read what the goal and the operator settled: whoever brings tasks wants no drafter, unless it is asked for."""
    options, usual = setting.options, Terms()
    has_tasks = goal.campaign is not None and goal.campaign.tasks is not None
    return Terms(
        drafter=NONE if has_tasks and not goal.drafter else setting.drafter,
        attempts=max(1, options.get("max_attempts", usual.attempts)),
        reject=options.get("fallback") == "reject",
        clarifications=max(1, options.get("max_clarifications", usual.clarifications)),
        replans=options.get("max_replans", usual.replans),
        quorum=options.get("quorum", usual.quorum),
        failures=options.get("max_failures", usual.failures),
    )


def _drafted(known: Known, scope: Scope, setting: Setting) -> Answer:
    campaign = scope.goal.campaign or CampaignInput()
    known, phase = read(known, campaign.exploration, scope)
    if campaign.tasks is not None:
        return _given(known, phase, scope)
    if scope.terms.drafter not in (NONE, QUEUE):
        return consulted(known, phase, scope, setting)
    return unaided(known, phase, scope)


def _given(known: Known, phase: Phase, scope: Scope) -> Answer:
    tasks = scope.goal.campaign.tasks or () if scope.goal.campaign else ()
    if errors := given.errors(tasks, scope.allowed, scope.catalogue):
        return rejected("invalid_tasks", errors)
    made = written(known, given.planned(tasks, known, scope.catalogue), scope, GOAL)
    return drafted(led(made, phase, *weighed(known)))


def _test_command(goal: Goal, catalogue: Catalogue) -> tuple[VerifyTool | None, tuple[FieldError, ...]]:
    command = (goal.context.test_command or "").strip()
    try:
        return (verification(command, catalogue) if command else None), ()
    except UnknownCommand as error:
        found = FieldError(
            pointer="/context/test_command", code="unknown_test_command", message=fit(str(error), given.MAX_MESSAGE)
        )
        return None, (found,)


def _nothing_allowed(goal: Goal, files: tuple[str, ...]) -> tuple[FieldError, ...]:
    tasks = goal.campaign.tasks if goal.campaign else None
    if files or (tasks and all(task.type is TaskType.VERIFY for task in tasks)):
        return ()
    message = "A campaign changes files: set allowed_files to those that may change."
    return (FieldError(pointer="/allowed_files", code="no_allowed_files", message=message),)
