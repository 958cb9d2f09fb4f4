"""Tasks from a drafter that the worker asks (`http`, `cli`, `backend`): before the plan exists, and never after."""

from __future__ import annotations

from dataclasses import replace

from schemas.campaign import CampaignInput, Decision
from schemas.campaign_plan import TASKS_SCHEMA
from schemas.envelope import FieldError
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, Phase, Rejected, Setting
from tasks.rules.validation import rejected
from tasks.strategies.campaign.asking import NONE
from tasks.strategies.campaign.document import document
from tasks.strategies.campaign.exploring import EXPLORE, explore_step
from tasks.strategies.campaign.outline import Outline, asked, led, outline, weighed
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.proposing import Refused, fallen_back, proposed, taken
from tasks.strategies.campaign.scope import Scope
from tasks.strategies.campaign.state import Known, State
from tasks.text.fields import fit

FAILED = "planning_failed"  # why there is no plan where nothing but a draft is wanted


def consulted(known: Known, phase: Phase, scope: Scope, setting: Setting) -> Answer:
    """Ask for the tasks, and for better ones where they are no use; people come first where something is unclear.

    Where nothing explored the repository, the drafter goes by what the goal carries.
    """
    unclear = asked(known, scope).decision is not Decision.PROCEED
    if _is_explored(scope) and unclear:
        return unaided(known, phase, scope)
    refused = Refused(())
    if setting.drafted:
        found = _answered(setting.drafted[-1], State(known=known, terms=scope.terms), scope)
        if isinstance(found, Outline):
            made = led(found, phase, *weighed(known), taken(found, scope.terms.drafter))
            return _paid(drafted(made), setting)
        refused = found
    if len(setting.drafted) < scope.terms.attempts:
        with_schema = bool(setting.options.get("schema_in_prompt"))
        return Consult(prompt_of(known, scope, errors=refused.errors, with_schema=with_schema), TASKS_SCHEMA)
    return _paid(_without(known, phase, scope, refused), setting)


def unaided(known: Known, phase: Phase, scope: Scope) -> Answer:
    """Plan from the exploration that the goal brings, or begin with one."""
    if _is_explored(scope):
        return drafted(led(outline(known, scope), phase))
    state = State(known=known, terms=scope.terms, waits=EXPLORE, made=1).model_dump(mode="json")
    return Draft((explore_step(scope.goal, scope.terms.quorum),), document(scope.objective, known), state=state)


def drafted(made: Outline) -> Answer:
    """Make a draft of as much of a plan as there is."""
    if made.trouble:
        return rejected(made.trouble.code, (made.trouble,))
    state = made.state.model_dump(mode="json")
    return Draft(made.steps, made.document, state=state, question=made.question, phases=made.phases)


def _is_explored(scope: Scope) -> bool:
    return (scope.goal.campaign or CampaignInput()).exploration is not None


def _answered(said: Drafted, state: State, scope: Scope) -> Outline | Refused:
    if said.error is None:
        return proposed(said.output, state, scope, scope.terms.drafter)
    message = fit(f"The drafter did not answer: {said.error}.", 300)
    return Refused((FieldError(pointer="/drafter", code=FAILED, message=message),))


def _without(known: Known, phase: Phase, scope: Scope, refused: Refused) -> Answer:
    """Plan without the drafter, and say so; or not at all, where the operator wants it so."""
    if scope.terms.reject:
        return Rejected(FAILED, refused.errors)
    alone = replace(scope, terms=scope.terms.model_copy(update={"drafter": NONE}))
    made = unaided(known, phase, alone)
    if not isinstance(made, Draft):
        return made
    return replace(made, phases=(*made.phases[:3], fallen_back(refused.told), *made.phases[3:]))


def _paid(answer: Answer, setting: Setting) -> Answer:
    tokens = sum(each.tokens for each in setting.drafted)
    return replace(answer, tokens=tokens) if isinstance(answer, Draft | Rejected) else answer
