"""Dead entries and wide commands on the page: shown, said before they are done, and done once."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from schemas.api_key import Right
from tests.support.gateway import Gateway
from tests.support.planner import Planner, executing, obeying, repeating
from worker.store import dead, keys
from worker.store.dead import Filter
from worker.store.keys import Partition

HOSTILE = b'{"goal": "<script>alert(1)</script>\\u001b[31m'


def signed_in(gateway: Gateway, *rights: Right, **of: Any) -> httpx.Client:
    """A browser that has signed in with a new key."""
    client = gateway.with_token(None)
    client.headers["Origin"] = gateway.url
    assert client.post("/sign-in", data={"key": gateway.key(*rights, **of)}).status_code == 303
    return client


def hidden(page: str) -> dict[str, str]:
    """The fields of the page's own form that nobody sees."""
    return dict(re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)"', page.partition("<main")[2]))


def bury(planner: Planner, data: bytes) -> str:
    """Have a goal die; returns the name of its entry."""
    planner.client.xadd(keys.GOALS, {"data": data})
    planner.container.goal_consumer.drain()
    return next(dead.newest(planner.client, 1, Filter())).name


def test_dead_entries_are_listed_with_their_causes_and_what_they_said(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.OPERATOR)
    empty = client.get("/dead").text
    name, other = bury(planner, HOSTILE), bury(planner, b'{"goal": "x", "limits": {"tokens": 1}}')

    page = client.get("/dead").text

    assert "There are no dead entries" in empty
    assert re.findall('name="entry" value="(.*?)"', page) == [other, name]
    assert "<code>/limits/tokens</code>" in page
    assert "&lt;script&gt;alert(1)" in page
    assert (page.count("<script"), "\x1b" in page) == (1, False)
    assert re.findall('name="entry" value="(.*?)"', client.get("/dead?cause=invalid_json&stream=").text) == [name]
    assert "No dead entry matches" in client.get("/dead?cause=poison").text
    assert client.get("/dead?cursor=x").status_code == 422


def test_entries_are_sent_back_once_it_was_said_which(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.OPERATOR)
    name = bury(planner, HOSTILE)
    before = gateway.redis.xlen(keys.GOALS)

    asked = client.get("/dead/replay", params={"entry": [name, "goals/1-1"]}).text
    assert gateway.redis.xlen(keys.GOALS) == before
    done = client.post("/dead/replay", data=hidden(asked))
    again = client.post("/dead/replay", data=hidden(asked))

    assert "Replay 1 entry?" in asked
    assert "there is no such entry" in asked
    assert "1 entry was sent back" in done.text
    assert "0 entries were sent back" in again.text
    assert gateway.redis.xlen(keys.GOALS) == before + 1


def test_a_replay_of_nothing_says_that_none_was_chosen_on_the_list(gateway: Gateway, planner: Planner) -> None:
    client, name = signed_in(gateway, Right.OPERATOR), bury(planner, HOSTILE)

    answer = client.get("/dead/replay", headers={"Accept": "text/html"})

    assert answer.status_code == 422
    assert re.findall('role="alert">(.*?)<', answer.text) == [
        "No entry was chosen: tick those that shall be sent back."
    ]
    assert re.findall('name="entry" value="(.*?)"', answer.text) == [name]


def test_dead_entries_of_others_and_without_the_right_are_not_there(gateway: Gateway, planner: Planner) -> None:
    name = bury(planner, b'{"goal": "x", "tenant": "initech", "limits": {"tokens": 1}}')
    acme, viewer = signed_in(gateway, Right.OPERATOR, tenant="acme"), signed_in(gateway, Right.VIEWER)
    fields = hidden(acme.get("/dead/replay", params={"entry": name}).text)
    (csrf,) = re.findall('name="csrf" value="(.*?)"', acme.get("/dead").text)

    assert name not in acme.get("/dead").text
    assert fields == {}
    assert "0 entries" in acme.post("/dead/replay", data={"csrf": csrf, "entries": name}).text
    assert viewer.get("/dead").status_code == 403
    assert "/dead" not in viewer.get("/").text
    (csrf,) = re.findall('name="csrf" value="(.*?)"', viewer.get("/").text)
    assert viewer.post("/dead/replay", data={"csrf": csrf, "entries": name}).status_code == 403
    assert gateway.redis.xlen(keys.GOALS_DEAD) == 1


