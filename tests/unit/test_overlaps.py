"""Plans of one repository that may patch the same files: told, waited for or refused, and given back at the end."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.goal import Goal
from schemas.step import Place, PlannedStep
from schemas.stored import PlanRecord
from tasks.base.policy_text import read_policy
from tasks.features.overlaps import asked_of
from tasks.policy import expansion
from tasks.policy.claiming import LOOK_MS
from tests.support.overlapping import FILES, Neighbours
from tests.support.plans import Running, a_check, a_goal, a_plan, a_report, a_step, plan_id
from worker.store.plans import Write

A, B, C, D = FILES


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Neighbours:
    neighbours = Neighbours()
    monkeypatch.setattr(expansion, "strategy_of", lambda _: neighbours.script)
    return neighbours


def events(plan: Running, what: str) -> list[dict[str, Any]]:
    """The events of this name that a plan emitted."""
    return [codec.loads(raw) for change in plan.changes for kind, raw in change.events if f".{what}." in kind]


def waits(plan: Running) -> dict[str, list[str]]:
    return plan.record.claims.waits


def test_a_plan_claims_what_its_steps_may_patch_until_it_ends(here: Neighbours) -> None:
    plan = here.begin(a_step("a", files=[A, B]), a_check("t", "a"))
    assert here.claimed == {A: plan.plan_id, B: plan.plan_id}

    here.succeed(plan, "a")
    assert here.claimed == {A: plan.plan_id, B: plan.plan_id}
    here.succeed(plan, "t")

    assert plan.state == "COMPLETED"
    assert here.left() == {}


def test_without_a_repository_nothing_is_claimed(here: Neighbours) -> None:
    plan = here.begin(a_step("a", files=[A]), repo=None)

    assert here.left() == {}
    assert plan.changes[-1].claims == []


def test_plans_of_other_repositories_and_tenants_do_not_overlap(here: Neighbours) -> None:
    here.begin(a_step("a", files=[A]))

    assert here.begin(a_step("a", files=[A]), repo="acme/blog").active
    assert here.begin(a_step("a", files=[A]), tenant="other").active


def test_an_overlap_is_told_and_allowed_by_default(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]), overlap="allow")
    second = here.begin(a_step("a", files=[A, B]), overlap="allow")

    assert first.active
    assert second.active
    assert not events(first, "plan.overlaps")
    (told,) = events(second, "plan.overlaps")
    assert (told["overlap"], told["overlaps"]) == ("allow", [{"file": A, "plans": [first.plan_id]}])
    assert told["reason"] == f"{A} is claimed by {first.plan_id}"
    assert here.told(second) == told["overlaps"]


def test_a_plan_that_waits_is_held_in_ready_until_the_plan_before_it_ends(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A, B]))
    second = here.begin(a_step("a", files=[C]), a_step("b", files=[B]))

    assert (second.state, dict(second.active)) == ("READY", {})
    assert second.record.held == f"waiting for {B}: {first.plan_id}"
    assert events(second, "plan.held")[0]["reason"] == second.record.held

    here.succeed(first, "a")
    here.sweep()

    assert sorted(second.active) == ["a", "b"]
    assert (second.record.held, waits(second)) == ("", {})
    assert here.claimed == {C: second.plan_id, B: second.plan_id}


def test_plans_go_on_in_the_order_in_which_they_came(here: Neighbours) -> None:
    plans = [here.begin(a_step("a", files=[A])) for _ in range(4)]

    for plan, behind in zip(plans, [*plans[1:], None], strict=True):
        assert [each.plan_id for each in plans if each.active] == [plan.plan_id]
        if behind:
            assert behind.record.held == f"waiting for {A}: {plan.plan_id}"
        here.succeed(plan, "a")
        here.sweep()

    assert here.left() == {}


def test_a_plan_that_waits_keeps_its_place_on_files_that_are_free(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("a", files=[A, B]))
    third = here.begin(a_step("a", files=[B]))

    assert third.record.held == f"waiting for {B}: {second.plan_id}"
    here.succeed(first, "a")
    here.sweep()
    assert second.active
    assert not third.active


def test_who_waits_for_a_plan_that_is_cancelled_is_told_of_the_one_before_that(here: Neighbours) -> None:
    first, second, third = (here.begin(a_step("a", files=[A])) for _ in range(3))

    here.cancel(second)
    here.sweep()

    assert third.record.held == f"waiting for {A}: {first.plan_id}"
    assert here.claimed == {A: f"{first.plan_id} ?{third.plan_id}"}


def test_the_wall_clock_stands_still_while_a_plan_waits_for_files(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = Running(
        *[a_step("a", files=[A])],
        plan=plan_id(9),
        store=here.store,
        repo="acme/shop",
        tenant="acme",
        overlap="wait",
        wall_clock_s=600,
    )
    here.plans[second.plan_id] = second

    for _ in range(20):
        here.store.wait(LOOK_MS)
        second.look()
    assert second.state == "READY"
    here.cancel(first)
    here.sweep()

    assert second.active
    assert second.record.times["lost"] == 20 * LOOK_MS


def test_a_pause_is_told_before_a_wait_for_files(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("a", files=[A]))
    second.obey(here.command("pause", second))
    here.succeed(first, "a")
    here.sweep()

    assert not second.active
    second.obey(here.command("resume", second))
    assert second.active


def test_a_breaker_lets_nothing_through_of_a_plan_that_waits_for_files(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("x", files=[A]))
    here.let_through(second)
    second.look()

    assert second.record.held.startswith("pause of repository")
    assert (second.state, dict(second.active)) == ("READY", {})
    here.succeed(first, "a")
    second.look()
    assert list(second.active) == ["x"]


def action(here: Neighbours, plan: Running, step: str) -> Any:
    """What the controller of a step in flight is told."""
    return here.store.hash(plan.keys.plan.replace("plan:", "lease:") + f":{step}").get("action")


def test_an_attempt_is_let_through_by_the_timer_of_its_plan_alone(here: Neighbours) -> None:
    plan = here.begin(a_step("x", files=[A]))
    here.let_through(plan)
    plan.report(a_report("x", 7, None))  # of no attempt; it has the lease of the one in flight read

    assert not [said for line in plan.log for said in line["in"] if said[0] == "let through"]
    plan.look()
    assert plan.log[-1]["in"] == [["let through", "x", 1]]
    assert action(here, plan, "x") == "continue"
    here.fold_again(plan.plan_id)


def test_an_attempt_that_was_let_through_pauses_with_its_plan(here: Neighbours) -> None:
    plan = here.begin(a_step("x", files=[A]))
    here.let_through(plan)
    plan.look()

    plan.obey(here.command("pause", plan))
    assert action(here, plan, "x") == "pause"
    plan.obey(here.command("resume", plan))
    assert action(here, plan, "x") == "continue"


def test_a_plan_of_which_every_step_is_skipped_ends_while_it_waits(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("a", files=[A]))

    second.obey(here.command("skip", second, "a"))

    assert second.state == "COMPLETED"
    assert here.claimed == {A: first.plan_id}


def test_a_goal_that_refuses_overlaps_is_rejected_with_the_plans_that_are_there(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("a", files=[A, B]), overlap="refuse")

    assert second.state == "REJECTED"
    assert second.halt["reason"] == "overlap"
    assert second.halt["evidence"]["errors"] == [
        {"pointer": "/allowed_files", "code": "overlap", "message": f"{A} is claimed by {first.plan_id}."}
    ]
    assert second.halt["evidence"]["unblock"].startswith("Others are at work on these files: ")
    assert here.claimed == {A: first.plan_id}
    assert here.begin(a_step("a", files=[B]), overlap="refuse").active


def test_two_steps_that_end_at_once_may_both_add_steps_whose_files_are_claimed(here: Neighbours) -> None:
    here.begin(a_step("a", files=[A, B]))
    second = here.begin(a_step("x", files=[C]), a_step("y", files=[D]))
    here.grows[second.plan_id, "x"] = [a_step("after-x", files=[A])]
    here.grows[second.plan_id, "y"] = [a_step("after-y", files=[B])]

    second.report(*[a_report(step, 1, second.active[step].lease) for step in "xy"])

    assert sorted(waits(second)) == ["after-x", "after-y"]


def test_a_step_that_is_added_waits_alone(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("x", files=[B]), a_step("y", files=[C]))

    here.succeed(second, "x", [a_step("z", files=[A]), a_step("free", files=[D]), a_step("after", "z", files=[B])])

    assert sorted(second.active) == ["free", "y"]
    assert waits(second) == {"z": [A, first.plan_id]}
    assert events(second, "plan.overlaps")[0]["reason"] == f"waiting for {A}: {first.plan_id}"
    here.succeed(first, "a")
    here.sweep()
    assert sorted(second.active) == ["free", "y", "z"]
    assert waits(second) == {}


def test_the_wall_clock_stands_still_while_all_that_is_open_waits_for_files(here: Neighbours) -> None:
    here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("x", files=[B]))

    here.succeed(second, "x", [a_step("z", files=[A])])

    assert second.state == "EXECUTING"
    assert second.record.times["still"] == here.store.now


def test_a_plan_that_refuses_overlaps_halts_instead_of_having_steps_that_overlap(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("x", files=[B]), overlap="refuse")

    here.succeed(second, "x", [a_step("z", files=[A])])

    assert (second.state, second.halt["rule"]) == ("HALTED", "overlap")
    assert first.plan_id in second.halt["reason"]
    assert second.halt["evidence"]["overlaps"] == [{"file": A, "plans": [first.plan_id]}]
    assert here.claimed == {A: first.plan_id}


def test_a_wait_that_would_close_a_circle_is_allowed_and_told(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("b", files=[B]))
    here.succeed(first, "a", [a_step("a2", files=[B])])
    assert waits(first) == {"a2": [B, second.plan_id]}

    here.succeed(second, "b", [a_step("b2", files=[A])])

    assert sorted(second.active) == ["b2"]
    assert here.told(second) == [{"file": A, "plans": [first.plan_id], "circle": True}]
    here.succeed(second, "b2")
    here.sweep()
    assert sorted(first.active) == ["a2"]


def test_a_step_goes_before_plans_that_wait_for_its_own_plan_anyway(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("b", files=[A, B]))

    here.succeed(first, "a", [a_step("a2", files=[B])])

    assert sorted(first.active) == ["a2"]
    assert here.claimed == {
        A: f"{first.plan_id} ?{second.plan_id}",
        B: f"{first.plan_id} ?{second.plan_id}",
    }
    here.succeed(first, "a2")
    here.sweep()
    assert second.active


def test_a_decision_that_rests_on_claims_of_before_is_refused(here: Neighbours) -> None:
    made: dict[str, Any] = {"repo": "acme/shop", "tenant": "acme", "overlap": "wait"}
    (one,) = a_plan(a_step("a", files=[A]), plan=plan_id(1), **made)
    (two,) = a_plan(a_step("a", files=[A]), plan=plan_id(2), **made)

    assert here.store.commit([Write(one), Write(two)]) == ["ok", "claimed"]


def test_claims_of_a_plan_that_is_not_there_any_more_are_given_back_where_they_are_met(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A, B]))
    second = here.begin(a_step("a", files=[A]))
    del here.store.keys[first.keys.plan]  # by hand

    here.store.wait(LOOK_MS)
    second.look()

    assert second.active
    assert here.claimed == {A: second.plan_id}


@pytest.mark.parametrize(
    ("said", "policy", "mode"),
    [
        (None, "", "allow"),
        ("wait", "", "wait"),
        (None, 'overlap = "wait"', "wait"),
        ("allow", 'overlap = "wait"', "allow"),
        (None, 'overlap = "refuse"\n[repository."acme/shop"]\noverlap = "wait"', "wait"),
        (None, 'overlap = "refuse"\n[repository."acme/blog"]\noverlap = "wait"', "refuse"),
    ],
)
def test_the_goal_says_what_an_overlap_means_else_its_policy(said: str | None, policy: str, mode: str) -> None:
    goal: Goal = a_goal(repo="acme/shop", overlap=said)

    assert asked_of(goal, read_policy(policy.encode())) == mode


def test_a_large_plan_waits_as_a_small_one_does(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(
        *(a_step(f"s-{number}", files=[A] if number == 150 else [f"src/{number}.py"]) for number in range(200))
    )

    assert not second.active
    assert second.record.held == f"waiting for {A}: {first.plan_id}"
    here.succeed(first, "a")
    here.sweep()
    assert second.active


def test_logs_of_plans_that_waited_fold_again(here: Neighbours) -> None:
    first = here.begin(a_step("a", files=[A]))
    second = here.begin(a_step("b", files=[A, B]))
    third = here.begin(a_step("c", files=[C]))
    here.succeed(third, "c", [a_step("c2", files=[A])])
    here.succeed(first, "a", [a_step("a2", files=[B])])
    for plan, step in ((first, "a2"), (second, "b"), (third, "c2")):
        here.succeed(plan, step)
        here.sweep()

    for name in here.plans:
        assert here.plans[name].state == "COMPLETED"
        here.fold_again(name)
    record: PlanRecord = third.record
    assert record.claims.waits == {}


def wide(name: str, *files: str, patterns: tuple[str, ...] = ("src/**",)) -> PlannedStep:
    return a_step(name, files=files).model_copy(update={"allowed_patterns": patterns})


@pytest.mark.parametrize(
    ("before", "later"),
    [
        (wide("a", A), wide("a", B)),
        (wide("a", A), wide("a", patterns=("src/shop/*.py",))),
        (wide("a", patterns=("src/shop/*.py",)), wide("a", B)),
        (wide("a", A), a_step("a", files=[B])),
        (a_step("a", files=[B]), wide("a", A)),
        (wide("a", patterns=("*.py",)), a_step("a", files=[A])),
        (a_step("a", files=[A]), wide("a", patterns=("**/*.py",))),
    ],
)
def test_a_plan_that_waits_does_so_for_what_is_claimed_in_or_around_its_patterns(
    here: Neighbours, before: PlannedStep, later: PlannedStep
) -> None:
    first, second = here.begin(before), here.begin(later)

    assert (bool(first.active), dict(second.active)) == (True, {})
    assert second.record.held.endswith(first.plan_id)
    here.succeed(first, "a")
    here.sweep()
    assert second.active
    here.succeed(second, "a")
    assert here.left() == {}


def test_plans_of_other_folders_do_not_wait_for_each_other(here: Neighbours) -> None:
    plans = [
        here.begin(wide("a", patterns=("src/a/**",))),
        here.begin(wide("a", patterns=("src/ab/**", "tests/**"))),
        here.begin(a_step("a", files=["src/a.py", "docs/a.md"])),
    ]

    assert all(plan.active for plan in plans)


def test_a_plan_that_goes_on_claims_what_it_names_and_notes_what_it_changed_beyond(here: Neighbours) -> None:
    place = Place(path=B, why="The goal names it.")
    first = here.begin(
        wide("a", A).model_copy(update={"focus": (place,)}), a_step("b", "a", files=[A]), overlap="allow"
    )
    assert here.claimed == {A: first.plan_id, B: first.plan_id}
    waiting = here.begin(a_step("a", files=[C]))

    first.report(a_report("a", 1, first.active["a"].lease, touched_files=[A, C, D], patterns=True))

    assert here.claimed[C] == f"{waiting.plan_id} {first.plan_id}"
    assert here.claimed[D] == first.plan_id
    assert first.active
    assert waiting.active
    later = here.begin(a_step("a", files=[D]))
    assert later.record.held == f"waiting for {D}: {first.plan_id}"


def test_a_plan_that_delivers_waits_for_files_and_claims_no_folder_unless_its_goal_names_an_overlap(
    here: Neighbours,
) -> None:
    delivers: Any = {"overlap": None, "delivery": {"push": True}}
    first = here.begin(wide("a", A), a_step("b", "a", files=[A]), **delivers)
    assert here.claimed == {A: first.plan_id}

    beside, behind = here.begin(wide("a", B), **delivers), here.begin(wide("a", A), **delivers)

    assert beside.active
    assert behind.record.held == f"waiting for {A}: {first.plan_id}"
    first.report(a_report("a", 1, first.active["a"].lease, touched_files=[A, D], patterns=True))
    assert here.claimed[D] == first.plan_id  # what it changed is waited for, too
    assert here.begin(a_step("a", files=[D]), **delivers).record.held == f"waiting for {D}: {first.plan_id}"
    named = here.begin(wide("a", C), overlap="wait", delivery={"push": True})
    assert "src/" in here.claimed
    assert named.record.held


def test_a_plan_that_refuses_is_halted_by_steps_in_a_folder_that_another_plan_claims(here: Neighbours) -> None:
    first = here.begin(wide("a", patterns=("src/**",)))
    second = here.begin(a_step("a", files=["docs/a.md"]), overlap="refuse")

    here.succeed(second, "a", [a_step("b", files=[A])])

    assert (second.state, second.halt["rule"]) == ("HALTED", "overlap")
    assert first.plan_id in second.halt["reason"]


def test_steps_that_are_added_wait_for_the_folder_that_another_plan_claims(here: Neighbours) -> None:
    first = here.begin(wide("a", patterns=("src/**",)))
    second = here.begin(a_step("a", files=["docs/a.md"]))

    here.succeed(second, "a", [a_step("b", files=[A])])

    assert ([*second.active], second.record.claims.waits) == ([], {"b": ["src/", first.plan_id]})
    here.succeed(first, "a")
    here.sweep()
    assert "b" in second.active
