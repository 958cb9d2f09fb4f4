"""Plans that are not made yet: what is ordered, taken over or short of memory while a drafter or a person is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tasks.rules.strategy import Consult, Drafted
from tests.conftest import wait_until
from tests.support.kinds.evolution import a_goal, a_plan
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import functions, goal_record, keys
from worker.store.keys import Partition
from worker.streams.inbox import Inbox, StreamEntry

HOME = Partition(0)
GOOD = Drafted(codec.dumps(a_plan()).decode(), None, 500, 10)
USELESS = Drafted("I cannot", None, 500, 10)

Answer = Drafted | Callable[[], Drafted]


class Scripted:
    """A drafter that answers as told; a function is called for its answer while the question is open."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked = 0

    def ask(self, question: Consult, stop: Callable[[], bool]) -> Drafted:  # noqa: ARG002 (the protocol's)
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else GOOD
        return answer() if callable(answer) else answer


class Worker:
    """The container of a worker process in this one, with a drafter of its own."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.drafter = Scripted()
        given = {"redis_url": url, "drafters": ("none", "queue", "http"), "llm_model": "openai:x"}
        self.container = Container(Settings(**given | settings))
        functions.load(self.container.client)
        self.container.consulting.drafters["http"] = self.drafter

    def decompose(self) -> None:
        self.container.goal_consumer.drain()

    def look(self) -> None:
        """Do what lies there: wide orders, orders and outcomes, clocks that have run out."""
        self.container.bulk_commands.drain()
        self.container.context(0).engine.drain()
        self.container.context(0).engine.sweep(self.container.name)

    def look_until(self, holds: Callable[[], bool]) -> None:
        def looked() -> bool:
            self.look()
            return holds()

        wait_until(looked)


@pytest.fixture
def hire(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))
    made: list[Worker] = []

    def make(**settings: Any) -> Worker:
        made.append(Worker(redis_url, state_dir=tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.container.client.close()


def send(redis: Redis, goal_id: str, **more: Any) -> None:
    body = a_goal().model_dump(mode="json", exclude_defaults=True)
    about = {
        "goal_id": goal_id,
        "tenant": "acme",
        "drafter": "http",
        "context": {**body["context"], "repo": "acme/shop"},
    }
    redis.xadd(keys.GOALS, {"data": codec.dumps({**body, **about, **more})})


def order(redis: Redis, command: str, scope: str, **more: Any) -> None:
    said = {"command_id": f"{command}-{scope}", "command": command, "scope": scope, "actor": "ada", "reason": "why"}
    stream = HOME.commands if scope == "plan" else keys.COMMANDS
    redis.xadd(stream, {"data": codec.dumps({**said, **more})})


def goal(redis: Redis, goal_id: str) -> dict[str, str]:
    found: Any = redis.hgetall(keys.goal_id(goal_id, "acme"))
    return {name.decode(): value.decode() for name, value in found.items()}


def state(redis: Redis, goal_id: str) -> str:
    found: Any = redis.hget(HOME.plan(goal(redis, goal_id)["plan_id"]).plan, "state")
    return str(found.decode())


def live(redis: Redis, tenant: str = "acme") -> int:
    """How many plans of a tenant have not ended."""
    found: Any = redis.hget(HOME.tenants, tenant)
    return int(found or 0)


@pytest.mark.parametrize(("command", "scope"), [("cancel", "tenant"), ("halt", "all"), ("cancel", "plan")])
def test_an_order_ends_a_plan_while_its_drafter_is_asked(
    redis: Redis, hire: Callable[..., Worker], command: str, scope: str
) -> None:
    other, asking = hire(), hire()

    def meanwhile() -> Drafted:
        target = {"plan_id": goal(redis, "g")["plan_id"]} if scope == "plan" else {}
        order(redis, command, scope, **target, **({"target": "acme"} if scope == "tenant" else {}))
        other.look_until(lambda: state(redis, "g") == "REJECTED")
        return GOOD

    asking.drafter.answers = [meanwhile]
    send(redis, "g")
    asking.decompose()

    assert (state(redis, "g"), goal(redis, "g")["verdict"]) == ("REJECTED", "REJECTED")
    assert asking.drafter.asked == 1
    assert redis.xlen(HOME.steps("default")) == 0
    assert live(redis) == 0


def test_a_plan_that_an_order_ends_at_once_is_not_drafted(redis: Redis, hire: Callable[..., Worker]) -> None:
    worker = hire()
    order(redis, "halt", "tenant", target="acme")
    worker.look()

    send(redis, "g")
    worker.decompose()

    assert worker.drafter.asked == 0
    assert state(redis, "g") == "REJECTED"


def test_no_drafter_is_asked_whom_nobody_can_pay_today(redis: Redis, hire: Callable[..., Worker]) -> None:
    worker = hire(tenant_day_tokens=400)
    for goal_id in ("first", "second"):
        send(redis, goal_id)
        worker.decompose()
        worker.look()

    assert worker.drafter.asked == 1
    assert goal(redis, "second")["reason"] == "day_budget_exhausted"


def test_who_cancels_a_draft_pays_for_it(redis: Redis, hire: Callable[..., Worker]) -> None:
    other, asking = hire(tenant_day_tokens=10_000), hire(tenant_day_tokens=10_000)

    def meanwhile() -> Drafted:
        order(redis, "cancel", "plan", plan_id=goal(redis, "g")["plan_id"])
        other.look_until(lambda: state(redis, "g") == "REJECTED")
        return replace(GOOD, tokens=4000)

    asking.drafter.answers = [meanwhile]
    send(redis, "g")
    asking.decompose()

    left: Any = redis.hget(HOME.grants, "tenant:acme")
    assert int(left.split()[1]) == -4000


def test_a_full_server_lets_a_cancel_through_and_the_others_go_on(redis: Redis, hire: Callable[..., Worker]) -> None:
    other, asking = hire(), hire()
    step = {
        "step_id": "a",
        "title": "a",
        "intent": "i",
        "allowed_files": ["src/a.py"],
        "type": "PATCH",
        "verify": "pytest",
    }
    task = {
        "goal_id": "t",
        "tenant": "acme",
        "goal": "Fix",
        "allowed_files": ["src/a.py"],
        "context": {"language": "python"},
        "steps": [step],
    }
    redis.xadd(keys.GOALS, {"data": codec.dumps(task)})
    other.decompose()
    other.look()

    def meanwhile() -> Drafted:
        order(redis, "cancel", "plan", plan_id=goal(redis, "g")["plan_id"])
        done = {
            "plan_id": goal(redis, "t")["plan_id"],
            "step_id": "a",
            "attempt": 1,
            "success": True,
            "tests_passed": True,
        }
        redis.xadd(HOME.outcomes, {"data": codec.dumps({**done, "touched_files": ["src/a.py"]})})
        memory: Any = redis.info("memory")
        redis.config_set("maxmemory", memory["used_memory"] - 1000)
        try:
            other.look_until(lambda: state(redis, "g") == "REJECTED")
            other.look_until(lambda: redis.xlen(HOME.outcomes) == 0)
            assert redis.xlen(HOME.dead) == 0
        finally:
            redis.config_set("maxmemory", 0)
        return USELESS

    asking.drafter.answers = [meanwhile]
    send(redis, "g")
    asking.decompose()

    assert goal(redis, "g")["verdict"] == "REJECTED"


def test_two_workers_that_take_over_goals_ask_about_each_once(redis: Redis, hire: Callable[..., Worker]) -> None:
    one, two = hire(claim_idle_s=1), hire(claim_idle_s=1)
    for goal_id in ("g-1", "g-2"):
        send(redis, goal_id)
        Inbox(one.container.client, keys.GOALS, keys.GOALS_DEAD, f"dead-{goal_id}").read(count=1)
    asked, answered = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: wait_until(lambda: two.container.goal_consumer.recover(2500)), daemon=True)

    def slowly() -> Drafted:
        """Long enough for the goal that is taken over beside this one to be taken over again."""
        other.start()
        assert asked.wait(60)
        return GOOD

    def more_slowly() -> Drafted:
        asked.set()
        assert answered.wait(60)
        return GOOD

    one.drafter.answers, two.drafter.answers = [slowly], [more_slowly]
    wait_until(lambda: one.container.goal_consumer.recover(1))
    answered.set()
    other.join(60)

    wait_until(lambda: goal(redis, "g-2")["verdict"] == "PLANNED")
    assert goal(redis, "g-1")["verdict"] == "PLANNED"
    assert (one.drafter.asked, two.drafter.asked) == (1, 1)
    wait_until(lambda: redis.xlen(keys.GOALS) == 0)


@pytest.mark.parametrize(
    ("stands", "written"),
    [("PENDING", True), ("NEEDS_INPUT", True), ("PLANNED", False), ("REJECTED", False), (None, False)],
)
def test_a_verdict_takes_the_place_only_of_one_that_is_open(
    redis: Redis, hire: Callable[..., Worker], stands: str | None, written: bool
) -> None:
    client, key = hire().container.client, keys.goal_id("g", "acme")
    if stands:
        redis.hset(key, mapping={"plan_id": "plan_1", "verdict": stands})

    place = ("g", "acme")
    assert not goal_record.settle(client, place, "plan_2", "PLANNED", "because", 60, *goal_record.OPEN)
    assert goal_record.settle(client, place, "plan_1", "PLANNED", "because", 60, *goal_record.OPEN) == written
    assert redis.exists(key) == bool(stands)
    assert goal(redis, "g").get("verdict") == ("PLANNED" if written else stands)


@pytest.mark.parametrize(("limit", "asked", "left"), [(1000, 0, 1000), (3600, 1, 100), (200_000, 2, None)])
def test_no_question_is_asked_that_the_plans_tokens_do_not_pay_for(
    redis: Redis, hire: Callable[..., Worker], limit: int, asked: int, left: int | None
) -> None:
    worker = hire()
    worker.drafter.answers = [Drafted(None, "HTTP 500", 3500, 10), GOOD]
    send(
        redis,
        "poor",
        limits={"tokens": limit},
        allowed_files=(*a_goal().allowed_files, *(f"src/part_{n}.py" for n in range(400))),
    )

    worker.decompose()

    assert worker.drafter.asked == asked
    told: Any = redis.hget(HOME.plan(goal(redis, "poor")["plan_id"]).plan, "halt")
    assert goal(redis, "poor")["verdict"] == ("PLANNED" if left is None else "REJECTED")
    assert left is None or f"of the plan's {limit} tokens {left} are left" in told.decode()


def test_a_goal_whose_plan_a_killed_worker_made_gets_its_verdict_at_once(
    redis: Redis, hire: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hire(), hire()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    send(redis, "made")
    with monkeypatch.context() as patch:
        patch.setattr(goal_record, "settle", die)
        with pytest.raises(Killed):
            one.decompose()
    aside: list[StreamEntry] = []
    two.container.goal_consumer.put_aside = aside.append
    wait_until(lambda: two.container.goal_consumer.recover(1))

    assert not aside
    assert goal(redis, "made")["verdict"] == "PLANNED"
    assert one.drafter.asked + two.drafter.asked == 1
    assert redis.xlen(keys.GOALS) == 0
