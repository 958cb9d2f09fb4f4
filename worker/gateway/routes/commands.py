"""`/v1/commands`: commands of operators to one plan or to all of a scope, and answers to questions of plans."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.api_key import Right
from schemas.base import Outbound
from schemas.command import Command, CommandName, Scope
from schemas.envelope import Problem
from schemas.plan import PlanSummary
from tasks.handlers.bulk_commands import WIDE, scope_of
from tasks.handlers.commands import SCOPES
from worker.gateway import openapi
from worker.gateway.access import ORIGIN, Access, Context, Doors, having
from worker.gateway.messages import IdempotencyKey, id_of_key, read_json, refusal_of, reused, wrong
from worker.gateway.problems import Refusal
from worker.gateway.responses import Wait, json
from worker.gateway.visible import Plan, find_plan
from worker.gateway.waiting import wait_for
from worker.store import api_keys, history, publishing
from worker.store.keys import Partition, partition_of
from worker.streams.decode import NAMED_BY, read_command
from worker.streams.inbox import StreamEntry

router = APIRouter(tags=["commands"])

REFUSED = "dev.planner.command.refused.v1"
KNOWN = "dev.planner.command.known.v1"
OF_COMMANDS = "/v1/events?types=command.*"  # events with the result of a bulk command
EVENTS = 1000  # read at a time
MAX_ACTOR = 90  # characters of the name that a caller gives
INFORMING = "clarify"  # the kind of question whose answer lets a plan do nothing that it might not do before
SAME = ("command", "scope", "plan_id", "target", "step_id", "reason", "until", "value")  # in each repetition

Commander = Annotated[Access, Depends(having(Right.OPERATOR, Right.ANSWER))]


class CommandSent(Outbound):
    """A command that was handed in."""

    command_id: str


class CommandAnswer(CommandSent):
    """The result of a command: its event, as the command line prints it with --json."""

    type: str
    data: dict[str, Any]


def _schema(scopes: frozenset[Scope], optional: frozenset[str]) -> dict[str, Any]:
    """Return the schema of the commands with these scopes, each with its required fields."""
    made = openapi.schema_of(Command)
    made["required"] = [name for name in made["required"] if name not in optional]
    made["anyOf"] = []
    for scope in sorted(scopes):
        names = [each.value for each in CommandName if scope in SCOPES[each]]
        needed = [name for name in NAMED_BY[scope] if name not in optional]
        properties: dict[str, Any] = {"command": {"enum": names}, **{name: {"type": "string"} for name in needed}}
        needs_scope = "scope" not in optional
        if needs_scope:
            properties["scope"] = {"const": scope.value}
        made["anyOf"].append({"properties": properties, "required": [*needed, *(["scope"] if needs_scope else [])]})
    return made


BESIDE = frozenset({"command_id", "actor", "reason"})  # fields that a body may leave out
OF_PLAN = frozenset({Scope.PLAN, Scope.STEP})
RESPONSES = {
    200: {"model": CommandAnswer, "description": "With `wait`: the result of the command."},
    **openapi.problems(404, 409),
}


@router.post(
    "/v1/plans/{plan_id}/commands",
    status_code=202,
    response_model=CommandSent,
    responses=RESPONSES,
    openapi_extra=openapi.body(_schema(OF_PLAN, BESIDE | {"scope", "plan_id"})),
)
async def command_plan(
    request: Request,
    plan: Plan,
    caller: Commander,
    doors: Doors,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Command a plan or one of its steps. With `wait` the answer is 200 with the result, or 409 after a refusal."""
    said = _read(await request.body())
    said["plan_id"] = plan.plan_id if said.get("plan_id") is None else said["plan_id"]
    if said["plan_id"] != plan.plan_id:
        raise Refusal("command_refused", "The path names another plan than the body.", 409)
    if said.get("scope") is None:
        said["scope"] = (Scope.PLAN if said.get("step_id") is None else Scope.STEP).value
    elif said["scope"] not in (Scope.PLAN.value, Scope.STEP.value):
        raise wrong("/scope", "This path takes commands to a plan or a step: /v1/commands takes wider ones.")
    return await obey(doors, caller, said, idempotency_key, wait)


