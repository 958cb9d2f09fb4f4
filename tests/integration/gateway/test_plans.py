"""Plans over HTTP: what the commands print, page by page, and nothing of another tenant's."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.api_key import Right
from schemas.plan import PlanView
from schemas.times import rfc3339
from tasks.features.breakers.breaker import Breaker
from tests.support.gateway import Gateway
from tests.support.planner import Planner, asking, executing, halted, large
from tests.support.shop import HOME, REPO, Shop
from worker.gateway import visible
from worker.gateway.routes import dead as dead_route
from worker.gateway.routes import plans
from worker.store import dead, export, keys, queries
from worker.store.dead import Filter


def all_items(client: Any, path: str, limit: int) -> list[Any]:
    """Read a list to its end, page by page."""
    found: list[Any] = []
    cursor, joint = "", "&" if "?" in path else "?"
    while True:
        page = client.get(f"{path}{joint}limit={limit}{cursor}").json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def test_a_plan_is_told_as_the_commands_print_it(gateway: Gateway, planner: Planner) -> None:
    plan_id, viewer = halted(planner), gateway.client(Right.VIEWER)
    path, view = f"/v1/plans/{plan_id}", planner.view(plan_id).model_dump(mode="json")

    shown, with_steps = viewer.get(path).json(), viewer.get(f"{path}?include=steps").json()

    result = viewer.get(f"{path}/result").json()
    assert shown == {**{name: value for name, value in view.items() if name != "steps"}, "result": result}
    assert [step["step_id"] for step in with_steps["steps"]] == ["look", "fix-b", "a-check"]
    assert viewer.get(f"{path}/steps").json() == {"items": with_steps["steps"], "next_cursor": None}
    assert viewer.get(f"{path}/steps/fix-b").json() == with_steps["steps"][1]
    explained = viewer.get(f"{path}/explain?step=fix-b").json()
    assert (explained["halt"]["rule"], [step["step_id"] for step in explained["steps"]]) == ("security", ["fix-b"])
    assert viewer.get(f"{path}/summary.md").text.startswith("## ❌ Planner: HALTED")
    assert viewer.get(f"{path}/graph.mmd").text.startswith("flowchart TD\n")
    document = codec.loads(b"".join(export.export(gateway.redis, 1, plan_id)))
    assert all_items(viewer, f"{path}/log", 2) == document["log"] != []
    assert {**viewer.get(f"{path}/export").json(), "exported_at": ""} == {**document, "exported_at": ""}


def test_overlaps_are_told_with_the_plan_its_explanation_and_its_summary(gateway: Gateway, planner: Planner) -> None:
    shop = {"context": {"repo": "acme/shop"}, "overlap": "wait"}
    first, second = planner.submit(**shop), planner.submit(**shop)
    viewer = gateway.client(Right.VIEWER)

    told = viewer.get(f"/v1/plans/{second}").json()

    assert told["overlaps"] == [{"file": "b.py", "plans": [first], "circle": False}]
    assert told["paused_by"] == f"waiting for b.py: {first}"
    assert viewer.get(f"/v1/plans/{second}/explain").json()["overlaps"] == told["overlaps"]
    assert f"overlap: b.py was claimed by {first}" in viewer.get(f"/v1/plans/{second}/summary.md").text


def test_lists_come_in_pages_and_filters_hold_together(gateway: Gateway, planner: Planner) -> None:
    viewer = gateway.client(Right.VIEWER)
    made = [planner.submit(tenant=f"t{number % 2}", context={"repo": "acme/shop"}) for number in range(5)]
    ended = halted(planner)

    assert [each["plan_id"] for each in all_items(viewer, "/v1/plans", 2)] == [ended, *reversed(made)]
    assert {each["plan_id"] for each in all_items(viewer, "/v1/plans?tenant=t1&repo=acme/shop", 1)} == set(made[1::2])
    assert [each["plan_id"] for each in all_items(viewer, "/v1/plans?state=HALTED&rule=security", 50)] == [ended]
    assert all_items(viewer, f"/v1/plans?id_prefix={ended}", 50)[0]["halt"]["rule"] == "security"
    assert all_items(viewer, "/v1/plans?until=1h", 50) == all_items(viewer, "/v1/plans?waiting=true", 50) == []
    assert len(all_items(viewer, "/v1/plans?since=1h", 50)) == 6


def test_an_etag_stands_for_a_plan_until_something_but_the_clock_moves(gateway: Gateway, planner: Planner) -> None:
    plan_id, viewer = executing(planner), gateway.client(Right.VIEWER)
    path = f"/v1/plans/{plan_id}"

    tag = viewer.get(path).headers["etag"]
    same = viewer.get(path, headers={"If-None-Match": f'"x", {tag}'})
    alike = [viewer.get(path, headers={"If-None-Match": each}).status_code for each in ("*", tag.removeprefix("W/"))]
    planner.report("fix-b", plan_id, touched_files=["b.py"])
    moved = viewer.get(path, headers={"If-None-Match": tag})

    assert tag.startswith('W/"')
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert alike == [304, 304]
    assert (moved.status_code, moved.json()["counts"]["DONE"]) == (200, 2)


def test_an_etag_does_not_move_with_what_the_clock_alone_foretells(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, viewer = f"/v1/plans/{executing(planner)}", gateway.client(Right.VIEWER)
    real, tags, foretold = visible.view_of, set[str](), set[int]()

    for likely in (60, 61):  # s, as an hour more makes of them

        def later(*of: Any, likely: int = likely) -> PlanView:
            view = real(*of)
            assert view.forecast
            line = view.forecast.wall_clock_s.model_copy(update={"likely": likely})
            return view.model_copy(update={"forecast": view.forecast.model_copy(update={"wall_clock_s": line})})

        monkeypatch.setattr(plans, "view_of", later)
        answer = viewer.get(path)
        tags.add(answer.headers["etag"])
        foretold.add(answer.json()["forecast"]["wall_clock_s"]["likely"])

    assert (len(tags), foretold) == (1, {60, 61})


def test_of_a_large_plan_the_first_500_steps_are_shown_and_the_others_listed(
    gateway: Gateway, planner: Planner
) -> None:
    path, viewer = f"/v1/plans/{large(planner)}", gateway.client(Right.VIEWER)

    assert len(all_items(viewer, f"{path}/steps", 60)) == 200
    assert viewer.get(f"{path}?include=steps").json()["next_cursor"] is None


def test_plans_of_others_are_not_in_the_way_of_a_keys_own_and_no_cursor_names_one(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_LOOKS", 3)
    named = [("acme/a", "a"), ("acme/b", "b"), ("acme/else", "x"), ("acme/a", "a"), *[("acme/else", "x")] * 8]
    made = [(planner.submit(tenant="acme", context={"repo": repo}), short) for repo, short in named]
    other = planner.submit(tenant="initech", context={"repo": "acme/a"})
    own = [plan_id for plan_id, short in reversed(made) if short != "x"]
    strangers = {other, *(plan_id for plan_id, short in made if short == "x")}

    for repositories in (["acme/a", "acme/b"], ["acme/a", "acme/b", *(f"acme/n{number}" for number in range(60))]):
        client = gateway.client(Right.VIEWER, tenant="acme", repositories=repositories)
        for limit in (1, 2, 50):
            found, cursors, cursor = list[str](), list[str](), ""
            while cursor is not None:
                page = client.get("/v1/plans", params={"limit": limit, **({"cursor": cursor} if cursor else {})}).json()
                found += [each["plan_id"] for each in page["items"]]
                cursors += [cursor := page["next_cursor"]]
            assert found == own
            assert not any(plan_id in str(cursors) for plan_id in strangers)
    first = gateway.client(Right.VIEWER, tenant="acme", repositories=["acme/a", "acme/b"]).get("/v1/plans?limit=3")
    assert [each["plan_id"] for each in first.json()["items"]] == own


def test_nothing_of_another_tenant_or_repository_is_there(gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit(tenant="acme", goal_id="g", context={"repo": "acme/shop"})
    theirs = planner.submit(tenant="other", goal_id="g")
    for data in ({"goal_id": "g", "goal": ""}, {"goal_id": "g", "goal": "", "tenant": "acme"}):
        gateway.redis.xadd(keys.GOALS, {"data": codec.dumps(data)})
    planner.container.goal_consumer.drain()
    reads = (Right.VIEWER, Right.OPERATOR)
    strangers = [
        gateway.client(*reads, tenant="other"),
        gateway.client(*reads, tenant="acme", repositories=["acme/else"]),
    ]
    paths = ["", "/steps", "/steps/look", "/log", "/explain", "/export", "/summary.md", "/graph.mmd"]

    for stranger in strangers:
        answers = [stranger.get(f"/v1/plans/{plan_id}{path}") for path in paths]
        answers.append(stranger.post(f"/v1/plans/{plan_id}/commands", json={"command": "halt"}))
        answers.append(stranger.get("/v1/plans/plan_00-nothing"))
        assert {each.status_code for each in answers} == {404}
        assert {each.json()["code"] for each in answers} == {"no_such_plan"}
    assert [each["plan_id"] for each in all_items(strangers[0], "/v1/plans", 50)] == [theirs]
    assert all_items(strangers[0], "/v1/plans?tenant=acme", 50) == all_items(strangers[1], "/v1/plans", 50) == []
    ours = gateway.client(*reads, tenant="acme")
    assert [each["data"] for each in all_items(ours, "/v1/dead?include=data", 50)] == [
        '{"goal_id":"g","goal":"","tenant":"acme"}'
    ]
    assert all("acme" in each["data"] for each in ours.get(f"/v1/plans/{plan_id}/export").json()["dead"])
    assert all_items(strangers[0], "/v1/dead", 50) == all_items(strangers[1], "/v1/dead", 50) == []


def test_dead_entries_are_listed_newest_first_and_sent_back(gateway: Gateway, planner: Planner) -> None:
    for number in range(5):
        gateway.redis.xadd(keys.GOALS, {"data": b"{" + b"x" * number})
    planner.container.goal_consumer.drain()
    operator, ours = gateway.client(Right.OPERATOR), gateway.client(Right.OPERATOR, tenant="acme")
    names = [each.name for each in dead.newest(gateway.redis, 1, Filter())]

    listed = all_items(operator, "/v1/dead?cause=invalid_json&stream=goals&since=1h", 2)
    wanted = {"ids": [names[0], names[1], "goals/1-0"]}
    kept = ours.post("/v1/dead:replay", json=wanted).json()
    sent = operator.post("/v1/dead:replay", json=wanted).json()

    assert [each["entry"] for each in listed] == names
    assert (kept["replayed"], kept["passed_over"]) == (0, 3)
    assert sent["reasons"] == [{"entry": "goals/1-0", "reason": "there is no such entry"}]
    assert (sent["replayed"], gateway.redis.xlen(keys.GOALS), gateway.redis.xlen(keys.GOALS_DEAD)) == (2, 2, 3)
    assert gateway.client(Right.VIEWER).get("/v1/dead").status_code == 403


def test_a_page_of_dead_entries_looks_at_no_more_than_it_may(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"{}", *[b"{"] * 5):
        gateway.redis.xadd(keys.GOALS, {"data": data})
    planner.container.goal_consumer.drain()
    operator = gateway.client(Right.OPERATOR)
    monkeypatch.setattr(dead_route, "MOST_LOOKS", 2)

    first = operator.get("/v1/dead?cause=invalid_message").json()

    assert first["items"] == []
    assert first["next_cursor"]
    assert len(all_items(operator, "/v1/dead?cause=invalid_message", 50)) == 1


def test_who_waits_and_who_works_is_told_of_ones_own_queues_and_plans(gateway: Gateway, planner: Planner) -> None:
    asking(planner)
    planner.submit(tenant="acme", queue="gpu")
    readers = {"default": "ctl-1", "gpu": "ctl-2"}
    for queue, name in readers.items():
        gateway.redis.xreadgroup(keys.CONTROLLERS, name, {keys.Partition(0).steps(queue): ">"})
    everybodys, ours = gateway.client(Right.VIEWER), gateway.client(Right.VIEWER, tenant="acme", queues=["gpu"])

    def told(client: Any, what: str, name: str) -> list[str]:
        return [each[name] for each in client.get(f"/v1/{what}").json()["items"]]

    assert told(everybodys, "queues", "queue") == ["default", "gpu"]
    assert told(ours, "queues", "queue") == ["gpu"]
    assert told(everybodys, "controllers", "name") == ["ctl-1", "ctl-2"]
    assert told(ours, "controllers", "name") == ["ctl-2"]


def test_a_plan_that_its_breaker_pauses_says_when_the_next_step_is_let_through(gateway: Gateway) -> None:
    shop = Shop(gateway.settings.redis_url)
    plan_id, viewer = shop.break_base()[0]["plan_id"], gateway.client(Right.VIEWER)
    shop.sweep()

    told = viewer.get(f"/v1/plans/{plan_id}").json()["breaker"]

    due = Breaker.decode(shop.redis.hget(HOME.breakers, f"default {REPO}")).due
    assert (told["repo"], told["next_probe_at"]) == (REPO, rfc3339(due))
    assert viewer.get(f"/v1/plans/{plan_id}/explain").json()["breaker"] == told
    assert f"lets the next step through at {rfc3339(due)}" in viewer.get(f"/v1/plans/{plan_id}/summary.md").text
