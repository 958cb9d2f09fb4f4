"""The order of the list of plans by its columns, and the states of drafts and delivered changes in its rows."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from redis import Redis

from schemas.api_key import Right
from schemas.delivered import DeliveryState
from tests.bench.plan_sizes import copy
from tests.support.gateway import Gateway
from tests.support.page import signed_in
from tests.support.planner import (
    Planner,
    asking,
    completed,
    delivered,
    drafting,
    executing,
    followed,
    halted,
    held_by,
)
from worker.gateway.page.plan_list import CHANGES, SORTS
from worker.store import plan_ranks
from worker.store.plan_ranks import MOST_AT_WORK


def rows(answer: httpx.Response) -> dict[str, str]:
    """Return the rows of a list by plan, in its order."""
    return dict(re.findall(r'<tr id="(plan_.*?)">(.*?)</tr>', answer.text, re.DOTALL))


def test_a_list_is_sorted_by_its_texts_from_a_to_z(gateway: Gateway, planner: Planner) -> None:
    plans = {
        executing(planner, goal="beta"): "ctl-2",
        completed(planner, goal="Alpha"): "",
        executing(planner, goal="delta"): "ctl-1",
        halted(planner, goal="Gamma"): "",
        executing(planner, goal="epsilon"): "",
    }
    beta, alpha, delta, gamma, epsilon = plans
    for plan_id, controller in plans.items():
        if controller:
            held_by(planner, plan_id, "fix-b", controller)
    client = signed_in(gateway, Right.VIEWER)

    assert [*rows(client.get("/?sort=goal"))] == [alpha, beta, delta, epsilon, gamma]
    assert [*rows(client.get("/?sort=state"))] == [alpha, epsilon, delta, beta, gamma]
    assert [*rows(client.get("/?sort=controller"))] == [delta, beta, epsilon, gamma, alpha]
    first, second = client.get("/?sort=goal&limit=3"), client.get("/?sort=goal&limit=3&cursor=3")
    assert [*rows(first), *rows(second)] == [alpha, beta, delta, epsilon, gamma]
    assert [*rows(client.get("/?sort=controller&state=EXECUTING"))] == [delta, beta, epsilon]
    assert '<th scope="col" class="by-goal" aria-sort="ascending">' in first.text


def test_who_works_is_read_of_so_many_plans_only(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_ranks, "MOST_AT_WORK", 1)
    older, newer = executing(planner), executing(planner)
    for plan_id in (older, newer):
        held_by(planner, plan_id, "fix-b", f"ctl-{1 if plan_id == older else 2}")

    shown = signed_in(gateway, Right.VIEWER).get("/?sort=controller")

    assert [*rows(shown)] == [newer, older]
    assert f"Who works is read of the newest {MOST_AT_WORK} that run." in shown.text


def test_every_column_sorts_the_list(gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    client = signed_in(gateway, Right.VIEWER)
    page = client.get("/").text
    columns = re.findall(r'<th scope="col" class="by-(\w+)', page)

    assert len(columns) == page.count('<th scope="col"')
    for column in columns:
        assert [*rows(client.get(f"/?sort={column}" if column != "made" else "/"))] == [plan_id]


@pytest.mark.parametrize("state", DeliveryState)
def test_a_row_has_the_state_of_the_delivered_change(gateway: Gateway, planner: Planner, state: DeliveryState) -> None:
    plan_id = delivered(planner)
    followed(planner, plan_id, state=state)

    (row,) = rows(signed_in(gateway, Right.VIEWER).get("/")).values()

    words, tone = CHANGES[state]
    assert f'<span class="mark {tone}">{words}</span>' in row


def test_a_plan_that_waits_for_a_drafter_needs_no_person(gateway: Gateway, planner: Planner) -> None:
    plan_id = drafting(planner)
    client = signed_in(gateway, Right.ADMIN)

    page = client.get("/")

    assert "a drafter is asked" in rows(page)[plan_id]
    assert "waits:" not in rows(page)[plan_id]
    assert "Needs a person" not in page.text
    assert rows(client.get("/?waiting=true")) == {}


def commands(redis: Redis, client: httpx.Client, address: str) -> int:
    """Return the number of commands that the server does for a list, those in functions included."""
    redis.config_resetstat()
    client.get(address).raise_for_status()
    known: Any = redis.info("commandstats")
    return sum(each["calls"] for name, each in known.items() if not name.startswith(("cmdstat_config", "cmdstat_info")))


def test_a_list_costs_no_command_a_plan_and_a_sorted_one_costs_one(
    gateway: Gateway, planner: Planner, redis: Redis
) -> None:
    model, client = executing(planner).encode(), signed_in(gateway, Right.VIEWER)
    lists = ["/?limit=5", "/?limit=5&state=EXECUTING", "/?limit=5&tenant=default", "/?limit=5&text=nothing"]
    lists += [f"/?limit=5&sort={column}" for column in SORTS if column != "made"]
    copy(redis, model, 100)
    few = {address: commands(redis, client, address) for address in lists}

    copy(redis, model, 100)
    more = {address: commands(redis, client, address) - few[address] for address in lists}

    of_a_plan = {"controller": 6, "text": 1, "sort": 1}  # the controller's: of the newest 500 that run
    for address, count in more.items():
        allowed = next((each for name, each in of_a_plan.items() if name in address), 0)
        assert count <= 100 * allowed + 10, (address, count)


def test_the_page_of_reviews_has_what_waits_for_a_person_the_oldest_first(gateway: Gateway, planner: Planner) -> None:
    viewer = signed_in(gateway, Right.VIEWER)
    assert "Nothing waits for a person." in viewer.get("/review").text
    asked, changed = asking(planner), delivered(planner)
    merged, _ = delivered(planner), executing(planner)
    followed(planner, merged, state=DeliveryState.MERGED)

    page = viewer.get("/review")

    assert [*rows(page)] == [asked, changed]
    assert "2 in all, about 62 minutes to read. The oldest is first." in page.text
    assert "review its branch" in rows(page)[changed]
    assert "approve or reject" in rows(page)[asked]
    assert rows(signed_in(gateway, Right.VIEWER, tenant="other").get("/review")) == {}
    assert '<a href="/review">Review</a>' in viewer.get("/").text
