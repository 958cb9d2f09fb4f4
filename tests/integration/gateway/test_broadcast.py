"""Texts that many look at: made once for all who see the same, and sent to nobody else."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from itertools import chain, product

import httpx
import pytest
from redis import Redis

from schemas.api_key import ApiKey, Right
from tests.conftest import wait_until
from tests.support.event_reading import EventReader, tell
from tests.support.gateway import Gateway, running_gateway
from tests.support.page import signed_in
from tests.support.planner import Planner
from worker.gateway import broadcast
from worker.gateway.access import Access, Context, caller_of
from worker.gateway.broadcast import MOST_OF_A_KEY, SHARE, SHORTEST_S, Broadcasts, rest_after
from worker.gateway.claiming import ClaimDesk
from worker.gateway.cookies import PLAIN
from worker.gateway.event_hub import EventHub
from worker.gateway.event_streams import Event
from worker.settings.settings import Settings
from worker.store import api_keys, page_sessions

READERS = 50
PLAN_ID = re.compile(r"plan_[0-9a-f]{2}-[0-9a-f]{32}")
TENANTS, REPOSITORIES = ("acme", "initech"), ("acme/web", "initech/till")
PLANS = list(product(TENANTS, (*REPOSITORIES, None)))
SIGHTS = list(product((None, *TENANTS), ((), REPOSITORIES[:1], REPOSITORIES[1:], REPOSITORIES)))
QUERIES: list[dict[str, str]] = [{}, {"tenant": "acme"}, {"repo": "initech/till"}, {"kind": "campaign"}]


SLOW_S = 3.0  # from one text to the next where only steps moved


class Count:
    """A subject whose text is how often it was made; making it waits until it is let go."""

    def __init__(self) -> None:
        self.made = 0
        self.made_at: list[float] = []
        self.begun = threading.Event()
        self.go = threading.Event()

    def frame(self, _: Context) -> bytes:
        self.made_at.append(time.monotonic())
        self.begun.set()
        assert self.go.wait(60)
        self.made += 1
        return b"%d" % self.made

    def pace_of(self, what: str) -> float | None:
        return {"plan.ready": SHORTEST_S, "step.done": SLOW_S}.get(what)

    def is_about(self, event: Event) -> bool:
        return bool(event.data["tenant"] == "acme")


@asynccontextmanager
async def broadcasting(redis: Redis, url: str) -> AsyncIterator[tuple[Broadcasts, Access]]:
    """Broadcasts of a process, and a caller whose key holds."""
    settings = Settings(redis_url=url)
    context = Context(settings, redis, EventHub(url, 1), ClaimDesk(lambda: redis))
    token = api_keys.add(redis, ApiKey(key_id=api_keys.new_id(), rights=(Right.VIEWER,)))
    try:
        yield Broadcasts(context), caller_of(redis, token)
    finally:
        context.hub.end()
        await asyncio.to_thread(context.hub.join)


def test_a_text_is_made_once_for_all_who_ask_meanwhile_and_once_for_all_after_a_change(
    redis: Redis, redis_url: str
) -> None:
    async def run() -> None:
        async with broadcasting(redis, redis_url) as (broadcasts, caller), asyncio.timeout(30):
            subject = Count()
            readers = [broadcasts.frames(subject, caller) for _ in range(READERS)]
            first = [asyncio.ensure_future(anext(readers[0]))]
            await asyncio.to_thread(subject.begun.wait)
            first += [asyncio.ensure_future(anext(each)) for each in readers[1:]]
            await asyncio.sleep(0)  # each of them has asked
            subject.go.set()
            assert await asyncio.gather(*first) == [b"1"] * READERS

            tell(redis, "goal.read")
            tell(redis, "plan.ready", tenant="initech")
            tell(redis, "plan.ready")
            assert await asyncio.gather(*map(anext, readers)) == [b"2"] * READERS

    asyncio.run(run())


@pytest.mark.outages
def test_steps_have_a_text_made_anew_at_their_own_pace_and_plans_without_waiting_for_it(
    redis: Redis, redis_url: str
) -> None:
    async def run() -> None:
        async with broadcasting(redis, redis_url) as (broadcasts, caller), asyncio.timeout(30):
            subject = Count()
            subject.go.set()
            reader = broadcasts.frames(subject, caller)
            assert await anext(reader) == b"1"
            await asyncio.sleep(SHORTEST_S)  # after which a plan has it made at once
            for _ in range(3):
                tell(redis, "step.done")
            assert await anext(reader) == b"2"
            tell(redis, "step.done")
            await asyncio.sleep(SHORTEST_S)
            tell(redis, "plan.ready")
            assert await anext(reader) == b"3"

            first, second, third = subject.made_at
            assert second - first > SLOW_S - 0.5  # a thread begins a little later than it is asked to
            assert third - second < second - first

    asyncio.run(run())


def test_who_comes_later_gets_a_text_that_was_made_since_and_a_slow_reader_only_the_newest(
    redis: Redis, redis_url: str
) -> None:
    async def run() -> None:
        async with broadcasting(redis, redis_url) as (broadcasts, caller), asyncio.timeout(30):
            subject = Count()
            subject.go.set()
            slow, *others = (broadcasts.frames(subject, caller) for _ in range(3))
            assert await anext(slow) == b"1"
            assert await anext(others[0]) == b"2"
            assert await anext(others[1]) == b"3"
            assert await anext(slow) == b"3"

    asyncio.run(run())


def test_nothing_is_handed_out_once_a_key_is_over_though_others_go_on(redis: Redis, redis_url: str) -> None:
    async def run() -> None:
        async with broadcasting(redis, redis_url) as (broadcasts, caller), asyncio.timeout(30):
            subject = Count()
            subject.go.set()
            token = api_keys.add(redis, ApiKey(key_id="ends", rights=(Right.VIEWER,)))
            stays, ends = broadcasts.frames(subject, caller), broadcasts.frames(subject, caller_of(redis, token))
            assert {*await asyncio.gather(anext(stays), anext(ends))} == {b"1"}

            api_keys.revoke(redis, "ends")
            tell(redis, "plan.ready")

            assert await anext(stays) == b"2"
            assert [each async for each in ends] == []

    asyncio.run(run())


class Costly(Count):
    """A subject that something happens to all the time, and whose text takes a while."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.takes_s = takes_s
        self.took_s: list[float] = []

    def frame(self, doors: Context) -> bytes:
        began = time.monotonic()
        time.sleep(self.takes_s)
        self.go.set()
        made = super().frame(doors)
        self.took_s.append(time.monotonic() - began)
        return made


