"""Keys of the gateway in a real server: secrets, rotation, queues that belong to tenants, rates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis

from schemas import codec
from schemas.api_key import ApiKey, Right
from tests.conftest import wait_until
from worker.store import api_keys
from worker.store.clients import connect


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A client as gateways have it."""
    with connect(redis_url) as client:
        yield client


def key(tenant: str | None = None, *queues: str, **fields: object) -> ApiKey:
    given = {"key_id": api_keys.new_id(), "rights": ("producer",), "tenant": tenant, **fields}
    return ApiKey.model_validate(given | ({"queues": queues} if queues else {}))


def test_a_key_is_found_by_its_token_alone_which_is_stored_nowhere(redis: Redis) -> None:
    made = key("acme", "gpu")
    token = api_keys.add(redis, made)
    other = api_keys.add(redis, key())
    secret = token.split("_")[2]

    found = api_keys.find(redis, token)

    assert found is not None
    assert (found.key_id, found.tenant, found.rights, found.queues) == (
        made.key_id,
        "acme",
        (Right.PRODUCER,),
        ("gpu",),
    )
    stored = [redis.dump(name) for name in redis.keys("*")]
    assert not any(secret.encode() in (value or b"") for value in stored)
    for wrong in ("", "pk_", "pk__", token[:-1], token + "0", token.upper(), f"pk_{made.key_id}_{other.split('_')[2]}"):
        assert api_keys.find(redis, wrong) is None
    for wrong in (f"pk_{made.key_id}*_{secret}", f"pk_{made.key_id}_\x00", "pk_é_x", "pk_a_" + "x" * 10**6, secret):
        assert api_keys.find(redis, wrong) is None


def test_two_secrets_live_during_a_rotation_and_none_after_a_revocation(redis: Redis) -> None:
    made = key()
    first = api_keys.add(redis, made)
    second = api_keys.rotate(redis, made.key_id, 60_000)
    assert second
    assert api_keys.find(redis, first) == api_keys.find(redis, second)
    assert api_keys.find(redis, second)

    third = api_keys.rotate(redis, made.key_id, 60_000)
    assert third
    assert [bool(api_keys.find(redis, each)) for each in (first, second, third)] == [False, True, True]

    fourth = api_keys.rotate(redis, made.key_id, 50)
    assert fourth
    wait_until(lambda: api_keys.find(redis, third) is None, what="the older secret is over")
    assert api_keys.find(redis, fourth)

    last = api_keys.rotate(redis, made.key_id, 0)
    assert last
    assert api_keys.find(redis, fourth) is None
    assert [each.key_id for each in api_keys.every(redis)] == [made.key_id]

    api_keys.rotate(redis, made.key_id, 60_000)
    assert api_keys.revoke(redis, made.key_id)
    assert api_keys.find(redis, last) is None
    assert (api_keys.every(redis), api_keys.revoke(redis, made.key_id)) == ([], False)
    assert api_keys.rotate(redis, made.key_id, 0) is None
    assert redis.keys("*keys*") == []


def test_a_key_that_is_over_is_gone_and_leaves_nothing(redis: Redis) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    token = api_keys.add(redis, key("acme", "gpu", expires_at=soon.isoformat()))
    assert api_keys.find(redis, token) or datetime.now(UTC) >= soon

    wait_until(lambda: api_keys.find(redis, token) is None, what="the key is over")

    assert api_keys.every(redis) == []
    api_keys.add(redis, key("other", "gpu"))  # the queue is nobody's any more
    assert redis.zcard("planner:{keys}:all") == 1


def test_a_queue_belongs_to_the_tenant_whose_key_names_it(redis: Redis) -> None:
    first = key("acme", "gpu", "default")
    api_keys.add(redis, first)
    api_keys.add(redis, key("acme", "gpu"))
    api_keys.add(redis, key("other", "default"))
    api_keys.add(redis, key(None, "gpu"))  # of the operator, for all tenants: the queue stays acme's
    before = redis.zcard("planner:{keys}:all")

    for queues in (("gpu",), ("small", "gpu")):
        with pytest.raises(api_keys.QueueTaken, match="gpu belongs to the tenant acme"):
            api_keys.add(redis, key("other", *queues))

    assert redis.zcard("planner:{keys}:all") == before
    assert [api_keys.owner_of(redis, queue) for queue in ("gpu", "small", "default")] == ["acme", None, None]
    for each in api_keys.every(redis):
        if each.tenant == "acme":
            api_keys.revoke(redis, each.key_id)
    api_keys.add(redis, key("other", "gpu"))
    assert api_keys.owner_of(redis, "gpu") == "other"


def test_a_queue_of_a_key_without_a_tenant_is_shared(redis: Redis) -> None:
    api_keys.add(redis, key(None, "gpu"))

    for tenant in ("acme", "other"):
        api_keys.add(redis, key(tenant, "gpu"))

    assert api_keys.owner_of(redis, "gpu") is None


def test_of_tenants_that_name_a_queue_at_once_one_gets_it(redis: Redis) -> None:
    def ask(number: int) -> bool:
        try:
            api_keys.add(redis, key(f"tenant-{number % 4}", "gpu"))
        except api_keys.QueueTaken:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(ask, range(40)))

    assert sum(taken) == 10
    assert {each.tenant for each in api_keys.every(redis)} == {api_keys.owner_of(redis, "gpu")}


def test_a_rate_lets_so_many_through_and_then_says_when_to_come_back(redis: Redis) -> None:
    waits = [api_keys.take(redis, "k", "5/m") for _ in range(7)]

    assert waits[:5] == [0] * 5
    assert all(11_000 < wait <= 12_000 for wait in waits[5:])
    assert api_keys.take(redis, "another", "5/m") == 0

    begin = time.monotonic()
    taken = sum(api_keys.take(redis, "quick", "100/s") == 0 for _ in range(200))
    assert taken <= 101 + 100 * (time.monotonic() - begin)  # one more: the server counts whole milliseconds
    wait_until(lambda: api_keys.take(redis, "quick", "100/s") == 0, what="filled again")


def test_a_clock_that_was_set_back_keeps_no_bucket_empty(redis: Redis) -> None:
    api_keys.take(redis, "k", "1/s")
    redis.hset("planner:{keys}:rate:k", "at", int(time.time() * 1000) + 3_600_000)
    assert api_keys.take(redis, "k", "1/s") > 0

    wait_until(lambda: api_keys.take(redis, "k", "1/s") == 0, what="filled again")


def test_a_key_of_a_newer_version_has_the_rights_that_this_one_knows(redis: Redis) -> None:
    made = key()
    token = api_keys.add(redis, made)
    newer = {**made.model_dump(mode="json"), "rights": ["producer", "auditor"], "colour": "blue"}
    redis.hset(f"planner:{{keys}}:key:{made.key_id}", "key", codec.dumps(newer))

    found = api_keys.find(redis, token)

    assert found is not None
    assert found.rights == ("producer",)
    assert len(api_keys.every(redis)) == 1
