"""Plans made the real way, as people and scripts look at them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.support.planner import STEPS, Planner
from worker.store import keys, plan_lists, plan_names, queries


def test_a_plan_is_told_with_every_field_of_the_wire(planner: Planner) -> None:
    told = planner.view(planner.submit(goal_id="ci-1")).model_dump(mode="json")

    promised = {"plan_id", "goal_id", "kind", "state", "revision", "paused", "waiting", "halt", "budget", "steps"}
    of_a_step = {"step_id", "state", "attempt", "depends_on", "allowed_files", "verify", "risk_level", "mode", "type"}
    assert promised | {"document"} <= told.keys()
    assert of_a_step | {"queue", "inserted_by", "waiting"} <= told["steps"][0].keys()
    assert list(told["budget"]) == ["tokens", "patch_cycles", "failing_outcomes", "wall_clock_s"]
    assert (told["goal_id"], told["kind"], told["state"], told["goal"]) == ("ci-1", "task", "EXECUTING", "Fix b")
    assert (told["paused"], told["waiting"], told["halt"], told["ended_at"]) == (False, None, None, None)


def test_steps_stand_in_their_planned_order_with_their_states(planner: Planner) -> None:
    plan_id = planner.submit()
    planner.report("look", plan_id)

    steps = planner.view(plan_id).steps

    assert [(step.step_id, step.state, step.attempt) for step in steps] == [
        ("look", "DONE", 1),
        ("fix-b", "ACTIVE", 1),
        ("a-check", "BLOCKED", 0),
    ]
    assert (steps[1].type, steps[1].mode, steps[1].allowed_files) == ("PATCH", "patch", ("b.py",))
    assert steps[2].depends_on == ("look", "fix-b")


def test_budgets_tell_what_is_spent_and_what_is_held(planner: Planner) -> None:
    plan_id = planner.submit(limits={"tokens": 100_000})
    planner.report("look", plan_id, metrics={"tokens_used": 1200, "patch_cycles": 0})

    budget = planner.view(plan_id).budget

    assert (budget.tokens.limit, budget.tokens.spent, budget.tokens.reserved) == (100_000, 1200, 60_000)
    assert budget.patch_cycles.reserved == 1


def test_the_wall_clock_runs_from_ready_and_stops_at_the_end(planner: Planner) -> None:
    plan_id, hour_ago = planner.submit(), int(time.time() * 1000) - 3_600_000

    planner.put_times(plan_id, {"created": hour_ago - 99_000, "ready": hour_ago})
    running = planner.view(plan_id).budget.wall_clock_s.spent
    planner.put_times(plan_id, {"created": hour_ago - 99_000, "ready": hour_ago, "ended": hour_ago + 90_000})

    assert 3600 <= running < 3660
    assert planner.view(plan_id).budget.wall_clock_s.spent == 90
    planner.put_times(plan_id, {"created": 0, "ready": hour_ago, "ended": hour_ago + 90_000, "lost": 30_000})
    assert planner.view(plan_id).budget.wall_clock_s.spent == 60
    planner.put_times(plan_id, {"created": 0, "ready": hour_ago, "still": hour_ago + 10_000, "lost": 4000})
    assert planner.view(plan_id).budget.wall_clock_s.spent == 6  # it stands still


def test_what_no_step_verifies_is_told(planner: Planner) -> None:
    plan_id = planner.submit(goal="Document the setup", allowed_files=["docs/a.md"], steps=None)

    assert planner.view(plan_id).unverified == "No step verifies docs/a.md. No step runs tests."


def test_a_completed_plan_has_an_end_and_only_done_steps(planner: Planner) -> None:
    plan_id = planner.submit()
    for step in ("look", "fix-b", "a-check"):
        planner.report(step, plan_id)

    view = planner.view(plan_id)

    assert (view.state, view.counts) == ("COMPLETED", {"DONE": 3})
    assert view.ended_at is not None


def test_a_rejected_plan_tells_its_errors_under_the_rule_rejected(planner: Planner) -> None:
    view = planner.view(planner.submit(steps=[STEPS[0] | {"verify": "rm -rf /"}]))

    assert view.state == "REJECTED"
    assert view.halt is not None
    assert view.halt.rule == "rejected"
    assert view.halt.evidence["errors"][0]["pointer"] == "/steps/0/verify"


def test_plans_come_newest_first_from_all_partitions(redis_url: str) -> None:
    planner = Planner(redis_url, partitions=4)
    made = [planner.submit(context={"repo": f"acme/{number}"}) for number in range(12)]

    told = [plan.plan_id for plan in queries.plans(planner.client, 4)]

    assert len({keys.partition_of(plan_id, 4) for plan_id in made}) > 1
    assert sorted(told) == sorted(made)
    created = [planner.view(plan_id).created_at for plan_id in told]
    assert created == sorted(created, reverse=True)


def test_plans_are_read_page_by_page_without_losing_one(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE", 2)
    monkeypatch.setattr(plan_lists, "PAGE", 3)
    made = {planner.submit() for _ in range(7)}

    assert sorted(plan.plan_id for plan in queries.plans(planner.client, 1)) == sorted(made)


def test_steps_are_read_page_by_page_without_losing_one(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "STEP_PAGE", 2)

    assert [step.step_id for step in planner.view(planner.submit()).steps] == ["look", "fix-b", "a-check"]


def test_a_plan_that_was_forgotten_is_left_out(planner: Planner) -> None:
    gone, kept = planner.submit(), planner.submit()
    planner.client.delete(keys.Partition(0).plan(gone).plan)

    assert [plan.plan_id for plan in queries.plans(planner.client, 1)] == [kept]
    assert queries.plan(planner.client, 1, gone) is None


def test_a_plan_under_creation_is_invisible(planner: Planner) -> None:
    plan_id = planner.submit()
    planner.client.hset(keys.Partition(0).plan(plan_id).plan, "state", "CREATED")

    assert queries.plan(planner.client, 1, plan_id) is None
    assert not list(queries.plans(planner.client, 1))


def test_a_plan_that_waits_for_an_approval_says_what_it_asks(planner: Planner) -> None:
    step = {"step_id": "a", "title": "A", "intent": "Do it", "allowed_files": ["src/a.py"], "verify": "pytest"}
    risky = step | {"risk_level": "HIGH", "rollback_hint": "git checkout"}
    plan_id = planner.submit(allowed_files=["src/a.py"], steps=[risky], approvals=["HIGH"])

    view = planner.view(plan_id)

    assert view.waiting is not None
    assert (view.waiting.kind, view.steps[0].waiting) == ("approval", "approval")
    assert "planner approve" in view.waiting.questions[0]
    assert view.waiting.until


@pytest.mark.parametrize("cut", [lambda i: i, lambda i: i[:20], lambda i: i[5:], lambda i: i[5:22]])
@pytest.mark.parametrize("partitions", [1, 4])
def test_a_plan_is_found_by_the_beginning_of_its_id(redis_url: str, cut: Any, partitions: int) -> None:
    planner = Planner(redis_url, partitions)
    plan_id = planner.submit(context={"repo": "acme/shop"})
    planner.submit(context={"repo": "acme/other"})

    assert plan_names.resolve(planner.client, partitions, cut(plan_id)) == plan_id


def test_a_plan_is_found_by_the_id_of_its_goal_even_where_that_looks_like_a_plan(planner: Planner) -> None:
    plan_id = planner.submit(goal_id="0a")
    planner.submit()

    assert plan_names.resolve(planner.client, 1, "0a") == plan_id


def test_an_ambiguous_beginning_names_the_candidates(planner: Planner) -> None:
    made = [planner.submit(context={"repo": "acme/shop"}) for _ in range(2)]

    with pytest.raises(plan_names.Ambiguous) as refusal:
        plan_names.resolve(planner.client, 1, made[0][5:8])

    assert all(plan_id in str(refusal.value) for plan_id in made)


@pytest.mark.parametrize("word", ["", "zz", "plan_", "plan_*", "3c-0199", "no-such-goal"])
def test_what_is_no_plan_is_not_found(redis: Redis, word: str) -> None:
    with pytest.raises(plan_names.NoSuchPlan):
        plan_names.resolve(redis, 1, word)


def test_a_success_that_nothing_proves_is_shown_as_not_verified(redis_url: str) -> None:
    planner = Planner(redis_url)
    plan_id = planner.submit()
    planner.report("look", plan_id, tests_passed=None)
    planner.report("fix-b", plan_id, verify=[{"tool": "pytest", "exit_code": 0}], touched_files=["b.py"])

    view = queries.plan(planner.client, 1, plan_id)

    assert view is not None
    assert [step.verified for step in view.steps] == [False, True, None]
    assert codec.loads(codec.encode(view))["steps"][0]["verified"] is False


def test_receipts_are_required_by_a_setting_when_the_plan_is_made(redis_url: str) -> None:
    planner = Planner(redis_url, require_receipts=True)
    plan_id = planner.submit()
    planner.report("look", plan_id)  # it says that the tests passed, and shows no receipt
    failed = queries.plan(planner.client, 1, plan_id)
    planner.report("look", plan_id, verify=[{"tool": "pytest", "exit_code": 0}])
    proved = queries.plan(planner.client, 1, plan_id)

    assert failed is not None
    assert proved is not None
    assert (failed.steps[0].state, failed.budget.failing_outcomes.spent) == ("ACTIVE", 1)
    assert (proved.steps[0].state, proved.steps[0].verified) == ("DONE", True)


def test_what_a_step_needs_beyond_its_goal_is_shown(planner: Planner) -> None:
    plan_id = planner.submit()
    planner.report("look", plan_id)
    planner.report("fix-b", plan_id, success=False, needs={"files": ["docs/c.md"], "reason": "it is described there"})

    (need,) = planner.view(plan_id).needs

    assert (need.step_id, need.files, need.reason) == ("fix-b", ("docs/c.md",), "it is described there")
    planner.report("fix-b", plan_id, touched_files=["b.py"])
    assert planner.view(plan_id).needs == ()
