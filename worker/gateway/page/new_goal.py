"""`/goals/new`: a form for a goal or a report; draws the plan that the planner would make, and sends the goal."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.api_key import ALWAYS_SHARED, Right
from schemas.base import GoalVerdict
from schemas.envelope import Problem
from schemas.goal import Goal
from schemas.plan import GoalAnswer
from tasks.toolchain.languages import LANGUAGES
from worker.engine import beginnings
from worker.engine.preview import Preview, preview
from worker.gateway.access import Access, Context, Doors, Producer
from worker.gateway.bodies import MAX_FORM_BYTES
from worker.gateway.messages import refusal_of
from worker.gateway.page import goal_form, graph
from worker.gateway.page.forms import SignedUpload
from worker.gateway.page.goal_form import Complaint, Fields, WrongField
from worker.gateway.page.goal_view import goal_address, plan_address
from worker.gateway.page.rendering import HEADERS, PageRoute, render
from worker.gateway.problems import Refusal
from worker.gateway.routes import goals
from worker.gateway.waiting import wait_for
from worker.settings.tools_file import WrongTools
from worker.sources.goal import Nothing
from worker.store.policies import Policies, PolicyUnreadable
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry

router = APIRouter(route_class=PageRoute, include_in_schema=False)

WAIT_S = 10.0  # for the verdict
SEE_OTHER, UNUSABLE, CONFLICT, FORBIDDEN, LATER = 303, 422, 409, 403, frozenset({429, 503})
OURS = "page-"  # prefix of goal ids that the page makes
INCOMPLETE = "The planner takes no such goal:"
SEND = "send"  # value of `do` that sends the goal; else the plan is drawn


class Shown(NamedTuple):
    """The results above the form: the errors of the goal, or a preview of its plan."""

    complaints: tuple[Complaint, ...] = ()
    notice: str = ""  # a sentence about the goal as a whole
    preview: Preview | None = None
    goal: Goal | None = None
    status: int = 200


@router.get("/goals/new")
def form(request: Request, caller: Producer, doors: Doors) -> Response:
    """Show the form of a goal; the address may fill in its fields."""
    asked = {name: value for name, value in request.query_params.items() if name in goal_form.LABELS}
    return _page(request, doors, caller, {**asked, "goal_id": _new_id()}, Shown())


@router.post("/goals/new")
async def sends(request: Request, doors: Doors, form: SignedUpload) -> Response:
    """Show the plan that a goal would get, or send the goal; the form keeps its values."""
    caller = form.caller
    caller.demand(Right.PRODUCER)
    fields = await run_in_threadpool(_with_file, form.fields, form.files)
    is_sent = form.fields.get("do") == SEND
    try:
        body = await run_in_threadpool(goal_form.goal_of, fields)
        if isinstance(body, Nothing):
            return await run_in_threadpool(_page, request, doors, caller, fields, Shown(notice=body.value))
        if is_sent:
            return await _send(request, doors, caller, fields, body)
        shown = await run_in_threadpool(_try, doors, caller, body, fields)
    except WrongField as error:
        shown = Shown((Complaint(error.field, goal_form.LABELS[error.field], str(error)),), status=UNUSABLE)
    except Refusal as refusal:
        shown = _refused(refusal, fields)
    return await run_in_threadpool(_page, request, doors, caller, fields, shown)


async def _send(request: Request, doors: Context, caller: Access, fields: Fields, body: dict[str, Any]) -> Response:
    """Submit a goal, and redirect to its plan or its state. Raises Refusal if the planner does not accept it."""
    handed = await run_in_threadpool(goals.hand_in, doors, caller, codec.dumps(body), {}, None)
    sent = handed.sent
    place = (sent.tenant, sent.goal_id)
    answer = await wait_for(doors, caller, lambda: goals.find_verdict(doors, caller, handed), WAIT_S, goal=place)
    if answer is None:
        return RedirectResponse(goal_address(caller, sent.goal_id, sent.tenant), SEE_OTHER, HEADERS)
    if address := plan_address(answer, caller):
        return RedirectResponse(address, SEE_OTHER, HEADERS)
    shown = await run_in_threadpool(_ended, doors, answer, fields)
    fields = {**fields, "goal_id": _fresh(fields.get("goal_id", ""))}
    return await run_in_threadpool(_page, request, doors, caller, fields, shown)


def _ended(doors: Context, answer: GoalAnswer, fields: Fields) -> Shown:
    """Return the reason why a submitted goal has no running plan."""
    if answer.verdict is GoalVerdict.REJECTED:
        found = goal_form.complaints(goals.errors_of(doors, answer), fields)
        return Shown(found, f"The planner rejected the goal: {answer.reason}", status=UNUSABLE)
    return Shown(notice=f"The planner has nothing to do for this goal: {answer.reason}")


def _try(doors: Context, caller: Access, body: dict[str, Any], fields: Fields) -> Shown:
    """Return a preview of a goal's plan. Raises Refusal if the planner would not even accept the goal."""
    if caller.key.tenant:
        body = {"tenant": caller.key.tenant, **body}
    data = codec.dumps(body)
    found = read_goal(StreamEntry("", b"", {b"data": data}), doors.settings.max_goal_bytes, strict=True)
    if isinstance(found, Problem):
        raise refusal_of(found)
    goal, _ = found
    tenant = caller.admit(goal)
    try:
        begun = beginnings.go_on(doors.client, goal, doors.partitions)
        told = preview(begun, doors.settings, Policies(doors.client).current(tenant))
    except (WrongTools, PolicyUnreadable) as error:
        raise Refusal("no_preview", str(error), 503) from error
    return Shown(goal_form.complaints(told.errors, fields), preview=told, goal=goal)


