"""Sends the goal of an ended plan again, as `planner retry` does."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.api_key import Right
from schemas.goal import Limits
from schemas.plan import PlanSummary
from worker.gateway.access import Access, Context
from worker.gateway.page.forms import Fields
from worker.gateway.page.goal_view import goal_address
from worker.gateway.page.rendering import HEADERS
from worker.gateway.problems import Refusal
from worker.gateway.routes import goals
from worker.gateway.routes.plans import kept_goal_of
from worker.gateway.waiting import wait_for
from worker.sources.retry import NoRetry, Retry, follow_up_of, retry_of, with_changes
from worker.store import kept_goals

WAIT_S = 10.0  # for the verdict
SEE_OTHER, UNUSABLE, CONFLICT = 303, 422, 409
MOST_DIGITS = 10
LIMITS = frozenset(Limits.model_fields)


def describe(doors: Context, plan: PlanSummary, from_step: str = "") -> Retry:
    """Return the goal that a retry of this plan would send. Raises Refusal if the plan cannot be retried."""
    kept, left_out = kept_goal_of(doors, plan.plan_id, from_step)
    try:
        return retry_of(plan.plan_id, plan.state, kept, left_out, "")
    except NoRetry as error:
        raise Refusal(error.code, str(error), CONFLICT) from error


async def send(doors: Context, caller: Access, plan: PlanSummary, fields: Fields, *, waits: bool = True) -> Response:
    """Submit the goal again with the changes of the form, and redirect to its plan. Raises Refusal."""
    made = await run_in_threadpool(describe, doors, plan, fields.get("from_step", ""))
    base_sha = fields.get("base_sha", "").strip() or None
    changed = with_changes(made.body, limits=_limits(fields), base_sha=base_sha, allow=_files(fields))
    body = {**changed, "goal_id": f"retry-{fields.get('command_id', '')[:64]}"}
    return await _hand_in(doors, caller, body, waits=waits)


async def follow_up(doors: Context, caller: Access, plan: PlanSummary, fields: Fields) -> Response:
    """Submit a goal on top of the changes of a plan, and redirect to its plan. Raises Refusal."""
    sentence = fields.get("goal", "").strip()
    if not sentence:
        raise Refusal("no_goal", "Describe the change.", UNUSABLE)
    kept, _ = await run_in_threadpool(kept_goals.read, doors.client, doors.partitions, plan.plan_id)
    goal_id = f"follow-up-{fields.get('command_id', '')[:64]}"
    try:
        made = follow_up_of(plan, kept, sentence, goal_id, _files(fields))
    except NoRetry as error:
        raise Refusal(error.code, str(error), CONFLICT) from error
    return await _hand_in(doors, caller, made.body)


async def _hand_in(doors: Context, caller: Access, body: dict[str, Any], *, waits: bool = True) -> Response:
    caller.demand(Right.PRODUCER)
    handed = await run_in_threadpool(goals.hand_in, doors, caller, codec.dumps(body), {}, None)
    sent = handed.sent
    place = (sent.tenant, sent.goal_id)
    if waits:
        await wait_for(doors, caller, lambda: goals.find_verdict(doors, caller, handed), WAIT_S, goal=place)
    return RedirectResponse(goal_address(caller, sent.goal_id, sent.tenant), SEE_OTHER, HEADERS)


def _limits(fields: Fields) -> dict[str, int]:
    """Return the limits in a form: the tokens, and the limit that a button names. Raises Refusal for a wrong number."""
    said = {"tokens": fields.get("tokens", "").strip()}
    if (name := fields.get("limit", "")) in LIMITS:
        said[name] = fields.get("limit_value", "").strip() or said.get(name, "")
    found = {name: value for name, value in said.items() if value}
    if not all(value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS for value in found.values()):
        raise Refusal("wrong_limit", "Enter a limit as a whole number.", UNUSABLE)
    return {name: int(value) for name, value in found.items()}


def _files(fields: Fields) -> list[str]:
    return [line.strip() for line in fields.get("allow", "").splitlines() if line.strip()]