@router.post(
    "/v1/commands",
    status_code=202,
    response_model=CommandSent,
    responses=RESPONSES,
    openapi_extra=openapi.body(_schema(frozenset(Scope), BESIDE)),
)
async def command(
    request: Request, caller: Commander, doors: Doors, wait: Wait = 0, idempotency_key: IdempotencyKey = None
) -> Response:
    """Command one plan, a queue, all plans of a repository or a tenant, or all plans. `wait` works as for one plan.

    A key of a tenant reaches that tenant and its queues.
    """
    return await obey(doors, caller, _read(await request.body()), idempotency_key, wait)


def _read(raw: bytes) -> dict[str, Any]:
    said = read_json(raw)
    if not isinstance(said, dict):
        raise wrong("", "A command is an object.")
    return said


async def obey(
    doors: Context, caller: Access, said: dict[str, Any], idempotency_key: str | None, wait_s: float
) -> Response:
    """Publish the command of a caller, and wait for the event that answers it.

    Answers 202 if no event came in `wait_s`. Raises Refusal if the caller may not give the command, or if the planner
    refused it.
    """
    has_own_id = said.get("command_id") is not None
    made = _command(caller, said, id_of_key(idempotency_key))
    made = await run_in_threadpool(_admit, doors, caller, made)
    replies = await run_in_threadpool(_publish, doors, made, has_own_id)
    event = None
    if wait_s:
        plans = [made.plan_id] if made.plan_id else ()
        event = await wait_for(doors, caller, replies.look, wait_s, plans=plans)
    if event is None:
        where = f"/v1/plans/{made.plan_id}" if made.plan_id else OF_COMMANDS
        return json(CommandSent(command_id=made.command_id), 202, {"Location": where})
    refusal = event["data"].get("reason", "refused") if event["type"] == REFUSED else None
    if event["type"] == KNOWN and (heard := await run_in_threadpool(_heard, doors, made)):
        refusal = heard[1]  # the result of its first delivery
    if refusal:
        raise Refusal("command_refused", f"{made.command}: {refusal}", 409)
    return json(CommandAnswer(command_id=made.command_id, **event))


def _command(caller: Access, said: Mapping[str, Any], key: str | None) -> Command:
    """Return the command in a body. Raises Refusal if the body is invalid."""
    whole = {"reason": "", **said}
    if whole.get("command_id") is None:
        whole["command_id"] = key or uuid.uuid4().hex
    whole.setdefault("actor", caller.key.called)
    found = read_command(StreamEntry("", b"", {b"data": codec.dumps(whole)}), strict=True)
    if isinstance(found, Problem):
        raise refusal_of(found)
    if "actor" in said:  # no caller can act under the name of another key
        actor = f"{found.actor[:MAX_ACTOR]} ({caller.key.called})"
        found = found.model_copy(update={"actor": actor})
    return found


def _admit(doors: Context, caller: Access, made: Command) -> Command:
    """Return a command after the check that the caller may give it.

    Raises Refusal if the caller may not give it, or if its target does not exist. A key that may not consent can only
    answer a question that informs. This also holds if the plan asks another question when it obeys the command.
    """
    if made.scope in WIDE:
        caller.demand(Right.OPERATOR)
        _admit_wide(doors, caller, made)
        return made
    plan = find_plan(doors, caller, str(made.plan_id))
    if not caller.key.may(Right.OPERATOR):
        if not _may_inform(doors, plan, made):
            caller.demand(Right.OPERATOR)
        made = made.model_copy(update={"question": INFORMING})
    keys = Partition(partition_of(plan.plan_id, doors.partitions)).plan(plan.plan_id)
    if made.step_id and not doors.client.hexists(keys.status, made.step_id):
        raise Refusal("no_such_step", f"The plan has no step {made.step_id}.", 404)
    return made


