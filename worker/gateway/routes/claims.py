"""`POST /v1/steps:claim` and `/v1/steps:heartbeat`: queues and leases for controllers without Redis."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.types import Receive, Scope, Send

from schemas import codec
from schemas.base import PlanId, QueueName, StepId, Word
from schemas.step import StepSpec
from worker.gateway.access import Controller, Doors
from worker.gateway.claiming import LONGEST_WAIT_S, ClaimDesk
from worker.gateway.waiter import Waiter, Wanted
from worker.store import claims, keys
from worker.store.claims import Holder

router = APIRouter(prefix="/v1", tags=["controllers"])

AT_ONCE_S = 10.0  # for a caller who does not wait, until Redis has answered
MAX_INFO_BYTES = 512

ControllerName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f\x85]{1,128}$")]


def _refuse_words(value: Any) -> Any:
    """Reject booleans and texts, which pydantic would convert to a number."""
    if isinstance(value, bool | str):
        raise ValueError("a number is wanted")
    return value


NUMBER = BeforeValidator(_refuse_words)


class Claimant(BaseModel):
    """A controller, and its own description."""

    controller: ControllerName = Field(examples=["ctl-7"])
    info: dict[str, Any] | None = Field(
        default=None,
        description="Shown by `planner controllers`: version, host, abilities, done, failed. Kept up to 512 bytes.",
    )

    def holder(self, name: str, ttl_s: int | None = None) -> Holder:
        """Return the holder of a lease: the given name, with the controller's info."""
        return Holder(name, "" if ttl_s is None else ttl_s, b"" if self.info is None else _encoded(self.info))


def _encoded(info: dict[str, Any]) -> bytes:
    """Return the controller's info as JSON; empty if it is too long, or would not be read back unchanged."""
    try:
        encoded = codec.dumps(info)
    except codec.EncodeError:  # a number beyond 64 bits, half of a surrogate pair
        return b""
    return encoded if len(encoded) <= MAX_INFO_BYTES and codec.loads(encoded) == info else b""  # NaN becomes null


class Claim(Claimant):
    """The request of a controller."""

    claim_id: Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f\x85]{1,128}$")] | None = Field(
        default=None, description="Make a new one for every claim: the same within 60 s returns the same steps."
    )
    queues: list[QueueName] = Field(default=["default"], min_length=1, max_length=100)
    max: Annotated[int, NUMBER] = Field(default=1, ge=1, le=claims.MOST)
    wait_s: Annotated[float, NUMBER] = Field(default=30, ge=0, le=LONGEST_WAIT_S)
    ttl_s: Annotated[int | None, NUMBER] = Field(
        default=None, ge=1, le=86_400, description="How long the claims last without a renewal: 60 to 900 s, else 60."
    )


class ClaimedSteps(BaseModel):
    """The claimed steps; empty if none came in time."""

    steps: list[StepSpec]


class HeldStep(BaseModel):
    """An attempt that the controller holds."""

    plan_id: PlanId
    step_id: StepId
    attempt: Annotated[int, NUMBER] = Field(ge=1, le=1_000_000)
    lease: Word


class RenewedStep(HeldStep):
    """An attempt whose claim is renewed."""

    tool_calls: Annotated[int | None, NUMBER] = Field(
        default=None,
        ge=0,
        le=10**9,
        description="Calls of tools so far. The answer is `cancel` at the limit of the attempt, if it has one.",
    )


class Heartbeat(Claimant):
    """The attempts whose claims are renewed."""

    steps: list[RenewedStep] = Field(max_length=1000)


class StepAction(HeldStep):
    """The planner's answer: `continue`, `cancel`, `pause`, `taken` (another has it) or `stale` (it is over)."""

    action: str
    tokens_left: int
    lease_ttl_ms: int


class Renewed(BaseModel):
    """The answers, in the order of the steps."""

    steps: list[StepAction]


class _Given(Response):
    """The steps for a caller, which return to their queues if the response cannot be written."""

    media_type = "application/json"

    def __init__(self, content: bytes, desk: ClaimDesk, waiter: Waiter, gone: asyncio.Task[None]) -> None:
        super().__init__(content)
        self._desk = desk
        self._waiter = waiter
        self._gone = gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as any response
        written = False
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await asyncio.sleep(0)  # a closed connection is noticed now
            written = not self._gone.done()
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._gone.cancel()
            if not written:
                self._desk.abandon(self._waiter)


async def _hang_up(request: Request) -> None:
    """Wait until the caller closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post("/steps:claim", responses={200: {"model": ClaimedSteps}})
async def claim(body: Claim, request: Request, caller: Controller, doors: Doors) -> Response:
    """Claim steps of these queues for a controller; waits for them, at most `wait_s` seconds."""
    for queue in body.queues:
        caller.demand_queue(queue)
    streams = [keys.Partition(part).steps(queue) for queue in body.queues for part in range(doors.partitions)]
    wanted = Wanted(
        holder=body.holder(caller.name_of(body.controller), body.ttl_s),
        streams=tuple(dict.fromkeys(streams)),
        most=body.max,
        record=keys.claim_id(caller.key.key_id, body.claim_id) if body.claim_id else None,
        waits=body.wait_s > 0,
        lasts=caller.lasts,
    )
    waiter = doors.claims.enter(wanted)
    gone = asyncio.create_task(_hang_up(request))
    response = None
    try:
        await asyncio.wait((waiter.given, gone), timeout=body.wait_s or AT_ONCE_S, return_when=asyncio.FIRST_COMPLETED)
        if waiter.given.done():
            steps = waiter.given.result()
        else:
            steps = [] if gone.done() else await doors.claims.leave(waiter)
        content = b'{"steps":[%s]}' % b",".join(step.data for step in steps)
        response = _Given(content, doors.claims, waiter, gone)
    finally:
        if response is None:
            gone.cancel()
            doors.claims.abandon(waiter)
    return response


@router.post("/steps:heartbeat")
def heartbeat(body: Heartbeat, caller: Controller, doors: Doors) -> Renewed:
    """Renew the claims on attempts. The answer has an action for each attempt, such as to continue."""
    holder = body.holder(caller.name_of(body.controller))
    beats = [
        holder.beat(
            claims.lease_key(doors.partitions, step.plan_id, step.step_id), step.attempt, step.lease, step.tool_calls
        )
        for step in body.steps
    ]
    return Renewed(
        steps=[
            StepAction(
                **step.model_dump(exclude={"tool_calls"}),
                action=action.decode(),
                tokens_left=int(tokens),
                lease_ttl_ms=int(ttl_ms),
            )
            for step, (action, tokens, ttl_ms) in zip(body.steps, claims.call(doors.client, beats), strict=True)
        ]
    )
