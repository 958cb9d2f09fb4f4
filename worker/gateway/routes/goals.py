"""`/v1/goals`: accepts goals, and returns their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote, urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.api_key import Right
from schemas.base import GoalId, GoalVerdict, Name, Outbound
from schemas.envelope import FieldError, Problem, field_error
from schemas.goal import Goal
from schemas.plan import GoalAnswer
from schemas.traceparent import read_traceparent
from worker.engine.admission import reachable_plan_id
from worker.gateway import openapi
from worker.gateway.access import Access, Context, Doors, Producer, having
from worker.gateway.messages import IdempotencyKey, id_of_key, read_json, refusal_of, reused, wrong
from worker.gateway.problems import RETRY_S, Refusal
from worker.gateway.responses import Wait, json
from worker.gateway.waiting import wait_for
from worker.store import publishing, queries
from worker.store.keys import NO_TENANT
from worker.store.publishing import DeadGoal, GoalConflict, Sent
from worker.streams.decode import GOAL_ID, read_goal
from worker.streams.inbox import StreamEntry
from worker.telemetry import tracing

EVENT_MEDIA_TYPE = "application/cloudevents+json"
EVENT_ATTRIBUTES = ("id", "source", "type", "specversion")
EVENT_VERSION = "1.0"


EVENT_SCHEMA = {
    "type": "object",
    "description": "A goal as a CloudEvent; its `id` is the goal's id, unless the goal has one.",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\s\x00-\x1f\x7f\x85]+$"},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "specversion": {"type": "string", "const": EVENT_VERSION},
        "data": {"$ref": "#/components/schemas/Goal"},
    },
    "required": [*EVENT_ATTRIBUTES, "data"],
}


def unpack_event(event: Any) -> tuple[Any, str]:
    """Return the goal and the id of an event in structured mode. Raises Refusal 422."""
    if not isinstance(event, dict):
        raise wrong("", "An event is an object.")
    errors = [
        *_wrong_attributes(event, "/"),
        *([] if "data" in event else [field_error("/data", "missing", "The goal is here.")]),
    ]
    if errors:
        raise Refusal("invalid_event", "This is no CloudEvent of version 1.0 with a goal.", errors=errors)
    return event["data"], event["id"]


def id_beside(headers: Mapping[str, str]) -> str | None:
    """Return the id in the headers of an event in binary mode; None if it is no event. Raises Refusal 422."""
    if not any(f"ce-{name}" in headers for name in EVENT_ATTRIBUTES):
        return None
    said = {name: unquote(headers[f"ce-{name}"]) for name in EVENT_ATTRIBUTES if f"ce-{name}" in headers}
    if errors := _wrong_attributes(said, "ce-"):
        raise Refusal("invalid_event", "These headers make no CloudEvent of version 1.0.", errors=errors)
    return said["id"]


def _wrong_attributes(said: Mapping[str, Any], before: str) -> list[FieldError]:
    missing = [name for name in EVENT_ATTRIBUTES if not (isinstance(said.get(name), str) and said[name])]
    errors = [field_error(before + name, "missing", f"An event has the attribute {name}, a text.") for name in missing]
    if "id" not in missing and not GOAL_ID.fullmatch(said["id"]):
        errors.append(field_error(f"{before}id", "wrong_value", "An id has 1 to 200 characters, and no spaces."))
    if "specversion" not in missing and said["specversion"] != EVENT_VERSION:
        errors.append(field_error(f"{before}specversion", "unknown_version", f"Only {EVENT_VERSION} is known."))
    return errors


router = APIRouter(tags=["goals"])

FULL = {"tenant_full": 429, "out_of_memory": 503}  # of a goal that may be sent again later
JSON = "application/json"

SeesGoals = Annotated[Access, Depends(having(Right.PRODUCER, Right.VIEWER, Right.OPERATOR))]


class GoalLinks(Outbound):
    """The addresses of a goal and, once there is one, of its plan."""

    self: str
    plan: str | None = None


class GoalSent(Outbound):
    """A goal that was handed in."""

    goal_id: str
    verdict: GoalVerdict
    links: GoalLinks


class GoalStatus(GoalAnswer):
    """The result of a goal, as its record has it, with every error of a rejected goal."""

    links: GoalLinks


class Handed(NamedTuple):
    """A submitted goal, and whether its body contains the id."""

    sent: Sent
    has_own_id: bool


@router.post(
    "/v1/goals",
    status_code=202,
    response_model=GoalSent,
    responses={200: {"model": GoalStatus, "description": "With `wait`: the verdict."}, **openapi.problems(409)},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": openapi.reference(Goal)},
                EVENT_MEDIA_TYPE: {"schema": EVENT_SCHEMA},
            },
        }
    },
)
async def submit(
    request: Request, caller: Producer, doors: Doors, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Hand in a goal, as JSON or as a CloudEvent (structured, or binary with `ce-` headers).

    With `wait` the answer is 200 and the verdict if it comes in time.
    """
    raw = await request.body()
    handed = await run_in_threadpool(hand_in, doors, caller, raw, request.headers, idempotency_key)
    sent = handed.sent
    goal, answer = (sent.tenant, sent.goal_id), None
    if wait:
        answer = await wait_for(doors, caller, lambda: find_verdict(doors, caller, handed), wait, goal=goal)
    if answer:
        return await run_in_threadpool(_status, doors, caller, answer, sent.tenant)
    links = _links(caller, sent.goal_id, sent.tenant)
    return json(GoalSent(goal_id=sent.goal_id, verdict=GoalVerdict.PENDING, links=links), 202, {"Location": links.self})


