"""`POST /v1/webhooks/{source}`: makes goals from deliveries of forges and other services, by PLANNER_WEBHOOKS_FILE."""

from __future__ import annotations

import logging
import time
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from worker.gateway import openapi
from worker.gateway.access import Doors
from worker.gateway.problems import RETRY_S, Refusal
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE
from worker.webhooks import intake
from worker.webhooks.events import NoEvent
from worker.webhooks.sources_file import WrongSources

log = logging.getLogger("planner.webhooks")

router = APIRouter(tags=["webhooks"])
FORMATS = ("application/json", "application/x-www-form-urlencoded")
ANSWER = {
    "type": "object",
    "required": ["goal_id", "ignored"],
    "properties": {
        "goal_id": {"type": ["string", "null"]},
        "ignored": {"type": ["string", "null"]},
        "cancels": {"type": "string"},
    },
}
RESPONSES = {202: openapi.response("The delivery was taken.", ANSWER), **openapi.problems(401, 403, 404, 503)}


async def _raw(request: Request) -> bytes:
    return await request.body()


@router.post(
    "/v1/webhooks/{source}",
    status_code=202,
    responses=RESPONSES,
    openapi_extra=openapi.body({"type": "object"}, *FORMATS),
)
def receive(
    source: str, request: Request, response: Response, doors: Doors, raw: Annotated[bytes, Depends(_raw)]
) -> dict[str, Any]:
    """Take a delivery, which a secret of its source has signed; it needs no key.

    The answer has the `goal_id`, or in `ignored` the reason why there is no goal. `cancels` names an older goal that
    the delivery ends.
    """
    about = doors.webhooks.named(source) if doors.webhooks else None
    if about is None:
        raise Refusal("not_found", "There is no such source of webhooks.", 404)
    try:
        answer = intake.take(doors.client, about, dict(request.headers), raw, time.time())
    except intake.WrongSignature as error:
        HERE.count(metrics.WEBHOOKS, source, "wrong_signature")
        raise Refusal("wrong_signature", str(error), 401) from error
    except NoEvent as error:
        HERE.count(metrics.WEBHOOKS, source, "invalid_json")
        raise Refusal("invalid_json", str(error), 400) from error
    except WrongSources as error:
        HERE.count(metrics.WEBHOOKS, source, "webhooks_unavailable")
        log.error("webhooks unavailable", extra={"source": source, "error": str(error)})
        detail = "A file of this source cannot be read; the gateway's log names it."
        raise Refusal("webhooks_unavailable", detail, 503, retry_after_s=RETRY_S) from error
    HERE.count(metrics.WEBHOOKS, source, _result(answer))
    if answer.goal_id:
        response.headers["Location"] = f"/v1/goals?goal_id={quote(answer.goal_id, safe='')}"
    log.info("webhook", extra={"source": source, **answer.document()})
    return answer.document()


def _result(answer: intake.Answer) -> str:
    """Return the result of a delivery as one word; for an ignored delivery the code of the reason."""
    if answer.ignored:
        return answer.ignored.partition(":")[0]
    return "accepted" if answer.goal_id else "cancelled"
