"""The lists by which plans are found: right after every commit, and in pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from tasks.plan.lifecycle import PLAN_ENDS
from tests.support.planner import Planner, asking, completed, executing, halted, rejected, retried
from worker.cli.commands.app import app
from worker.store import keys, plan_lists, plan_ranks, queries
from worker.store.plan_lists import PlanFilter

P0 = keys.Partition(0)
MAKERS: tuple[Callable[[Planner], str], ...] = (asking, completed, executing, halted, rejected, retried)
FILTERS = (
    PlanFilter(),
    PlanFilter(state="HALTED"),
    PlanFilter(state="EXECUTING", tenant="acme"),
    PlanFilter(tenant="acme", repo="acme/shop"),
    PlanFilter(rule="rejected"),
    PlanFilter(waiting=True),
    PlanFilter(waiting=True, state="COMPLETED"),
    PlanFilter(kind="task", repo="acme/a shop\nof two lines"),
    PlanFilter(kind="campaign"),
    PlanFilter(state="REVISING"),
)


def some_plans(planner: Planner) -> list[str]:
    """Plans in most states, of two tenants and three repositories."""
    made = [maker(planner) for maker in MAKERS]
    for number, (tenant, repo) in enumerate(
        (("acme", "acme/shop"), ("acme", "acme/a shop\nof two lines"), ("b", None))
    ):
        made.append(planner.submit(goal_id=f"of-{number}", tenant=tenant, context={"repo": repo} if repo else {}))
    return made


def lists(planner: Planner) -> dict[str, set[str]]:
    """What stands in the lists, by their names."""
    found = [key.decode() for key in planner.client.scan_iter(f"{P0.plans}:*", _type="zset")]
    listed: dict[str, Any] = {key.removeprefix(P0.plans + ":"): planner.client.zrange(key, 0, -1) for key in found}
    return {name: {plan_id.decode() for plan_id in ids} for name, ids in listed.items()}


def right_lists(planner: Planner) -> dict[str, set[str]]:
    """What should stand in the lists, from the plans themselves."""
    found: dict[str, set[str]] = {}
    for plan in queries.plans(planner.client, 1):
        names = [f"state:{plan.state}", f"tenant:{plan.tenant}"]
        names += [f"live:{plan.state}:{plan.kind}"] if plan.state not in PLAN_ENDS else []
        names += [f"repo:{plan.repo}"] if plan.repo else []
        names += [f"rule:{plan.halt.rule}"] if plan.halt else []
        names += ["waiting"] if plan.waiting else []
        for name in names:
            found.setdefault(keys.list_name(name), set()).add(plan.plan_id)
    return found


def sweep(planner: Planner, times: int = 1) -> None:
    for _ in range(times):
        planner.container.context(0).engine.sweep("test")


def wanted_of(planner: Planner, wanted: PlanFilter) -> list[str]:
    return [plan.plan_id for plan in queries.plans(planner.client, 1) if wanted.fits(plan)]


def check_filters(planner: Planner) -> None:
    for wanted in FILTERS:
        found = [plan.plan_id for plan in queries.plans(planner.client, 1, wanted)]
        assert found == wanted_of(planner, wanted), wanted


def test_every_commit_keeps_the_lists_and_the_forgotten_leave_them(planner: Planner) -> None:
    made = some_plans(planner)

    assert lists(planner) == right_lists(planner)
    assert plan_lists.count_states(planner.client, 1) == {
        name.removeprefix("state:"): len(found) for name, found in lists(planner).items() if name.startswith("state:")
    }
    check_filters(planner)
    for plan_id in made:
        planner.client.delete(*P0.plan(plan_id))
        planner.client.zadd(P0.timers, {plan_id: 0})
    sweep(planner)
    assert lists(planner) == {}
    assert not planner.client.exists(P0.listed, P0.plans)


def test_ranks_have_the_plans_that_fit_every_filter(planner: Planner) -> None:
    some_plans(planner)

    for wanted in (*FILTERS, PlanFilter(text="fix b"), PlanFilter(text="acme shop", tenant="acme")):
        words = [each.plan_id for each in queries.plans(planner.client, 1, wanted)]
        for by in plan_ranks.ORDERS:
            assert set(plan_ranks.rank(planner.client, 1, wanted, by)) == set(words), (wanted, by)


def test_an_ordinary_success_writes_no_list(planner: Planner) -> None:
    plan_id = executing(planner)
    with planner.client.monitor() as monitor:
        planner.report("fix-b", plan_id, touched_files=["b.py"])
        planner.client.ping()
        seen: list[str] = []
        for said in monitor.listen():
            if said["command"] == "PING":
                break
            seen.append(said["command"])
    assert any(each.startswith("FCALL planner_commit") for each in seen)
    assert not [each for each in seen if P0.plans + ":" in each or P0.listed in each]


def test_pages_hold_every_plan_once_though_plans_are_made_meanwhile(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_lists, "PAGE", 3)
    monkeypatch.setattr(queries, "PAGE", 2)
    monkeypatch.setattr(queries, "MOST_LOOKS", 4)
    made = [planner.submit(tenant=("acme", "b")[number % 2]) for number in range(14)]
    same = dict.fromkeys(made[:8], 1_700_000_000_000)  # more of one millisecond than a page holds
    for key in (P0.plans, P0.list_of("tenant:acme"), P0.list_of("tenant:b"), P0.list_of("state:EXECUTING")):
        planner.client.zadd(key, same, xx=True)
    for wanted in (PlanFilter(), PlanFilter(tenant="acme"), PlanFilter(kind="campaign")):
        whole, pages = wanted_of(planner, wanted), list[str]()
        cursor: str | None = None
        while True:
            page = queries.page(planner.client, 1, wanted, 3, cursor)
            assert len(page.items) <= 3
            pages += [plan.plan_id for plan in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
            planner.submit(tenant="acme")
        assert pages == whole
    with pytest.raises(plan_lists.WrongCursor):
        queries.page(planner.client, 1, cursor="bm9uZQ")


def test_plans_of_a_time_and_with_a_beginning_are_found(redis_url: str) -> None:
    planner = Planner(redis_url, partitions=4)
    made = [planner.submit(context={"repo": f"acme/{number}"}) for number in range(6)]
    for hour, plan_id in enumerate(made):
        part = keys.Partition(keys.partition_of(plan_id, 4))
        planner.client.zadd(part.plans, {plan_id: 3_600_000 * hour})

    def found(**fields: Any) -> list[str]:
        return [plan.plan_id for plan in queries.plans(planner.client, 4, PlanFilter(**fields))]

    hours = [datetime.fromtimestamp(3600 * hour, UTC) for hour in range(6)]
    assert found() == made[::-1]
    assert found(since=hours[2], until=hours[5]) == [made[4], made[3], made[2]]
    assert found(id_prefix=made[3]) == found(id_prefix=made[3].removeprefix("plan_")) == [made[3]]
    assert set(found(id_prefix="plan_")) == set(made)
    assert found(id_prefix="plan_zz-") == []
    assert found(text=" FIX  b") == made[::-1]
    assert found(text="fix cart") == []


def test_plans_are_counted_by_state_within_lists_of_which_no_plan_is_in_two(planner: Planner) -> None:
    for tenant, repo in (("acme", "a/x"), ("acme", "a/y"), ("initech", "a/x"), ("acme", None)):
        planner.submit(tenant=tenant, **({"context": {"repo": repo}} if repo else {}))
    planner.submit(tenant="acme", allowed_files=["../b.py"])

    def counted(*among: list[str]) -> dict[str, int] | None:
        return plan_lists.count_states(planner.client, 1, among)

    assert counted([]) == {"EXECUTING": 4, "REJECTED": 1}
    assert counted(["tenant:acme"]) == {"EXECUTING": 3, "REJECTED": 1}
    assert counted(["tenant:acme", "repo:a/x"], ["tenant:acme", "repo:a/y"]) == {"EXECUTING": 2}
    assert counted(["tenant:nobody"]) == {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_lists, "MOST_COUNTED", 3)
        assert counted(["tenant:acme"]) is None
        assert counted(["tenant:initech"]) == {"EXECUTING": 1}


def test_the_command_lists_what_is_asked_for(planner: Planner, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["plans", *words])

    assert "There are no plans yet" in run().stdout
    made = some_plans(planner)

    def ids(*words: str) -> set[str]:
        return {each["plan_id"] for each in codec.loads(run(*words, "--json").stdout)}

    assert ids() == set(made)
    assert ids("--state", "halted", "--rule", "security") == {made[3]}
    assert ids("--waiting") == {made[0]}
    assert ids("--tenant", "acme", "--repo", "acme/shop", "--since", "2h") == {made[6]}
    assert ids("--until", "2h") == set()
    page = codec.loads(run("--cursor", "start", "--limit", "4", "--json").stdout)
    rest = codec.loads(run("--cursor", page["next_cursor"], "--json").stdout)
    assert [len(page["items"]), len(rest["items"]), rest["next_cursor"]] == [4, 5, None]
    drawn = run("--state", "HALTED").stdout
    assert made[3][5:20] in drawn
    assert "All plans: 2 REJECTED, 5 EXECUTING, 1 COMPLETED, 1 HALTED" in drawn
    assert "No plan matches." in run("--rule", "budget").stdout
    refused = {
        words: run(*words) for words in (("--state", "DONE"), ("--kind", "x"), ("--cursor", "x"), ("--since", "x"))
    }
    assert {result.exit_code for result in refused.values()} == {2}
    assert "HALTED" in refused["--state", "DONE"].output
    assert "campaign" in refused["--kind", "x"].output