@pytest.mark.outages
def test_all_texts_together_take_a_quarter_of_the_time_and_who_asks_for_little_waits_for_no_other(
    redis: Redis, redis_url: str
) -> None:
    async def run() -> None:
        async with broadcasting(redis, redis_url) as (broadcasts, caller), asyncio.timeout(60):
            subjects = [*(Costly(0.2) for _ in range(5)), Costly(0.0)]
            readers = [broadcasts.frames(each, caller) for each in subjects]
            began = time.monotonic()
            first = asyncio.gather(*map(anext, readers))
            happens = asyncio.create_task(happen())
            await first
            costly = [asyncio.ensure_future(anext(each)) for each in readers[:-1]]
            while not all(each.done() for each in costly):
                await anext(readers[-1])
            passed = time.monotonic() - began
            happens.cancel()

            cheap = subjects.pop()
            assert sum(cheap.took_s[:-1]) + sum(each.takes_s for each in subjects) <= passed / SHARE
            assert all(each.made > 1 for each in subjects)
            assert cheap.made > 3

    async def happen() -> None:
        while True:
            await asyncio.to_thread(tell, redis, "plan.ready")
            await asyncio.sleep(0.05)

    asyncio.run(run())


@pytest.mark.parametrize(("took_s", "busy", "rests_s"), [(0.01, 1, SHORTEST_S), (1.0, 1, 3.0), (0.1, 10, 3.9)])
def test_a_subject_rests_so_that_it_takes_its_part_of_a_quarter(took_s: float, busy: int, rests_s: float) -> None:
    assert rest_after(took_s, busy) == pytest.approx(rests_s)


def test_a_key_follows_so_many_lists_and_is_told_when_it_asks_for_more(gateway: Gateway) -> None:
    client, other = gateway.client(Right.VIEWER), gateway.client(Right.VIEWER)
    with ExitStack() as open_lists:

        def follow(who: httpx.Client, text: str) -> httpx.Response:
            answer = open_lists.enter_context(who.stream("GET", "/live", params={"text": text}))
            if answer.status_code == 200:
                pages.append(lists(answer))
                assert "No plan matches" in next(pages[-1])
            return answer

        pages: list[Iterator[str]] = []  # one that is forgotten is closed
        for number in range(MOST_OF_A_KEY):
            assert follow(client, f"word{number}").status_code == 200
        refused = follow(client, "more")

        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "30")
        assert "8 other lists are followed with this key" in refused.read().decode()
        assert [follow(who, text).status_code for who, text in ((client, "word0"), (other, "more"))] == [200, 200]

    def may_follow() -> bool:
        with client.stream("GET", "/live", params={"text": "more"}) as answer:
            return answer.status_code == 200

    wait_until(may_follow, what="who closed its lists may follow others")


