"""The breaker of a repository on a real server: when it trips, whom it lets through, and how it closes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.command import Command
from tasks.features.breakers.breaker import Terms
from tasks.record import replay as replays
from tasks.record.recorded_plan import RecordedPlan
from tests.conftest import wait_until
from tests.support import launch
from tests.support.faults import HASTE, kill, spawn
from tests.support.plain import held_on
from tests.support.planner import obeying
from tests.support.replay import export_of
from tests.support.shop import BROKEN, HOME, REPO, STEPS, Shop
from tests.support.stored import plans as stored
from worker.engine.breakers import Breakers
from worker.store import publishing


@pytest.fixture
def shop(redis_url: str) -> Shop:
    return Shop(redis_url)


def test_five_plans_that_fail_alike_pause_their_repository_and_a_success_resumes_it(shop: Shop) -> None:
    specs = shop.break_base()
    pause = shop.pause()
    assert pause is not None
    assert pause["actor"] == "breaker"
    assert "5 of 5 failures of 5 plans in 15 min were alike (TEST_REGRESSION, signature" in pause["reason"]
    assert "cannot import name" in pause["reason"]
    assert [each["repo"] for each in shop.told("repository.paused")] == [REPO]
    late = shop.submit()  # born paused
    shop.sweep()
    assert shop.take() == []
    for plan_id in [late, *(spec["plan_id"] for spec in specs)]:
        assert "by breaker" in str(shop.planner.view(plan_id).paused_by)

    for _ in range(3):  # still broken
        shop.fail(shop.let_through())
        assert shop.pause()
    assert shop.told("repository.resumed") == []
    shop.succeed(shop.let_through())

    assert shop.pause() is None
    shop.sweep()
    rest = shop.take()
    assert len(rest) >= 4
    for spec in rest:
        shop.succeed(spec)
    wait_until(lambda: _all_ended(shop, [late, *(spec["plan_id"] for spec in specs)]), what="all are done")
    assert len(shop.told("repository.paused")) == len(shop.told("repository.resumed")) == 1
    assert shop.redis.exists(HOME.breakers, HOME.breakers_due, HOME.probes) == 0
    for plan_id in [late, *(spec["plan_id"] for spec in specs)]:
        held = held_on(shop.redis, HOME, plan_id)
        held.log.extend(shop.redis.lrange(HOME.plan(plan_id).log, 0, -1))
        found = replays.replay(RecordedPlan.read(export_of(held)))
        assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")


def _all_ended(shop: Shop, plans: list[str]) -> bool:
    shop.sweep()
    for spec in shop.take():
        shop.succeed(spec)
    return all(shop.planner.view(plan_id).state == "COMPLETED" for plan_id in plans)


def test_forty_plans_on_a_broken_base_burn_a_bounded_number_of_attempts(redis_url: str) -> None:
    shop = Shop(redis_url, breaker_probe_s=1)
    plans = [shop.submit() for _ in range(40)]
    burnt = 0
    for _ in range(20):
        specs = shop.take()
        for spec in specs:
            shop.fail(spec)
        burnt += len(specs)
        shop.sweep()

    # the first of each plan was on its way before the fifth failed; then what those that failed started, and probes
    assert burnt <= 40 + 5 + 20
    assert all(shop.planner.view(plan_id).state == "EXECUTING" for plan_id in plans)


def test_an_attempt_that_waits_for_its_controller_is_let_through(shop: Shop) -> None:
    """Every plan has its next attempt in a queue already, of which controllers may not claim any."""
    for _ in range(5):
        shop.submit()
    for spec in shop.take():
        shop.fail(spec)
    waiting = shop.take()
    shop.sweep()
    assert [shop.heartbeat(spec) for spec in waiting] == ["pause"] * 5

    claimed: list[dict[str, Any]] = []

    def looked() -> bool:
        shop.be_due()
        shop.sweep()
        claimed.extend(spec for spec in waiting if shop.heartbeat(spec) == "continue")
        return bool(claimed)

    wait_until(looked, what="an attempt may be claimed")
    shop.sweep()
    assert [shop.heartbeat(spec) for spec in waiting].count("continue") == 1
    shop.succeed(claimed[0])

    assert shop.pause() is None
    shop.sweep()
    assert [shop.heartbeat(spec) for spec in waiting if spec != claimed[0]] == ["continue"] * 4
    held = held_on(shop.redis, HOME, claimed[0]["plan_id"])
    held.log.extend(shop.redis.lrange(HOME.plan(claimed[0]["plan_id"]).log, 0, -1))
    found = replays.replay(RecordedPlan.read(export_of(held)))
    assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")


def test_it_closes_once_no_plan_is_left_that_could_show_anything(shop: Shop) -> None:
    specs = shop.break_base()
    for number, spec in enumerate(specs):
        command(shop, "cancel", number, scope="plan", plan_id=spec["plan_id"])
    with obeying(shop.planner.container):
        plans = [spec["plan_id"] for spec in specs]
        wait_until(lambda: all(shop.planner.view(plan).state == "HALTED" for plan in plans), what="all plans end")

    def closed() -> bool:
        shop.be_due()
        shop.sweep()
        return shop.pause() is None

    wait_until(closed, what="the breaker closes")

    (told,) = shop.told("repository.resumed")
    assert told["reason"] == "no plan of the repository has a step left to try"
    shop.sweep()
    assert shop.redis.exists(HOME.breakers, HOME.breakers_due, HOME.probes) == 0


def test_a_probe_that_ends_after_a_person_lifted_the_pause_leaves_nothing_behind(shop: Shop) -> None:
    shop.break_base()
    probe = shop.let_through()
    command(shop, "resume", 1, scope="repository", target=REPO)
    shop.sweep()

    shop.succeed(probe)

    shop.sweep()
    assert shop.redis.exists(HOME.breakers, HOME.breakers_due, HOME.probes) == 0


def test_what_a_newer_version_adds_behind_a_failure_is_passed_over(shop: Shop) -> None:
    shop.break_base(plans=4)
    (series,) = [key.decode().rpartition("failed:")[2] for key in shop.redis.keys("*breaker:failed:*")]
    key = HOME.counted_failures(series)
    for about, at in shop.redis.zrange(key, 0, -1, withscores=True):
        shop.redis.zrem(key, about)
        shop.redis.zadd(key, {codec.dumps([*codec.loads(about), {"newer": 1}]): at})

    shop.break_base(plans=1)

    assert shop.pause()


def test_a_breaker_that_nobody_can_read_keeps_no_other_repository_from_its_own(shop: Shop) -> None:
    shop.redis.hset(HOME.breakers, "acme other", "[]")
    shop.redis.zadd(HOME.breakers_due, {"acme other": 1})

    shop.break_base()

    assert shop.pause()


def test_another_tenants_repository_of_the_same_name_goes_on(shop: Shop) -> None:
    for number in range(8):
        shop.break_base(plans=1, tenant=("acme", "globex")[number % 2])
    assert shop.pause("acme") is None

    shop.break_base(plans=1, tenant="acme")

    assert shop.pause("acme")
    assert shop.pause("globex") is None
    theirs = shop.submit(tenant="globex")
    assert [spec["plan_id"] for spec in shop.take()] == [theirs]


def test_failures_that_are_unlike_each_other_pause_nothing(shop: Shop) -> None:
    for number in range(8):
        shop.submit()
        for spec in shop.take():
            shop.fail(spec, f"AssertionError: the {'x' * number} shop is shut")

    assert shop.pause() is None


@pytest.mark.parametrize("failing", [[7] * 6, [2, 4, 6, 8, 10, 12]], ids=["all at once", "one after another"])
def test_failures_that_the_next_attempt_heals_pause_nothing(shop: Shop, failing: list[int]) -> None:
    """Six plans of twelve steps, of each of which one step fails once, all alike."""
    plans = [shop.submit(steps=chain(12)) for _ in failing]
    fails = {(plan_id, f"s-{number}", 1) for plan_id, number in zip(plans, failing, strict=True)}
    failed = 0

    def all_completed() -> bool:
        nonlocal failed
        shop.sweep()
        for spec in shop.take():
            if (spec["plan_id"], spec["step_id"], spec["attempt"]) in fails:
                shop.fail(spec)
                failed += 1
            else:
                shop.succeed(spec)
            assert shop.pause() is None
        return all(shop.planner.view(plan_id).state == "COMPLETED" for plan_id in plans)

    wait_until(all_completed, what="all complete")
    assert failed == len(fails)
    assert shop.told("repository.paused") == []


def test_plans_that_had_succeeded_are_paused_once_their_next_attempts_fail_alike_too(shop: Shop) -> None:
    """The base breaks while they run: what succeeded before does not weigh against steps that stay broken."""
    for _ in range(6):
        shop.submit(steps=chain(12))
    for _ in range(6):
        for spec in shop.take():
            shop.succeed(spec)
    for spec in shop.take():
        shop.fail(spec)
    assert shop.pause() is None

    def is_paused() -> bool:
        shop.sweep()
        for spec in shop.take():
            assert spec["attempt"] <= 2
            shop.fail(spec)
        return shop.pause() is not None

    wait_until(is_paused, what="the repository is paused")


def test_plans_that_stay_broken_pause_no_repository_in_which_most_others_succeed(shop: Shop) -> None:
    broken = [shop.submit() for _ in range(5)]
    for _ in range(12):
        shop.submit(steps=chain(5))

    def all_tried_twice() -> bool:
        shop.sweep()
        for spec in sorted(shop.take(), key=lambda spec: spec["plan_id"] in broken):
            (shop.fail if spec["plan_id"] in broken else shop.succeed)(spec)
        return all(shop.planner.view(plan_id).steps[0].attempt > 2 for plan_id in broken)

    wait_until(all_tried_twice, what="each broken step was tried twice")
    assert shop.pause() is None


def test_successes_that_verify_nothing_weigh_nothing(shop: Shop) -> None:
    reads = [{**step, "type": "READ", "mode": "read_only", "allowed_files": [], "verify": ""} for step in chain(4)]
    for _ in range(5):
        shop.submit(steps=reads)
    for _ in range(4):
        for spec in shop.take():
            shop.succeed(spec)

    shop.break_base()

    assert shop.pause()


def chain(length: int) -> list[dict[str, Any]]:
    """Steps, each of which waits for the one before."""
    (step,) = STEPS
    return [{**step, "step_id": f"s-{n}", "depends_on": [f"s-{n - 1}"] if n > 1 else []} for n in range(1, length + 1)]


def test_who_turned_the_breaker_off_is_not_paused(redis_url: str) -> None:
    shop = Shop(redis_url, breaker_plans=0)

    shop.break_base(plans=8)

    assert shop.pause() is None


def command(shop: Shop, name: str, number: int, **about: Any) -> None:
    said = {"command_id": f"c-{number}", "command": name, "actor": "ada", "reason": "why", **about}
    publishing.publish_command(shop.redis, 1, Command.model_validate(said), "test")
    shop.planner.container.bulk_commands.drain()


def test_a_person_closes_it_and_it_lifts_no_pause_of_a_person(shop: Shop) -> None:
    shop.break_base()
    of_repository = {"scope": "repository", "target": REPO}
    command(shop, "pause", 1, **of_repository)
    assert shop.pause()
    command(shop, "resume", 2, **of_repository)  # both of them
    assert shop.pause() is None
    shop.sweep()
    assert shop.redis.exists(HOME.breakers, HOME.breakers_due) == 0
    specs = shop.take()
    assert len(specs) == 5

    for spec in specs:  # the base is broken still
        shop.fail(spec)
    for spec in shop.take():
        shop.fail(spec)
    assert shop.pause()
    shop.submit()  # the others have no attempt left
    spec = shop.let_through()
    command(shop, "pause", 3, **of_repository)
    shop.succeed(spec)

    assert shop.pause() is None
    shop.sweep()
    assert shop.take() == []
    assert b"pause repository:acme/shop" in shop.redis.hkeys(HOME.scopes)


def test_two_workers_that_look_at_once_trip_once(redis_url: str) -> None:
    shop = Shop(redis_url, breaker_plans=0)
    shop.break_base()
    shop.redis.zadd(HOME.breakers_due, {f"default {REPO}": 0})
    terms = Terms(probe_ms=60_000)
    with ThreadPoolExecutor(8) as pool:
        looks = [Breakers(shop.redis, HOME, terms).look for _ in range(8)]
        changed = list(pool.map(lambda look: look(), looks))

    assert sum(changed) == 1
    assert len(shop.told("repository.paused")) == 1


def test_what_was_cut_short_is_done_by_who_looks_next(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that dies behind the trip has paused the repository, and another one reminds its plans."""
    shop = Shop(redis_url, breaker_plans=0)
    specs = shop.break_base()
    shop.redis.zadd(HOME.breakers_due, {f"default {REPO}": 0})
    first = Breakers(shop.redis, HOME, Terms(probe_ms=60_000))
    monkeypatch.setattr(first, "_live", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        first.look()
    assert shop.pause()

    shop.redis.delete(HOME.timers)
    Breakers(shop.redis, HOME, Terms(probe_ms=60_000)).look()

    assert {plan.decode() for plan in shop.redis.zrange(HOME.timers, 0, -1)} == {spec["plan_id"] for spec in specs}
    assert len(shop.told("repository.paused")) == 1


@pytest.mark.outages
@pytest.mark.parametrize("moment", ["counted", "paused", pytest.param("reminded", marks=pytest.mark.long)])
def test_a_worker_that_is_killed_at_the_trip_leaves_one_pause(moment: str, redis_url: str, tmp_path: Path) -> None:
    """Whether a worker dies before, at or behind the trip: plans are paused once, and go on after a success."""
    shop, series = Shop(redis_url), f"default {REPO}"
    reached: dict[str, Callable[[], object]] = {
        "counted": lambda: shop.redis.zcard(HOME.counted_failures(series)) >= 5,
        "paused": shop.pause,
        "reminded": lambda: b'"told":true' in (shop.redis.hget(HOME.breakers, series) or b""),
    }
    worker = _start(redis_url, tmp_path)
    try:
        for _ in range(5):
            _publish(shop)
        wait_until(lambda: shop.redis.xlen(HOME.steps("default")) == 5, what="five steps are handed out")
        taken = shop.take()
        for spec in taken:
            _send(shop, spec, success=False)
        wait_until(reached[moment], what=moment)
    finally:
        kill(worker)

    plans = {spec["plan_id"] for spec in taken}
    worker = _start(redis_url, tmp_path)
    try:
        wait_until(lambda: _paused(shop, plans) and reached["reminded"](), what="all are paused")
        assert len(shop.told("repository.paused")) == 1
        _publish(shop)  # which only the probe lets go on
        wait_until(lambda: len(stored(shop.redis)) == 6 and _paused(shop, stored(shop.redis)), what="it is paused, too")
        shop.be_due()
        given: list[dict[str, Any]] = []
        wait_until(lambda: _all_succeed(shop, given), what="all complete")
        assert plans < set(stored(shop.redis))
        assert len(shop.told("repository.paused")) == len(shop.told("repository.resumed")) == 1
    finally:
        kill(worker)


def _start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    return spawn(launch.command(HASTE), url, folder / "worker.log")


def _publish(shop: Shop) -> None:
    goal = {"goal": "Fix b", "allowed_files": ["b.py"], "steps": STEPS, "context": {"repo": REPO}}
    limits = {"identical_failures": 50, "consecutive_failures": 50}
    shop.redis.xadd("planner:goals", {"data": codec.dumps({**goal, "limits": limits})})


def _send(shop: Shop, spec: dict[str, Any], *, success: bool) -> None:
    said: dict[str, Any] = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
    said |= {"success": success, "tests_passed": success}
    if success:
        said["touched_files"] = spec["allowed_files"]
    else:
        said["failure_evidence"] = {"category": "TEST_REGRESSION", "stack_trace_head": BROKEN}
    shop.redis.xadd(HOME.outcomes, {"data": codec.dumps(said)})


def _paused(shop: Shop, plans: Iterable[str]) -> bool:
    return all("by breaker" in str(shop.planner.view(plan_id).paused_by) for plan_id in plans)


def _all_succeed(shop: Shop, given: list[dict[str, Any]]) -> bool:
    """Succeed with all that may be claimed; `given` is what may not yet."""
    given.extend(shop.take())
    for spec in [spec for spec in given if shop.heartbeat(spec) == "continue"]:
        _send(shop, spec, success=True)
        given.remove(spec)
    return bool(shop.told("repository.resumed")) and all(
        shop.planner.view(plan_id).state == "COMPLETED" for plan_id in stored(shop.redis)
    )
