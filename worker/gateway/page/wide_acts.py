"""`/acts/{act}`: acts of a person on all plans of a repository, a tenant or a queue, or on all plans."""

from __future__ import annotations

import uuid
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas.api_key import Right
from schemas.base import PlanState
from schemas.command import CommandName, Scope
from tasks.handlers.bulk_commands import WIDE
from tasks.handlers.commands import SCOPES
from tasks.plan.lifecycle import PLAN_ENDS
from worker.gateway.access import Access, Context, Doors, Operator
from worker.gateway.page.acts import PAUSES, read_until
from worker.gateway.page.forms import Fields, Signed
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.problems import Refusal
from worker.gateway.routes.commands import obey
from worker.gateway.visible import count_states, list_plans
from worker.store.plan_lists import PlanFilter

router = APIRouter(route_class=PageRoute, include_in_schema=False)

WAIT_S = 10.0  # for the result of a command
OK, ACCEPTED, TOLD_HERE = 200, 202, frozenset({403, 409, 422})
MOST_COUNTED = 200  # plans of a tenant or a repository in one state
MOST_DIGITS = 10
LIVING = [state.value for state in PlanState if state not in PLAN_ENDS]
REACHES = {
    Scope.REPOSITORY: "the repository",
    Scope.TENANT: "the tenant",
    Scope.QUEUE: "the queue",
    Scope.ALL: "all plans there are",
}


class WideAct(StrEnum):
    """An act that the page offers on more than one plan."""

    PAUSE = CommandName.PAUSE.value
    RESUME = CommandName.RESUME.value
    HALT = CommandName.HALT.value
    CANCEL = CommandName.CANCEL.value
    TOP_UP = CommandName.TOP_UP.value


class WideTold(NamedTuple):
    """The texts of an act: its title, its effect and its result; effect and result have other words for a queue."""

    title: str
    effect: str
    done: str
    of_queue: str = ""
    done_to_queue: str = ""
    is_final: bool = False


TELL = {
    WideAct.PAUSE: WideTold(
        "Pause",
        "Starts no more steps of these plans and of later plans, until a resume of the same scope. Attempts in "
        "flight continue to their end, and wall clocks stop.",
        "The pause is active.",
        "No more steps of this queue are handed out. Steps that were handed out before may be claimed and finish.",
        "The pause of this queue is active.",
    ),
    WideAct.RESUME: WideTold(
        "Resume",
        "Lifts a pause or a halt of the same scope: plans continue, unless another hold remains, and new plans are "
        "permitted. Plans that a halt has ended stay ended.",
        "The pause or halt is lifted. Its plans continue within moments.",
        "Steps of this queue are handed out again.",
        "The pause of this queue is lifted. Its steps are handed out again within moments.",
    ),
    WideAct.HALT: WideTold(
        "Halt",
        "Ends all of these plans as halted, and stops attempts in flight. Later plans end as they are "
        "made, until a resume of the same scope.",
        "The halt is active. Its plans end within moments.",
        is_final=True,
    ),
    WideAct.CANCEL: WideTold(
        "Cancel",
        "Ends all of these current plans, and stops attempts in flight. Later plans are not affected.",
        "The cancel is active. The current plans end within moments.",
        is_final=True,
    ),
    WideAct.TOP_UP: WideTold(
        "Top up",
        "Raises today's budget of tokens by your amount. Plans that wait for it continue.",
        "Today's budget is raised. Plans that wait for it continue within moments.",
        is_final=True,
    ),
}


def scopes_of(act: WideAct) -> list[Scope]:
    """List the scopes of an act that reach beyond one plan."""
    return [each for each in Scope if each in SCOPES[CommandName(act.value)] & WIDE]


@router.get("/acts/{act}")
def asks(
    request: Request,
    caller: Operator,
    doors: Doors,
    act: WideAct,
    scope: Annotated[str, Query(max_length=20)] = "",
    target: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show the effect of an act on many plans, and a form for its inputs."""
    return _form(request, doors, caller, act, {"scope": scope, "target": target, "command_id": uuid.uuid4().hex})


@router.post("/acts/{act}")
async def acts(request: Request, doors: Doors, form: Signed, act: WideAct) -> Response:
    """Send the form as a command, which the planner may refuse."""
    caller, fields = form.caller, form.fields
    caller.demand(Right.OPERATOR)
    try:
        answer = await obey(doors, caller, _command(act, fields), None, WAIT_S)
    except Refusal as refusal:
        if refusal.problem.status not in TOLD_HERE:
            raise
        fields = {**fields, "command_id": uuid.uuid4().hex}  # the one before may have been noted
        return await run_in_threadpool(_form, request, doors, caller, act, fields, refusal)
    is_done = answer.status_code != ACCEPTED
    return await run_in_threadpool(_form, request, doors, caller, act, fields, None, is_done=is_done)


def _form(
    request: Request,
    doors: Context,
    caller: Access,
    act: WideAct,
    fields: Fields,
    refusal: Refusal | None = None,
    *,
    is_done: bool | None = None,
) -> Response:
    scope = fields.get("scope", "")
    target = fields.get("target", "").strip()
    is_aimed = scope in scopes_of(act) and bool(target or scope == Scope.ALL)
    counts = act is not WideAct.TOP_UP and is_aimed and is_done is None
    return render(
        request,
        "wide_act.html",
        (refusal.problem.status or OK) if refusal else OK,
        act=act,
        told=TELL[act],
        fields=fields,
        refusal=refusal.problem if refusal else None,
        is_done=is_done,
        is_aimed=is_aimed,
        aim=REACHES[Scope(scope)] + (f" {target}" if scope != Scope.ALL else "") if is_aimed else "",
        scopes={each.value: REACHES[each] for each in scopes_of(act)},
        pauses=PAUSES,
        reached=_count(doors, caller, scope, target) if counts else None,
    )


class Reached(NamedTuple):
    """The number of live plans in a scope, and whether there are more."""

    plans: int
    has_more: bool


def _count(doors: Context, caller: Access, scope: str, target: str) -> Reached | None:
    """Return the number of plans that an act would reach and the caller may see; None if they are not counted."""
    if scope == Scope.ALL:
        counts = count_states(doors, caller.sight)
        return Reached(sum(n for state, n in counts.items() if state not in PLAN_ENDS), False) if counts else None
    if scope == Scope.QUEUE:
        return None
    whose = PlanFilter(repo=target) if scope == Scope.REPOSITORY else PlanFilter(tenant=target)
    pages = [list_plans(doors, caller.sight, replace(whose, state=state), MOST_COUNTED, None) for state in LIVING]
    return Reached(sum(len(each.items) for each in pages), any(each.next_cursor for each in pages))


def _command(act: WideAct, fields: Fields) -> dict[str, Any]:
    """Return the body of the command in a form. Raises Refusal."""
    scope, target = fields.get("scope", ""), fields.get("target", "").strip()
    said: dict[str, Any] = {
        "command": act.value,
        "scope": scope,
        "command_id": fields.get("command_id") or uuid.uuid4().hex,
        "reason": " ".join(fields.get("reason", "").split()),
        **({"target": target} if scope != Scope.ALL else {}),
    }
    if act is WideAct.PAUSE and (until := read_until(fields)):
        said["until"] = until
    if act is WideAct.TOP_UP:
        tokens = fields.get("tokens", "").strip()
        if not (tokens.isascii() and tokens.isdigit() and len(tokens) <= MOST_DIGITS):
            raise Refusal("nothing_to_add", "Enter the tokens to add, as a whole number.", 422)
        said["value"] = {"tokens": int(tokens)}
    return said
