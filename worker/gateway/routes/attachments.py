"""`POST /v1/attachments`: the diff of an attempt, from a controller without Redis."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from pydantic import StringConstraints

from schemas import codec
from schemas.attachment import Attachment
from schemas.base import Outbound
from worker.gateway import openapi
from worker.gateway.access import Controller, Doors
from worker.gateway.problems import Refusal
from worker.gateway.responses import json
from worker.gateway.routes.outcomes import NO_ATTEMPT
from worker.store import attachments, outcomes, sent_attachments
from worker.store.memory import share_of
from worker.store.outcomes import AttemptRef

router = APIRouter(prefix="/v1", tags=["controllers"], responses=openapi.problems(404))

Lease = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    Header(alias="Planner-Lease", description="The lease of the attempt, as its spec has it."),
]


class AttachmentTaken(Outbound):
    """The attachment was handed on; it is shown once an accepted outcome names its digest."""

    accepted: int = 1


@router.post("/attachments", status_code=202, response_model=AttachmentTaken)
def attach(_: Controller, doors: Doors, one: Attachment, lease: Lease) -> Response:
    """Hand in the diff of a live attempt, before its outcome; its lease is in a header."""
    attempt = AttemptRef(one.plan_id, one.step_id, one.attempt, lease)
    if outcomes.without_lease(doors.client, doors.partitions, [attempt]):
        raise Refusal("no_such_attempt", NO_ATTEMPT, 404)
    if share_of(doors.client.info("memory")) >= attachments.REFUSED_FROM:
        raise Refusal("out_of_memory", "Redis has no room for attachments now.", 503, retry_after_s=60)
    data = codec.dumps(one.model_dump(mode="json", exclude={"lease"}))
    sent_attachments.send(doors.client, doors.partitions, one.plan_id, data)
    return json(AttachmentTaken(), 202)
