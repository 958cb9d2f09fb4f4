"""A key that is revoked counts no more within ten seconds, also for what streams or waits, on every gateway."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from schemas.api_key import Right
from tests.conftest import RunningWorker, wait_until
from tests.support.engine import a_goal
from tests.support.gateway import Gateway, running_gateway
from tests.support.messages import publish
from tests.support.stored import QUEUE
from worker.store import api_keys

IN_S = 10.0
CLAIM = {"controller": "c", "wait_s": 25}


def read_to_its_end(client: httpx.Client) -> float:
    """Follow events until the stream ends; returns when."""
    with client.stream("GET", "/v1/events") as answer:
        assert answer.status_code == 200
        for _ in answer.iter_raw():
            pass
    return time.monotonic()


def streams_and_waits(gateway: Gateway) -> bool:
    """Whether a stream and a claim are there."""
    return gateway.context.hub.subscriptions == 1 and gateway.context.claims.waiting(QUEUE) == 1


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # two applications that are built in threads of one process
@pytest.mark.outages
def test_a_stream_ends_and_a_claim_that_waits_gets_nothing(planner_worker: RunningWorker) -> None:
    url, redis = planner_worker.url, planner_worker.redis
    with running_gateway(url) as first, running_gateway(url) as second, ThreadPoolExecutor() as pool:
        token, good = first.key(Right.VIEWER, Right.CONTROLLER), first.client(Right.CONTROLLER)
        readers = [pool.submit(read_to_its_end, each.with_token(token)) for each in (first, second)]
        claims = [pool.submit(each.with_token(token).post, "/v1/steps:claim", json=CLAIM) for each in (first, second)]
        wait_until(lambda: all(map(streams_and_waits, (first, second))), what="they stream and wait")

        assert api_keys.revoke(redis, token.split("_")[1])
        revoked = time.monotonic()

        assert all(reader.result(IN_S + 5) - revoked < IN_S for reader in readers)
        assert first.with_token(token).get("/v1/plans").status_code == 401
        time.sleep(max(0.0, revoked + IN_S - time.monotonic()))  # that long a claim may still be given something
        publish(redis, a_goal(1))

        def claim() -> Any:
            return good.post("/v1/steps:claim", json={**CLAIM, "wait_s": 1}).json()["steps"]

        assert len(wait_until(claim, what="a key that holds gets the step")) == 1
        assert [each.result(30).json()["steps"] for each in claims] == [[], []]