def _may_inform(doors: Context, plan: PlanSummary, made: Command) -> bool:
    """Return whether a command may count as an answer to a question that informs, which needs no consent.

    If the plan asks nothing, the planner itself refuses or recognizes the command. If the plan by now asks for consent,
    only a repeated answer counts: one that the plan's log already has.
    """
    if made.command is not CommandName.ANSWER or made.step_id is not None:
        return False
    return plan.waiting is None or plan.waiting.kind == INFORMING or _heard(doors, made) is not None


def _admit_wide(doors: Context, caller: Access, made: Command) -> None:
    """Raise Refusal for a command that reaches beyond the caller's tenant or repositories.

    A repository belongs to all tenants whose goals name it, and a tenant may not raise its day budget.
    """
    key, target = caller.key, made.target or ""
    if made.scope is Scope.QUEUE:
        caller.demand_queue(target)
        within = not key.tenant or api_keys.owner_of(doors.client, target) == key.tenant
        within = within and not key.repositories
    elif made.scope is Scope.TENANT:
        is_raised = made.command is CommandName.TOP_UP and key.tenant
        within = key.tenant in (None, target) and not key.repositories and not is_raised
    elif made.scope is Scope.REPOSITORY:
        within = key.tenant is None and (not key.repositories or target in key.repositories)
    else:
        within = key.sees_all
    if not within:
        raise Refusal("no_right", f"This key may not {made.command} all of the scope {made.scope} {target}.", 403)


def _publish(doors: Context, made: Command, has_own_id: bool) -> _Replies:
    """Add a command to its stream, and return the reader of its replies.

    Raises Refusal if another command with this id was obeyed.
    """
    if _is_another(doors, made):
        if has_own_id:
            detail = f"The command id {made.command_id} was used with another body: take a new one."
            raise Refusal("command_refused", detail, 409)
        raise reused()
    replies = _Replies(doors, made)
    publishing.publish_command(doors.client, doors.partitions, made, ORIGIN.get())
    return replies


def _is_another(doors: Context, made: Command) -> bool:
    """Return whether the id of a command belongs to a command with another body."""
    if made.scope in WIDE:
        return publishing.is_known_alike(doors.client, made) is False
    known = _heard(doors, made)
    return known is not None and any(known[0].get(name) != value for name, value in _fields(made).items())


def _fields(made: Command) -> dict[str, Any]:
    said = made.model_dump(mode="json")
    return {name: said[name] for name in SAME}


def _heard(doors: Context, made: Command) -> tuple[dict[str, Any], str | None] | None:
    """Return the command with this id from the log of its plan, with its refusal or None.

    Returns None if the command is not about one plan, or the log does not contain it.
    """
    if made.plan_id is None:
        return None
    keys = Partition(partition_of(made.plan_id, doors.partitions)).plan(made.plan_id)
    return history.find_command(doors.client, keys, made.command_id)


class _Replies:
    """The events of a partition from now on, searched for the one that answers a command.

    Plans of several tenants share a partition, and two of them can receive commands with the same id.
    """

    def __init__(self, doors: Context, made: Command) -> None:
        self._client, self._stream = doors.client, publishing.home_of(made, doors.partitions).events
        about = {"plan_id": made.plan_id} if made.plan_id else {"scope": scope_of(made)}
        self._wanted = {"command_id": made.command_id, **about}
        self._id = codec.dumps(made.command_id)  # as in the JSON of the event
        found: Any = self._client.xrevrange(self._stream, count=1)
        self._after = found[0][0].decode() if found else "0"

    def look(self) -> dict[str, Any] | None:
        """Return the event that answers the command; None if it has not come yet."""
        wanted = self._wanted.items()
        while True:
            page: Any = self._client.xrange(self._stream, f"({self._after}", count=EVENTS)
            for entry, fields in page:
                self._after = entry.decode()
                if self._id not in fields.get(b"data", b""):
                    continue
                data = codec.loads(fields[b"data"])
                if all(data.get(name) == value for name, value in wanted):
                    return {"type": fields[b"type"].decode(), "data": data}
            if len(page) < EVENTS:
                return None
