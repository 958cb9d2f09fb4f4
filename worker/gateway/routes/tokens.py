"""`POST /v1/token`: exchanges the OIDC token of a CI job for a key of its repository that lasts an hour."""

from __future__ import annotations

import logging
import time
from math import ceil
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from schemas.api_key import ApiKey
from schemas.times import rfc3339
from worker.gateway import openapi
from worker.gateway.access import ORIGIN, Doors
from worker.gateway.oidc import IssuerAway, NotAllowed, Verifier, WrongToken
from worker.gateway.problems import RETRY_S, Refusal
from worker.store import api_keys, audit
from worker.store.audit import Act

LASTS_S = 3600
RATE = "600/h"  # of keys for one repository
log = logging.getLogger(__name__)
router = APIRouter(tags=["keys"])


class TokenRequest(BaseModel):
    """The token of a job, as GitHub Actions and GitLab give it."""

    token: str = Field(min_length=1, max_length=16 * 1024)


class TokenAnswer(BaseModel):
    """A key, and the time when it expires."""

    key: str
    expires_at: str


def _verifier(request: Request) -> Verifier:
    found: Verifier = request.app.state.verifier
    return found


@router.post("/v1/token", responses=openapi.problems(401, 403, 404, 429, 503))
def exchange(
    wanted: TokenRequest, doors: Doors, verifier: Annotated[Verifier, Depends(_verifier)], response: Response
) -> TokenAnswer:
    """Exchange an OIDC token for a key of one repository that lasts an hour."""
    if not verifier.issuers:
        raise Refusal("no_issuers", "This gateway exchanges no tokens: its operator sets PLANNER_OIDC_FILE.", 404)
    try:
        job = verifier.verify(wanted.token)
    except WrongToken as error:
        raise Refusal("wrong_token", str(error), 401) from error
    except NotAllowed as error:
        raise Refusal("token_not_allowed", str(error), 403) from error
    except IssuerAway as error:
        raise Refusal("issuer_away", str(error), 503, retry_after_s=RETRY_S) from error
    issuer = job.issuer
    if wait_ms := api_keys.take(doors.client, f"token:{issuer.kind}:{job.repository_id}", RATE):
        detail = f"A repository is given {RATE} keys."
        raise Refusal("rate_limited", detail, 429, retry_after_s=ceil(wait_ms / 1000))
    key = ApiKey(
        key_id=api_keys.new_id(),
        rights=(issuer.right,),
        tenant=issuer.tenant,
        queues=issuer.queues,
        repositories=(job.repository,),
        expires_at=rfc3339(int(time.time() + LASTS_S) * 1000),
        subject=job.subject,
    )
    try:
        token = api_keys.add(doors.client, key)
    except api_keys.QueueTaken as error:
        raise Refusal("queue_taken", str(error), 403) from error
    about = f"{key.called}: {issuer.right} of {issuer.tenant}, {job.repository}"
    audit.note(doors.client, Act("key made", f"the job {job.subject}", ORIGIN.get(), about))
    log.info("token exchanged", extra={"key_id": key.key_id, "repository": job.repository, "subject": job.subject})
    response.headers["Cache-Control"] = "no-store"
    return TokenAnswer(key=token, expires_at=key.expires_at or "")