def _refused(refusal: Refusal, fields: Fields) -> Shown:
    problem = refusal.problem
    if problem.status not in {UNUSABLE, CONFLICT, FORBIDDEN, 400, *LATER}:
        raise refusal
    found = goal_form.complaints(problem.errors, fields)
    return Shown(found, INCOMPLETE if found else problem.detail, status=problem.status or UNUSABLE)


def _with_file(fields: Fields, files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the fields with an uploaded report as the pasted one, so that the form keeps it."""
    body = files.get("file")
    given = {**fields, "report": goal_form.read_upload(body)} if body else fields
    return {name: value.replace("\r\n", "\n") for name, value in given.items()}


def _page(request: Request, doors: Context, caller: Access, fields: Fields, shown: Shown) -> Response:
    if shown.status == CONFLICT:
        fields = {**fields, "goal_id": _fresh(fields.get("goal_id", ""))}
    key, steps = caller.key, shown.preview.steps if shown.preview else ()
    return render(
        request,
        "new_goal.html",
        shown.status,
        fields=fields,
        shown=shown,
        wrong=goal_form.by_field(shown.complaints),
        labels=goal_form.LABELS,
        limits=goal_form.LIMITS,
        limits_are_open=any(fields.get(f"limit_{name}") for name in goal_form.LIMITS),
        kinds=goal_form.KINDS,
        risks=goal_form.RISKS,
        deliveries=goal_form.DELIVERIES,
        languages=list(LANGUAGES),
        drafters=_drafters(doors),
        queues=_first(key.queues, ALWAYS_SHARED),
        repositories=key.repositories,
        most_bytes=MAX_FORM_BYTES,
        graph=graph.lay_out(steps) if steps else None,
        addresses={step.step_id: f"#step-{step.step_id}" for step in steps},
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
        drawn={"plan_id": "", "state": "CREATED"},
    )


def _drafters(doors: Context) -> list[str]:
    return list(dict.fromkeys(("none", *doors.settings.drafters)))


def _first(names: Sequence[str], usual: str) -> list[str]:
    """Return the names in alphabetical order, with the `usual` one first if it is among them."""
    return sorted(names, key=lambda name: (name != usual, name))


def _new_id() -> str:
    return f"{OURS}{uuid.uuid4().hex}"


def _fresh(goal_id: str) -> str:
    """Return the goal id for the next try: a new one if the page made the old one, which has its answer."""
    return _new_id() if goal_id.startswith(OURS) else goal_id