@router.get("/v1/goals", response_model=GoalStatus, responses=openapi.problems(404))
def read(
    caller: SeesGoals,
    doors: Doors,
    goal_id: Annotated[GoalId, Query()],
    tenant: Annotated[Name | None, Query(description="Whose goal it is, for keys of all tenants.")] = None,
) -> Response:
    """Return the result of a goal."""
    return _status(doors, caller, *find_goal(doors, caller, goal_id, tenant))


def find_goal(doors: Context, caller: Access, goal_id: str, tenant: str | None) -> tuple[GoalAnswer, str]:
    """Return the state and the owner of a goal. Raises Refusal 404 if it is not the caller's."""
    owner = caller.key.tenant or tenant or NO_TENANT
    is_ours = tenant in (None, owner)
    answer = queries.goal(doors.client, goal_id, owner) if is_ours else None
    if answer is None or not _may_see(doors, caller, answer):
        raise Refusal("no_such_goal", f"There is no goal {goal_id}, or the planner has not taken it yet.", 404)
    return answer, owner


def hand_in(doors: Context, caller: Access, raw: bytes, headers: Mapping[str, str], key: str | None) -> Handed:
    """Check a goal and add it to the stream, with the trace of its sender. Raises Refusal."""
    body, event_id, before = _unpack(raw, headers, doors.settings.max_goal_bytes)
    # Outside of the goal: so workers of all versions compute the same digest of it.
    by_header, by_body = (
        read_traceparent(said) for said in (headers.get("traceparent"), body.pop("traceparent", None))
    )
    trace = by_body if by_body and not by_header else tracing.traceparent(by_header)
    has_own_id = body.get("goal_id") is not None or event_id is not None
    if body.get("goal_id") is None and (named := event_id or id_of_key(key)):
        body["goal_id"] = named
    if "tenant" not in body and caller.key.tenant:
        body["tenant"] = caller.key.tenant
    data = codec.dumps(body)
    found = read_goal(StreamEntry("", b"", {b"data": data}), doors.settings.max_goal_bytes, strict=True)
    if isinstance(found, Problem):
        raise refusal_of(found, before)
    goal, digest = found
    tenant = caller.admit(goal)
    new = Sent(None, goal.goal_id or "", tenant, digest)
    try:
        plan_id = reachable_plan_id(doors.client, goal.context.repo, doors.settings.partitions)
        told = (doors.client, data, new, plan_id, doors.settings.retention_s)
        sent = publishing.hand_in(*told, traceparent=trace)
    except GoalConflict as conflict:
        raise _conflict(conflict, caller, has_own_id) from conflict
    return Handed(sent, has_own_id)


