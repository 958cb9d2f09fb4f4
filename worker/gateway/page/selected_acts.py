"""`/acts/selected`: one act on several plans of the list, after the page has shown the effect on each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.plan import PlanView, StepView
from worker.gateway.access import Access, Context, Doors, Operator
from worker.gateway.page import acts, retry
from worker.gateway.page.acts import BYTES, Act
from worker.gateway.page.forms import Signed
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.problems import Refusal
from worker.gateway.routes.commands import obey
from worker.gateway.visible import find_plan, view_of
from worker.store.keys import PLAN_ID
from worker.store.step_activity import approval_ends

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST = 50  # plans at once
ACTS = (Act.APPROVE, Act.PAUSE, Act.RESUME, Act.RETRY, Act.CANCEL)
NOT_NOW = "it cannot be done now"
CONFLICT = 409


class Chosen(NamedTuple):
    """A selected plan, the steps that an approval would affect, and the obstacle to the act, if there is one."""

    view: PlanView
    steps: tuple[StepView, ...]
    obstacle: str


class Done(NamedTuple):
    """The result for a selected plan."""

    plan_id: str
    goal: str
    text: str
    is_done: bool


@router.get("/acts/selected")
def asks(
    request: Request,
    caller: Operator,
    doors: Doors,
    act: Act = Act.PAUSE,
    plan: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Show the effect of an act on each selected plan."""
    return _form(request, doors, caller, act, plan or ())


@router.post("/acts/selected")
async def does(request: Request, doors: Doors, form: Signed) -> Response:
    """Do the act of the form on each plan, and show the results."""
    caller, fields = form.caller, form.fields
    caller.demand(*acts.rights_of(Act.PAUSE))
    act = Act(fields.get("act", "")) if fields.get("act") in ACTS else Act.PAUSE
    chosen = await run_in_threadpool(_choose, doors, caller, act, fields.get("plans", "").split())
    if fields.get("asked") != await run_in_threadpool(_digest, doors, chosen):
        names = [each.view.plan_id for each in chosen]
        return await run_in_threadpool(_form, request, doors, caller, act, names, is_stale=True)
    reason = " ".join(fields.get("reason", "").split())
    done = [await _do(doors, caller, act, each, reason, fields.get("command_id", "")) for each in chosen]
    return render(request, "selected.html", act=act, told=acts.TELL[act], done=done, chosen=(), refusal=None)


def _form(
    request: Request, doors: Context, caller: Access, act: Act, names: Iterable[str], *, is_stale: bool = False
) -> Response:
    if act not in ACTS:
        raise Refusal("not_found", "This is not done about several plans at once.", 404)
    chosen = _choose(doors, caller, act, names)
    return render(
        request,
        "selected.html",
        CONFLICT if is_stale else 200,
        act=act,
        told=acts.TELL[act],
        chosen=chosen,
        done=(),
        refusal="Something has changed since this page was opened. Look at it again." if is_stale else None,
        asked=_digest(doors, chosen),
        command_id=uuid.uuid4().hex,
    )


def _choose(doors: Context, caller: Access, act: Act, names: Iterable[str]) -> list[Chosen]:
    """Return the named plans that the caller may see. Raises Refusal 404 if one is missing."""
    wanted = [name for name in dict.fromkeys(names) if PLAN_ID.fullmatch(name)][:MOST]
    found = []
    for name in wanted:
        find_plan(doors, caller, name)
        view = view_of(doors, name)
        steps = tuple(step for step in view.steps if Act.APPROVE in acts.of_step(view, step, caller.key))
        may = bool(steps) if act is Act.APPROVE else act in acts.of_plan(view, caller.key)
        found.append(Chosen(view, steps if act is Act.APPROVE else (), "" if may else NOT_NOW))
    return found


def _digest(doors: Context, chosen: Sequence[Chosen]) -> str:
    """Return the digest of a form's questions: plans with their obstacles, and steps with the ends of their waits."""
    told = [
        [
            each.view.plan_id,
            each.obstacle,
            *(
                acts.digest_of(
                    None, step, approval_ends(doors.client, doors.partitions, each.view.plan_id, step.step_id)
                )
                for step in each.steps
            ),
        ]
        for each in chosen
    ]
    return blake2b(codec.canonical(told), digest_size=BYTES).hexdigest()


async def _do(doors: Context, caller: Access, act: Act, one: Chosen, reason: str, command_id: str) -> Done:
    view = one.view
    if one.obstacle:
        return Done(view.plan_id, view.goal, one.obstacle, is_done=False)
    about: dict[str, Any] = {"command": act.value, "plan_id": view.plan_id, "reason": reason}
    said = [{**about, "scope": "step", "step_id": step.step_id} for step in one.steps] or [{**about, "scope": "plan"}]
    try:
        if act is Act.RETRY:
            await retry.send(doors, caller, view, {"command_id": _id(command_id, view.plan_id)}, waits=False)
        else:
            for each in said:
                named = _id(command_id, view.plan_id, each.get("step_id", ""))
                await obey(doors, caller, {**each, "command_id": named}, None, 0)
    except Refusal as refusal:
        return Done(view.plan_id, view.goal, refusal.problem.detail, is_done=False)
    return Done(view.plan_id, view.goal, "sent", is_done=True)


def _id(*parts: str) -> str:
    """Return the id of a command, the same each time that its form is sent."""
    return blake2b(codec.canonical(parts), digest_size=BYTES).hexdigest()
