"""The questions of a plan on its page: steps that wait for approval, or the choices of a question, each with a form.

A form contains the digest of its question, as the form of an act does.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from schemas.api_key import ApiKey
from schemas.base import StepType
from schemas.plan import PlanView, StepView
from schemas.times import rfc3339
from tasks.rules.risk import assess
from worker.gateway.access import Context
from worker.gateway.page import acts
from worker.gateway.page.acts import APPROVAL, Act, digest_of
from worker.gateway.page.choices import Offer, offers_of
from worker.store.step_activity import approval_ends

MOST_STEPS = 5  # with a form each
ASKED_BY_RISK = "The goal, or a policy, asks before each step of {} risk."
ASKED_BY_CONFLICT = "The target branch changed the same lines. Read both sides below, and approve once it has made way."
ASKED_BY_CHANGE = "What its last attempt did to tests or checks needs a person to look at it."


class AskedStep(NamedTuple):
    """A step that waits for an approval: why it asks, why it has its risk, its time limit, and a digest."""

    step: StepView
    why: str
    risk: str
    until: str | None
    digest: str
    command_id: str


class Asking(NamedTuple):
    """The open questions of a plan that this caller may answer. A question without a digest has no form."""

    steps: tuple[AskedStep, ...] = ()
    more_steps: int = 0
    offers: tuple[Offer, ...] = ()
    digest: str = ""
    command_id: str = ""


def asking_of(doors: Context, view: PlanView, key: ApiKey) -> Asking:
    """Return the open questions of a plan."""
    if view.waiting is None:
        return Asking()
    if view.waiting.kind != APPROVAL:
        if Act.ANSWER not in acts.of_plan(view, key):
            return Asking()
        return Asking((), 0, offers_of(view.waiting), digest_of(view.waiting, None, None), uuid.uuid4().hex)
    waiting = [step for step in view.steps if step.waiting and Act.APPROVE in acts.of_step(view, step, key)]
    looked_at = {each.step_id for each in view.integrity if each.action == "approve"}
    steps = tuple(_asked(doors, view, step, is_looked_at=step.step_id in looked_at) for step in waiting[:MOST_STEPS])
    return Asking(steps, len(waiting) - len(steps))


def _asked(doors: Context, view: PlanView, step: StepView, *, is_looked_at: bool) -> AskedStep:
    until = approval_ends(doors.client, doors.partitions, view.plan_id, step.step_id)
    return AskedStep(
        step=step,
        why=_why(step, is_looked_at=is_looked_at),
        risk=assess(step.allowed_files).why,
        until=rfc3339(until) if until else None,
        digest=digest_of(None, step, until),
        command_id=uuid.uuid4().hex,
    )


def _why(step: StepView, *, is_looked_at: bool) -> str:
    if step.type == StepType.LAND:
        return ASKED_BY_CONFLICT
    return ASKED_BY_CHANGE if is_looked_at else ASKED_BY_RISK.format(step.risk_level)