def _unpack(raw: bytes, headers: Mapping[str, str], most_bytes: int) -> tuple[dict[str, Any], str | None, str]:
    """Return a goal, the id of its event or None, and the goal's JSON pointer in the body. Raises Refusal."""
    body, before = read_json(raw), ""
    is_event = headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_MEDIA_TYPE
    goal = body.get("data") if is_event and isinstance(body, dict) else body
    try:
        event_id, extension = id_beside(headers), headers.get("ce-traceparent")
        if is_event:
            before, extension = "/data", body.get("traceparent") if isinstance(body, dict) else None
            body, event_id = unpack_event(body)
    except Refusal as refusal:
        raise _with_errors_of(goal, refusal.problem, before, most_bytes) from refusal
    if not isinstance(body, dict):
        raise wrong(before, "A goal is an object.")
    if extension:
        body["traceparent"] = extension
    return body, event_id, before


def _with_errors_of(goal: Any, event: Problem, before: str, most_bytes: int) -> Refusal:
    """Return the refusal of an invalid event, with the errors of its goal, too."""
    errors = event.errors
    if isinstance(goal, dict):
        found = read_goal(StreamEntry("", b"", {b"data": codec.dumps(goal)}), most_bytes, strict=True)
        errors += refusal_of(found, before).problem.errors if isinstance(found, Problem) else ()
    return Refusal(event.code, event.detail, event.status, errors)


def _conflict(conflict: GoalConflict, caller: Access, has_own_id: bool) -> Refusal:
    if not has_own_id:
        return reused()
    # The other goal's plan may be one of a repository that the caller does not see.
    detail = "This goal id was already used for another goal." if caller.key.repositories else str(conflict)
    return Refusal(publishing.CONFLICT, detail, 409)


def find_verdict(doors: Context, caller: Access, handed: Handed) -> GoalAnswer | None:
    """Return the planner's answer to a goal; None if there is none yet. Raises Refusal if the goal was not taken."""
    try:
        return publishing.verdict(doors.client, handed.sent)
    except GoalConflict as conflict:
        raise _conflict(conflict, caller, handed.has_own_id) from conflict
    except DeadGoal as dead:
        found = dead.problem
        retry_after_s = RETRY_S if found.code in FULL else None
        status = FULL.get(found.code, found.status)
        raise Refusal(found.code, found.detail, status, found.errors, retry_after_s=retry_after_s) from dead


def _may_see(doors: Context, caller: Access, answer: GoalAnswer) -> bool:
    """Return whether the caller may see the plan of an answer; always true if there is no plan."""
    found = queries.owners(doors.client, doors.partitions, [answer.plan_id]) if answer.plan_id else {}
    return all(caller.may_see(*owner) for owner in found.values())


def _status(doors: Context, caller: Access, answer: GoalAnswer, tenant: str) -> Response:
    links = _links(caller, answer.goal_id, tenant, answer)
    return json(GoalStatus(**{**dict(answer), "errors": errors_of(doors, answer)}, links=links))


def errors_of(doors: Context, answer: GoalAnswer) -> tuple[dict[str, Any], ...]:
    """Return every error of a rejected goal."""
    if answer.verdict is not GoalVerdict.REJECTED:
        return answer.errors
    return tuple(queries.errors_of(doors.client, doors.partitions, answer))


def _links(caller: Access, goal_id: str, tenant: str, answer: GoalAnswer | None = None) -> GoalLinks:
    whose = {} if caller.key.tenant or tenant == NO_TENANT else {"tenant": tenant}
    has_plan = answer and answer.plan_id and answer.verdict not in (GoalVerdict.PENDING, GoalVerdict.NOTHING_TO_DO)
    return GoalLinks(
        self=f"/v1/goals?{urlencode({'goal_id': goal_id, **whose})}",
        plan=f"/v1/plans/{answer.plan_id}" if answer and has_plan else None,
    )
