"""From the commit that ends a plan to the endpoint that has heard of it, on a real server with real receivers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from redis import Redis
from standardwebhooks import Webhook

from schemas import codec
from schemas.stored import PlanHead
from tests.integration.callbacks.conftest import Calls, run, told
from tests.support.engine import a_goal, drain, plan
from tests.support.forge_server import TOKEN, serving
from tests.support.messages import answer, report, specs, work
from tests.support.receiver import Receiver, receiving
from tests.support.stored import P0, plans
from worker.callbacks import schedule, sender
from worker.callbacks.schedule import Answer, Next
from worker.store.keys import ENDPOINTS, goal_id

SHA = "9f1c2d4e" * 5


def completed(calls: Calls, name: str = "ci-1", **goal: Any) -> str:
    """Have a goal planned and done; returns the plan."""
    plan(calls.here, calls.redis, {**a_goal(1), "goal_id": name, **goal})
    while work(calls.redis):
        drain(calls.here)
    found: Any = calls.redis.hget(goal_id(name, goal.get("tenant", "default")), "plan_id")
    return str(found.decode())


def test_an_endpoint_hears_in_a_signed_message_that_a_plan_is_completed(calls: Calls, receiver: Receiver) -> None:
    endpoint = calls.add(f"{receiver.url}/hook")

    plan_id = completed(calls)
    calls.until(lambda: receiver.calls)

    (call,) = receiver.calls
    assert call.path == "/hook"
    assert Webhook(calls.secrets[endpoint]).verify(call.body, call.headers) == call.said
    assert call.said["type"] == "plan.completed"
    assert call.said["data"] == {
        "plan_id": plan_id,
        "goal_id": "ci-1",
        "state": "COMPLETED",
        "links": {"plan": f"https://planner.example/v1/plans/{plan_id}"},
    }
    calls.until(lambda: calls.states(endpoint) == ["delivered"])
    assert calls.redis.xlen(P0.outbox) == 0
    assert calls.redis.zcard(P0.callbacks) == 0


def test_an_endpoint_hears_of_halts_rejections_and_waits_of_what_it_asked_for(calls: Calls, receiver: Receiver) -> None:
    calls.add(f"{receiver.url}/all")
    calls.add(f"{receiver.url}/some", "--events", "plan.input_requested")

    plan(calls.here, calls.redis, {"goal": "Fix it", "goal_id": "no-files"})
    steps = [{**each, "depends_on": []} for each in a_goal(3)["steps"]]
    plan(calls.here, calls.redis, {**a_goal(3), "steps": steps, "goal_id": "asks", "approvals": ["LOW"]})
    (waits,) = (each for each in plans(calls.redis) if calls.redis.hget(P0.plan(each).plan, "goal_id") == b"asks")
    halt = {"command_id": "c-1", "command": "halt", "scope": "plan", "plan_id": waits, "actor": "ann", "reason": "no"}
    calls.redis.xadd(P0.commands, {"data": codec.dumps(halt)})
    drain(calls.here)
    calls.until(lambda: len(receiver.calls) >= 4)

    heard = [(call.path, call.said["type"], call.said["data"]["state"]) for call in receiver.calls]
    assert sorted(heard) == [
        ("/all", "plan.halted", "HALTED"),
        ("/all", "plan.input_requested", "READY"),
        ("/all", "plan.rejected", "REJECTED"),
        ("/some", "plan.input_requested", "READY"),
    ]


def test_an_endpoint_hears_once_that_a_repository_was_paused_by_its_breaker(calls: Calls, receiver: Receiver) -> None:
    calls.add(f"{receiver.url}/mine", "--events", "repository.paused", "--repo", "acme/shop")
    calls.add(f"{receiver.url}/other", "--events", "repository.paused", "--repo", "acme/till")
    evidence = {"category": "TEST_REGRESSION", "stack_trace_head": "ImportError: no module named shop"}
    for number in range(6):
        plan(calls.here, calls.redis, {**a_goal(1), "goal_id": f"g-{number}", "context": {"repo": "acme/shop"}})

    for spec in specs(calls.redis):
        report(calls.redis, answer(spec, success=False, tests_passed=False, failure_evidence=evidence))
    drain(calls.here)
    calls.until(lambda: receiver.calls)
    calls.until(lambda: calls.redis.xlen(P0.outbox) == 0)

    heard = [(call.path, call.said["type"]) for call in receiver.calls]
    assert heard == [("/mine", "repository.paused")]
    assert receiver.calls[0].said["data"]["plan_id"] in plans(calls.redis)


def test_nothing_is_put_into_the_outbox_where_there_is_no_endpoint(calls: Calls) -> None:
    completed(calls)

    assert calls.redis.exists(P0.outbox, P0.outbox_open) == 0


def test_a_goal_names_an_endpoint_of_its_tenant(calls: Calls, receiver: Receiver) -> None:
    named = calls.add(f"{receiver.url}/named", "--named", "--tenant", "acme")
    calls.add(f"{receiver.url}/acme", "--tenant", "acme", "--repo", "acme/shop")
    calls.add(f"{receiver.url}/other", "--tenant", "other")

    completed(calls, "a", tenant="acme", callback=named, context={"repo": "acme/shop"})
    completed(calls, "b", tenant="acme", context={"repo": "acme/elsewhere"})
    calls.until(lambda: len(receiver.calls) >= 2)

    assert sorted((call.path, call.said["data"]["goal_id"]) for call in receiver.calls) == [
        ("/acme", "a"),
        ("/named", "a"),
    ]


def test_an_endpoint_that_is_added_while_the_outbox_is_worked_off_hears_of_what_follows(
    calls: Calls, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = calls.add(f"{receiver.url}/first")
    completed(calls, "a")
    xrange, pages = Redis.xrange, []

    def read(client: Redis, key: str, *args: Any, **more: Any) -> Any:
        pages.extend([key] if key == P0.outbox else [])
        if len(pages) == 2 and len(calls.ids) == 1:
            calls.add(f"{receiver.url}/second")
            completed(calls, "b")
        return xrange(client, key, *args, **more)

    monkeypatch.setattr(Redis, "xrange", read)
    monkeypatch.setattr("worker.callbacks.queue.FAN_OUT_S", 60.0)
    sender.deliver(calls.queue, calls.here.settings)

    assert [each["goal_id"] for each in calls.shown(first)] == ["a", "b"]
    assert [each["goal_id"] for each in calls.shown(calls.ids[1])] == ["b"]


@pytest.mark.parametrize("tenant", ["acme", "default"])
def test_an_endpoint_that_is_not_there_or_anothers_is_an_error_of_the_goal(
    calls: Calls, receiver: Receiver, tenant: str
) -> None:
    others = calls.add(receiver.url, "--tenant", "other", "--named")
    for callback in (others, "ep_0123456789abcdef"):
        plan(calls.here, calls.redis, {**a_goal(1), "goal_id": callback, "tenant": tenant, "callback": callback})
        found: Any = calls.redis.hgetall(goal_id(callback, tenant))
        kept: Any = calls.redis.hget(P0.plan(found[b"plan_id"].decode()).plan, "halt")
        assert (found[b"verdict"], found[b"reason"]) == (b"REJECTED", b"unknown_callback")
        (error,) = codec.loads(kept)["evidence"]["errors"]
        assert (error["pointer"], error["code"]) == ("/callback", "unknown_callback")

    sender.deliver(calls.queue, calls.here.settings)

    assert calls.shown(others) == []


def test_an_endpoint_that_is_down_for_a_while_hears_later_with_the_same_id(calls: Calls, receiver: Receiver) -> None:
    endpoint = calls.add(receiver.url)
    receiver.answers = [(500, {}), (302, {"Location": "/x"}), (404, {}), (200, {})]

    completed(calls)
    calls.until(lambda: calls.states(endpoint) == ["delivered"])

    (shown,) = calls.shown(endpoint)
    assert [each["status"] for each in shown["attempts"]] == [500, 302, 404, 200]
    assert {call.headers["webhook-id"] for call in receiver.calls} == {shown["webhook_id"]}
    assert shown["tries"] == len(receiver.calls) == 4


def test_a_try_of_which_the_planner_can_make_nothing_counts_too(
    calls: Calls, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = schedule.follow

    def surprised(answer: Answer, *args: Any, **more: Any) -> Next:
        if answer.retry_after:
            raise OverflowError(answer.retry_after)
        return follow(answer, *args, **more)

    monkeypatch.setattr(schedule, "follow", surprised)
    endpoint = calls.add(receiver.url)
    receiver.answers = [(503, {"Retry-After": "1"}), (200, {})]

    completed(calls)
    calls.until(lambda: calls.states(endpoint) == ["delivered"])

    (shown,) = calls.shown(endpoint)
    assert (shown["tries"], [each["status"] for each in shown["attempts"]]) == (2, [503, 200])
    assert shown["attempts"][0]["error"] == "OverflowError: what follows this answer could not be noted"


def test_after_ten_tries_it_has_failed_and_can_be_sent_again(calls: Calls, receiver: Receiver) -> None:
    endpoint = calls.add(receiver.url)
    receiver.answers = [(503, {})]
    completed(calls)
    calls.until(lambda: calls.states(endpoint) == ["failed"])
    assert len(receiver.calls) == 10

    receiver.answers = [(200, {})]
    assert told(run("replay", endpoint, "--failed", "--json")) == {"replayed": 1, "passed_over": 0}
    calls.until(lambda: calls.states(endpoint) == ["delivered"])
    shown = calls.shown(endpoint)[0]
    assert told(run("replay", endpoint, shown["webhook_id"], "--json"))["replayed"] == 1
    calls.until(lambda: len(receiver.calls) == 12)

    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 1
    gone = run("replay", endpoint, "msg_0-1-1-0123456789abcdef", "--json")
    assert (gone.exit_code, codec.loads(gone.stdout)["passed_over"]) == (1, 1)


def test_an_endpoint_that_says_it_is_gone_is_told_nothing_more_until_it_is_enabled(
    calls: Calls, receiver: Receiver
) -> None:
    endpoint = calls.add(receiver.url)
    receiver.answers = [(410, {}), (200, {})]
    completed(calls, "a")
    calls.until(lambda: told(run("list", "--json"))[0]["disabled"])

    completed(calls, "b")
    calls.until(lambda: calls.states(endpoint) == ["failed", "disabled"])
    assert len(receiver.calls) == 1
    refused = run("replay", endpoint, "--failed", "--json")
    assert (refused.exit_code, codec.loads(refused.stdout)["code"]) == (1, "endpoint_disabled")

    assert told(run("enable", endpoint, "--json"))["disabled"] is None
    told(run("replay", endpoint, "--failed", "--json"))
    calls.until(lambda: calls.states(endpoint) == ["delivered", "delivered"])


def test_what_is_under_way_ends_when_an_operator_disables_the_endpoint(calls: Calls, receiver: Receiver) -> None:
    endpoint = calls.add(receiver.url)
    receiver.answers = [(429, {"Retry-After": "3600"})]
    completed(calls)
    calls.until(lambda: receiver.calls and calls.states(endpoint) == ["waiting"])
    due = calls.shown(endpoint)[0]["next_try_at"]
    assert due > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3500))

    told(run("disable", endpoint, "--json"))
    told(run("enable", endpoint, "--json"))
    assert calls.states(endpoint) == ["waiting"]  # nobody has looked meanwhile
    told(run("disable", endpoint, "--json"))
    plan(calls.here, calls.redis, {"goal": "Fix it", "goal_id": "no-files"})
    calls.until(lambda: calls.states(endpoint)[1:] == ["disabled"])
    assert len(receiver.calls) == 1


def test_one_endpoint_that_is_slow_holds_up_nobody_else(calls: Calls, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.hold = Event()
        first, second = calls.add(slow.url), calls.add(receiver.url)
        for number in range(12):
            completed(calls, f"g-{number}")
        calls.until(lambda: calls.states(second) == ["delivered"] * 12)

        assert len(receiver.calls) == 12
        assert len(slow.calls) <= sender.PARALLEL
        assert set(calls.states(first)) <= {"sending", "waiting"}


def test_what_a_worker_had_in_hand_when_it_was_killed_is_sent_by_another(
    calls: Calls, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.callbacks.queue.LEASE_S", 2.0)
    endpoint = calls.add(receiver.url)
    completed(calls)
    without_keys = calls.here.settings.model_copy(update={"secret_file": None})
    sender.deliver(calls.queue, without_keys)  # makes deliveries and sends none
    taken = calls.queue.lease(endpoint)
    assert taken is not None
    assert calls.queue.lease(endpoint) is None

    calls.until(lambda: calls.states(endpoint) == ["delivered"])

    assert receiver.calls[0].headers["webhook-id"] == taken.id
    assert calls.queue.note(endpoint, taken, "failed", 0) is False  # the first one is too late
    assert calls.states(endpoint) == ["delivered"]


def test_an_entry_and_an_endpoint_that_nobody_can_read_keep_no_other_back(calls: Calls, receiver: Receiver) -> None:
    calls.add(receiver.url)
    calls.redis.hset(ENDPOINTS, "ep_0000000000000000", "{}")
    calls.redis.xadd(P0.outbox, {"type": "plan.completed", "head": "{"})

    completed(calls)
    calls.until(lambda: receiver.calls)


def test_two_secrets_sign_after_a_rotation_and_none_stands_anywhere_in_plain(
    calls: Calls, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = calls.add(receiver.url)
    old = calls.secrets[endpoint]
    new = told(run("rotate", endpoint, "--json"))["secret"]
    completed(calls, "a")
    calls.until(lambda: receiver.calls)
    (call,) = receiver.calls
    assert Webhook(old).verify(call.body, call.headers) == Webhook(new).verify(call.body, call.headers)

    newest = told(run("rotate", endpoint, "--keep-h", "0", "--json"))["secret"]
    completed(calls, "b")
    calls.until(lambda: len(receiver.calls) == 2)
    assert len(receiver.calls[1].headers["webhook-signature"].split()) == 1
    Webhook(newest).verify(receiver.calls[1].body, receiver.calls[1].headers)

    shown = run("show", endpoint, "--json").stdout + run("show", endpoint).stdout + run("list", "--json").stdout
    stored = b"".join(everything(calls.redis))
    for secret in (old, new, newest):
        assert secret not in shown
        assert secret not in caplog.text
        assert secret.removeprefix("whsec_").encode() not in stored


def everything(redis: Redis) -> Iterator[bytes]:
    """Dump each key of the server."""
    for key in redis.scan_iter():
        dumped: Any = redis.dump(key)
        yield dumped


def test_of_very_many_deliveries_the_oldest_are_forgotten(calls: Calls, receiver: Receiver) -> None:
    endpoint = calls.add(receiver.url)
    told(run("disable", endpoint, "--json"))
    head = PlanHead("g", "task", "default", None, "", {}, {}).encode()
    for number in range(1010):
        entry: Any = {"type": "plan.completed", "plan": f"plan_{number}", "at": number, "state": "COMPLETED"}
        calls.redis.xadd(P0.outbox, {**entry, "head": head, "callback": ""})

    calls.until(lambda: calls.redis.xlen(P0.outbox) == 0)

    assert len(calls.shown(endpoint)) == 20
    assert len(list(calls.redis.scan_iter(f"{P0.callbacks}:one:*"))) == 1000


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("github", "repos/acme/shop"),
        pytest.param("gitlab", "projects/acme%2Fshop", marks=pytest.mark.outages),  # its words: test_callbacks.py
    ],
)
def test_a_forge_is_given_the_status_of_the_commit(calls: Calls, tmp_path: Any, kind: str, path: str) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    with serving() as forge:
        words = ("--commit-status", kind, "--api", f"{forge.url}/{kind}", "--token-file", str(tmp_path / "token"))
        endpoint = calls.add("", *words, "--repo", "acme/shop")
        plan_id = completed(calls, "a", context={"repo": "acme/shop", "base_sha": SHA})
        completed(calls, "b", context={"repo": "acme/shop", "base_sha": "main"})
        completed(calls, "c", context={"repo": "acme/other", "base_sha": SHA})
        calls.until(lambda: not calls.redis.zcard(P0.callbacks) and forge.statuses)

        assert [each for each in forge.asked if "statuses" in each] == [f"POST /{kind}/{path}/statuses/{SHA}"]
        (status,) = forge.statuses
        assert (status["state"], status.get("context") or status["name"]) == ("success", "planner")
        assert status["target_url"].endswith(plan_id)
        first, second = calls.states(endpoint)
        assert (first, second) == ("delivered", "the plan has no full base_sha, to which a status could be given")
        assert TOKEN.encode() not in b"".join(everything(calls.redis))