def test_a_wide_act_says_how_many_plans_it_reaches_and_is_then_a_command(gateway: Gateway, planner: Planner) -> None:
    planner.submit(context={"repo": "acme/shop"})
    client = signed_in(gateway, Right.OPERATOR)
    aim = {"scope": "repository", "target": "acme/shop"}

    asked = client.get("/acts/pause", params=aim)
    with obeying(planner.container):
        done = client.post("/acts/pause", data={**hidden(asked.text), "reason": "the <b>release</b>"})
        fleet = client.get("/fleet").text
        lifted = client.post("/acts/resume", data=hidden(client.get("/acts/resume", params=aim).text))
        refused = client.post("/acts/resume", data=hidden(client.get("/acts/resume", params=aim).text))

    assert "<b>1 plan</b>" in asked.text
    assert "The pause is active." in done.text
    assert "the &lt;b&gt;release&lt;/b&gt;" in fleet
    assert "/acts/resume?scope=repository&amp;target=acme%2Fshop" in fleet
    assert "The pause or halt is lifted. Its plans continue within moments." in lifted.text
    assert (refused.status_code, "nothing is paused or halted" in refused.text) == (409, True)
    assert "Pauses and halts of many plans" in client.get("/fleet").text


def test_queues_tenants_and_all_plans_are_reached_from_the_fleet(gateway: Gateway, planner: Planner) -> None:
    executing(planner)
    client = signed_in(gateway, Right.OPERATOR)
    assert '/acts/pause?scope=queue&amp;target=default"' in client.get("/fleet").text

    with obeying(planner.container):
        for act, aim, done in (
            ("pause", {"scope": "queue", "target": "default"}, "The pause of this queue is active."),
            ("pause", {"scope": "tenant", "target": "default", "until": "4h"}, "The pause is active."),
            ("halt", {"scope": "all"}, "The halt is active. Its plans end within moments."),
        ):
            page = client.get(f"/acts/{act}", params=aim).text
            told = client.post(f"/acts/{act}", data={**hidden(page), **aim}).text
            assert f'role="status">{done}</p>' in told, told
        fleet = client.get("/fleet").text

    assert '/acts/resume?scope=queue&amp;target=default"' in fleet
    assert re.findall("<b>(Paused: tenant default|Halted: all plans)</b>", fleet) == [
        "Halted: all plans",
        "Paused: tenant default",
    ]
    assert planner.view(planner.submit(goal_id="later")).state == "HALTED"


@pytest.mark.parametrize(
    ("act", "done"),
    [
        ("halt", "The halt is active. Its plans end within moments."),
        ("cancel", "The cancel is active. The current plans end within moments."),
    ],
)
def test_plans_end_after_what_stands_was_told(gateway: Gateway, planner: Planner, act: str, done: str) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.OPERATOR)
    aim = {"scope": "tenant", "target": "default"}

    with repeating(planner.container.bulk_commands.drain):  # nobody sweeps
        told = client.post(f"/acts/{act}", data=hidden(client.get(f"/acts/{act}", params=aim).text)).text

    assert f'role="status">{done}</p>' in told
    assert planner.view(plan_id).state == "EXECUTING"


def test_an_aim_that_is_missing_is_asked_for(gateway: Gateway) -> None:
    client = signed_in(gateway, Right.OPERATOR)

    for query in ("", "?scope=plan&target=x", "?scope=tenant", "?scope=%00"):
        page = client.get(f"/acts/halt{query}")
        assert (page.status_code, "Halt what?" in page.text) == (200, True)
    assert re.findall('<option value="(.*?)"', client.get("/acts/top_up").text) == ["repository", "tenant"]
    assert client.get("/acts/approve").status_code == 422


def test_a_wide_act_reaches_no_further_than_the_key(gateway: Gateway, planner: Planner) -> None:
    acme, viewer = signed_in(gateway, Right.OPERATOR, tenant="acme"), signed_in(gateway, Right.VIEWER)
    planner.submit(tenant="initech", context={"repo": "initech/till"})
    before = gateway.redis.xlen(keys.COMMANDS), gateway.redis.xlen(Partition(0).commands)

    for aim in ({"scope": "tenant", "target": "initech"}, {"scope": "repository", "target": "initech/till"}):
        page = acme.get("/acts/halt", params=aim).text
        assert "initech</b>" not in page
        assert "1 plan" not in page
        answer = acme.post("/acts/halt", data=hidden(page))
        assert (answer.status_code, "This key may not halt" in answer.text) == (403, True)
    everything = acme.post("/acts/halt", data={**hidden(acme.get("/acts/halt?scope=all").text)})
    (csrf,) = re.findall('name="csrf" value="(.*?)"', viewer.get("/").text)
    assert everything.status_code == 403
    assert viewer.post("/acts/halt", data={"csrf": csrf, "scope": "all"}).status_code == 403
    assert "/acts/" not in viewer.get("/fleet").text
    assert before == (gateway.redis.xlen(keys.COMMANDS), gateway.redis.xlen(Partition(0).commands))