def lists(answer: httpx.Response) -> Iterator[str]:
    """The HTML of each list that a stream brings."""
    for told in EventReader(answer):
        assert told.event == "page"
        yield str(told.data)


def test_a_list_follows_the_steps_of_a_plan_that_goes_on(gateway: Gateway) -> None:
    planner = Planner(gateway.settings.redis_url)
    plan_id = planner.submit()
    silence = threading.Timer(20, gateway.stop)
    with gateway.client(Right.VIEWER).stream("GET", "/live") as answer:
        pages = lists(answer)
        assert "0 of 3" in next(pages)
        silence.start()
        planner.report("look", plan_id, metrics={"tokens_used": 4321})

        assert any("1 of 3" in html and ">4,321<" in html for html in pages)
    silence.cancel()


@pytest.fixture
def patient(redis_url: str) -> Iterator[Gateway]:
    """A gateway that gives its callers time to end."""
    with running_gateway(redis_url, stop_s=20) as gateway:
        yield gateway


@pytest.mark.outages
def test_a_key_is_sent_all_that_it_may_see_and_nothing_else(patient: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = patient
    monkeypatch.setattr(broadcast, "SHARE", 0)  # so many lists need not share a quarter of the time here
    planner = Planner(gateway.settings.redis_url)
    asked = list(product(SIGHTS, QUERIES))
    clients = [gateway.client(Right.VIEWER, tenant=tenant, repositories=names) for (tenant, names), _ in asked]
    shown: list[set[str]] = [set() for _ in asked]
    follow = threading.Barrier(len(asked) + 1)

    def read(number: int) -> None:
        with clients[number].stream("GET", "/live", params=asked[number][1]) as answer:
            pages = lists(answer)
            first = next(pages)
            follow.wait(60)
            for html in chain([first], pages):
                shown[number].update(PLAN_ID.findall(html))

    with ThreadPoolExecutor(len(asked)) as pool, ExitStack() as ending:
        ending.callback(gateway.stop)
        ended = pool.map(read, range(len(asked)))
        follow.wait(60)
        made = [
            (planner.submit(tenant=tenant, context={"repo": repo} if repo else {}), tenant, repo)
            for tenant, repo in PLANS
        ]
        seen = [
            {
                plan_id
                for plan_id, tenant, repo in made
                if key_tenant in (None, tenant)
                and (not repositories or repo in repositories)
                and query in ({}, {"tenant": tenant}, {"repo": repo})
            }
            for (key_tenant, repositories), query in asked
        ]
        wait_until(lambda: all(map(set.issuperset, shown, seen)), 60, "everyone is shown its plans")
    list(ended)
    assert shown == seen
    assert {frozenset(each) for each in seen} > {frozenset(), frozenset(plan_id for plan_id, *_ in made)}


def test_what_is_sent_says_nothing_of_whom_it_is_sent_to(gateway: Gateway) -> None:
    viewer = signed_in(gateway, Right.ADMIN)
    page = viewer.get("/").text
    (key_id,), (csrf,) = re.findall("key <b>(.*?)</b>", page), re.findall('name="csrf" value="(.*?)"', page)

    with viewer.stream("GET", "/live") as answer:
        html = next(lists(answer))

    assert "There are no plans yet" in html
    assert not any(each in html for each in (key_id, csrf, "sign-out"))


def test_what_is_offered_depends_on_the_rights_of_who_looks(gateway: Gateway) -> None:
    viewer, producer = gateway.client(Right.VIEWER), gateway.client(Right.PRODUCER)

    with viewer.stream("GET", "/live") as looks, producer.stream("GET", "/live") as submits:
        offered = ['href="/goals/new"' in next(lists(each)) for each in (looks, submits)]

    assert offered == [False, True]


@pytest.mark.parametrize("ends", ["key", "session"])
def test_a_live_list_ends_with_its_key_or_its_session_and_shows_nothing_that_comes_then(
    gateway: Gateway, ends: str
) -> None:
    planner, viewer = Planner(gateway.settings.redis_url), signed_in(gateway, Right.VIEWER)
    before = planner.submit()
    (key_id,) = re.findall("key <b>(.*?)</b>", viewer.get("/").text)

    with viewer.stream("GET", "/live") as answer:
        pages = lists(answer)
        assert PLAN_ID.findall(next(pages))[0] == before
        if ends == "key":
            api_keys.revoke(gateway.redis, key_id)
        else:
            page_sessions.end(gateway.redis, viewer.cookies[PLAIN])
        planner.submit()
        assert list(pages) == []


def test_an_address_that_cannot_be_asked_for_is_told_live_too(gateway: Gateway) -> None:
    with gateway.client(Right.VIEWER).stream("GET", "/live?state=NONE") as answer:
        assert "These filters are not valid" in next(lists(answer))
