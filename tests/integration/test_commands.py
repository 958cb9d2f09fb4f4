"""Orders about more than one plan, through the real queue: what runs, what waits and what is yet to come obeys them."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support.faults import children, hasty_worker
from tests.support.proxy import Proxy, running_proxy
from worker.cli.commands.app import app
from worker.store import functions, keys
from worker.store.keys import Partition

HOME = Partition(0)
NUMBERS = count(1)
Give = Callable[..., str]


@dataclass
class Site:
    """A worker with a child that does the work, behind a proxy."""

    proxy: Proxy
    worker: RunningWorker
    unread: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def redis(self) -> Redis:
        return self.worker.redis

    def publish(self, tenant: str, repo: str, length: int = 2, **more: Any) -> str:
        """Publish a goal of a chain of steps and wait for its answer; returns the plan's id."""
        goal_id = f"order-{next(NUMBERS)}"
        goal = codec.loads(fleet.goal(0, length)) | {"goal_id": goal_id, "tenant": tenant, "context": {"repo": repo}}
        self.redis.xadd(keys.GOALS, {"data": codec.dumps(goal | more)})
        wait_until(
            lambda: self.redis.hget(keys.goal_id(goal_id, tenant), "verdict") == b"PLANNED", what=f"{goal_id} planned"
        )
        found: Any = self.redis.hget(keys.goal_id(goal_id, tenant), "plan_id")
        return str(found.decode())

    def waiting(self, tenant: str, repo: str) -> str:
        """Publish a plan that stays READY, since its first step needs an approval."""
        step = codec.loads(fleet.goal(0, 1))["steps"][0] | {"risk_level": "HIGH", "rollback_hint": "git checkout"}
        return self.publish(tenant, repo, 1, steps=[step], approvals=["HIGH"])

    def specs(self, plan_id: str) -> list[dict[str, Any]]:
        """Take what is new in the queue for a plan; what is for others is kept for them."""
        for spec in fleet.read(self.redis, 1000) if self.redis.exists(fleet.QUEUE) else []:
            self.unread.setdefault(spec["plan_id"], []).append(spec)
        return self.unread.pop(plan_id, [])

    def spec(self, plan_id: str) -> dict[str, Any]:
        (spec,) = wait_until(lambda: self.specs(plan_id), what=f"a spec of {plan_id}")
        return spec

    def beat(self, spec: dict[str, Any]) -> str:
        """Ask as a controller does whether the attempt is wanted."""
        beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], "ctl-1")
        return str(functions.call(self.redis, *beat)[0].decode())

    def state(self, plan_id: str) -> str:
        found: Any = self.redis.hget(HOME.plan(plan_id).plan, "state")
        return str(found.decode())

    def live(self, plan_id: str) -> dict[str, Any]:
        found: Any = self.redis.hget(HOME.plan(plan_id).plan, "live")
        return dict(codec.loads(found))

    def ends(self, plan_id: str, state: str) -> None:
        wait_until(lambda: self.state(plan_id) == state, what=f"{plan_id} {state}")

    def finish(self, plan_id: str) -> None:
        """Answer every step until the plan is complete."""

        def over() -> bool:
            fleet.answer(self.redis, self.specs(plan_id))
            return self.state(plan_id) == "COMPLETED"

        wait_until(over, what=f"{plan_id} completed")

    def order(self, stream: str = keys.COMMANDS, **said: Any) -> str:
        """Publish an order as any client may; returns its id."""
        order = {"command_id": uuid.uuid4().hex, "actor": "ada", "reason": "why", **said}
        self.redis.xadd(stream, {"data": codec.dumps(order)})
        return str(order["command_id"])

    def answers(self, command_id: str) -> list[str]:
        """What was told of an order, in turn: obeyed, refused, known."""
        events: Any = self.redis.xrange(HOME.events)
        told = [(fields[b"type"].decode(), codec.loads(fields[b"data"])) for _, fields in events]
        return [kind.split(".")[3] for kind, data in told if data.get("command_id") == command_id]

    def answer(self, command_id: str) -> str:
        return str(wait_until(lambda: self.answers(command_id), what="the order is answered")[-1])

    def planner(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*words], env={"PLANNER_REDIS_URL": self.worker_url, "COLUMNS": "200"})
        return result.exit_code, result.output

    @property
    def worker_url(self) -> str:
        """The server itself, without the proxy."""
        kwargs = self.redis.connection_pool.connection_kwargs
        return f"redis://{kwargs['host']}:{kwargs['port']}/{kwargs['db']}"


@pytest.fixture(scope="module")
def site(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One worker for the module, on the emptied server."""
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    log = tmp_path_factory.mktemp("commands") / "worker.log"
    with running_proxy(server_url) as proxy, hasty_worker(proxy.url, server_url, log, pool="prefork") as worker:
        yield Site(proxy, worker)


@pytest.fixture(params=["cli", "stream"])
def give(request: pytest.FixtureRequest, site: Site) -> Give:
    """Give a wide order by the command line, or by the stream; returns what became of it."""

    def by_cli(name: str, scope: str, target: str | None, **more: str) -> str:
        aim = ["--all"] if scope == "all" else [f"--{scope}", str(target)]
        yes = ["--yes"] if name in ("halt", "cancel") else []
        code, said = site.planner(name, *aim, *yes, "--actor", "ada", "--reason", "why")
        assert code in (0, 1), said
        return "refused" if code else "obeyed"

    def by_stream(name: str, scope: str, target: str | None) -> str:
        return site.answer(site.order(command=name, scope=scope, target=target))

    return by_cli if request.param == "cli" else by_stream


@pytest.fixture(params=["repository", "tenant", "all"])
def wide(request: pytest.FixtureRequest) -> tuple[str, str | None, str, str]:
    """A scope with its target, and the tenant and the repository of plans that are in it."""
    tenant = f"tenant-{next(NUMBERS)}"
    repo = f"{tenant}/shop"
    return request.param, {"repository": repo, "tenant": tenant, "all": None}[request.param], tenant, repo


def test_a_wide_pause_holds_what_runs_and_what_is_yet_to_come_until_it_is_lifted(
    site: Site, give: Give, wide: tuple[str, str | None, str, str]
) -> None:
    scope, target, tenant, repo = wide
    runs = site.publish(tenant, repo)
    spec = site.spec(runs)

    assert give("pause", scope, target) == "obeyed"
    later = site.publish(tenant, repo)
    wait_until(lambda: site.beat(spec) == "pause", what="the controller hears of it")
    fleet.answer(site.redis, [spec])
    wait_until(lambda: site.live(runs)["counts"].get("DONE") == 1, what="the outcome is applied")
    assert site.specs(runs) == site.specs(later) == []
    shown = codec.loads(site.planner("show", later, "--json")[1])
    assert (shown["state"], shown["paused"]) == ("READY", True)
    assert shown["paused_by"].endswith("by ada: why")
    assert "paused: pause of" in site.planner("explain", runs)[1]

    assert give("resume", scope, target) == "obeyed"
    site.finish(runs)
    site.finish(later)
    assert give("resume", scope, target) == "refused"


def test_a_wide_halt_ends_what_runs_what_waits_and_what_is_yet_to_come(
    site: Site, give: Give, wide: tuple[str, str | None, str, str]
) -> None:
    scope, target, tenant, repo = wide
    runs, waits = site.publish(tenant, repo), site.waiting(tenant, repo)
    spec = site.spec(runs)
    assert site.beat(spec) == "continue"

    assert give("halt", scope, target) == "obeyed"
    site.ends(runs, "HALTED")
    site.ends(waits, "HALTED")
    assert site.beat(spec) == "cancel"
    later = site.publish(tenant, repo)
    assert site.state(later) == "HALTED"
    halt: Any = site.redis.hget(HOME.plan(later).plan, "halt")
    assert (
        codec.loads(halt)["evidence"].items()
        >= {"actor": "ada", "scope": f"{scope}:{target}" if target else "all"}.items()
    )

    assert give("resume", scope, target) == "obeyed"
    site.finish(site.publish(tenant, repo))
    assert site.specs(later) == []


def test_a_wide_cancel_ends_what_is_there_and_nothing_later(
    site: Site, give: Give, wide: tuple[str, str | None, str, str]
) -> None:
    scope, target, tenant, repo = wide
    runs, waits = site.publish(tenant, repo), site.waiting(tenant, repo)

    assert give("cancel", scope, target) == "obeyed"
    site.ends(runs, "HALTED")
    site.ends(waits, "HALTED")

    site.finish(site.publish(tenant, repo))


def test_an_order_leaves_the_plans_of_others_alone(site: Site) -> None:
    other = site.publish("others", "others/shop")
    ours = site.publish("ours", "ours/shop")

    assert site.answer(site.order(command="halt", scope="tenant", target="ours")) == "obeyed"
    site.ends(ours, "HALTED")

    site.finish(other)


def test_an_order_that_comes_twice_is_obeyed_once(site: Site) -> None:
    said = {"command_id": "twice", "command": "halt", "scope": "tenant", "target": "twice"}
    site.order(**said)
    assert site.answer("twice") == "obeyed"
    site.answer(site.order(command="resume", scope="tenant", target="twice"))

    site.order(**said)

    wait_until(lambda: site.answers("twice") == ["obeyed", "known"], what="the second one is known")
    site.finish(site.publish("twice", "twice/shop"))


def test_orders_find_their_place_from_the_stream_of_the_other_kind(site: Site) -> None:
    plan_id = site.publish("astray", "astray/shop")

    pause = site.order(command="pause", scope="plan", plan_id=plan_id)
    assert site.answer(pause) == "obeyed"
    assert site.live(plan_id)["paused"] == "ada: why"
    halt = site.order(HOME.commands, command="halt", scope="tenant", target="astray")

    assert site.answer(halt) == "obeyed"
    site.ends(plan_id, "HALTED")


def test_an_order_before_the_first_step_of_a_plan_is_obeyed(site: Site) -> None:
    plan_id = site.waiting("early", "early/shop")

    assert site.answer(site.order(HOME.commands, command="pause", scope="plan", plan_id=plan_id)) == "obeyed"
    step = site.live(plan_id)["waits"].popitem()[0]
    assert site.planner("approve", plan_id, step)[0] == 0
    assert (site.state(plan_id), site.specs(plan_id)) == ("READY", [])
    assert site.planner("cancel", plan_id, "--reason", "not needed")[0] == 0

    site.ends(plan_id, "HALTED")


def test_a_wide_pause_ends_by_itself(site: Site) -> None:
    plan_id = site.waiting("lapse", "lapse/shop")

    assert site.planner("pause", "--tenant", "lapse", "--until", "1h")[0] == 0
    wait_until(lambda: site.live(plan_id).get("held"), what="held")
    assert site.planner("pause", "--tenant", "lapse", "--until", "2s")[0] == 0  # sooner: the last one counts

    wait_until(lambda: not site.live(plan_id).get("held"), what="released")
    later = site.publish("lapse", "lapse/shop")
    site.finish(later)


def test_a_pause_and_a_resume_in_a_row_never_leave_a_plan_behind(site: Site) -> None:
    plans = [site.publish("hasty", "hasty/shop") for _ in range(5)]
    for _ in range(20):
        site.order(command="pause", scope="tenant", target="hasty")
        last = site.order(command="resume", scope="tenant", target="hasty")

    assert site.answer(last) == "obeyed"
    for plan_id in plans:
        site.finish(plan_id)


def test_a_step_is_tightened_from_the_command_line(site: Site) -> None:
    plan_id = site.publish("narrow", "narrow/shop", 3)
    spec = site.spec(plan_id)
    assert site.planner("tighten", plan_id, "step-00002", "--file", "src/f9.py")[0] == 1
    code, told = site.planner("tighten", plan_id, "--file", "src/f0.py", "--file", "src/f9.py")
    assert (code, "no step of the plan has src/f9.py" in told) == (1, True)
    assert site.planner("tighten", plan_id, "step-00002", "--risk", "med")[0] == 0

    assert site.planner("tighten", plan_id, "--file", "src/f0.py", "--file", "src/f1.py")[0] == 0
    fleet.answer(site.redis, [spec])
    fleet.answer(site.redis, [site.spec(plan_id)])

    site.ends(plan_id, "HALTED")
    shown = codec.loads(site.planner("show", plan_id, "--json")[1])
    assert [step["state"] for step in shown["steps"]] == ["DONE", "DONE", "SKIPPED"]


def test_nothing_is_asked_yet_that_could_be_answered(site: Site) -> None:
    plan_id = site.publish("silent", "silent/shop")

    code, said = site.planner("answer", plan_id, "--answer", '{"keep": true}')

    assert (code, said) == (1, "answer: refused, the plan asks nothing\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pause"], "exactly one"),
        (["pause", "3c-1", "--all"], "exactly one"),
        (["halt", "--tenant", "acme", "--repository", "acme/shop"], "exactly one"),
        (["halt", "--all", "--json"], "add --yes"),
        (["pause", "--all", "--until", "soon"], "neither a time"),
        (["pause", "--all", "--until", "2020-01-01T00:00:00Z"], "is over"),
        (["tighten", "3c-1"], "Give --file"),
        (["top-up", "--tenant", "acme", "--patch-cycles", "3"], "tokens alone"),
        (["answer", "3c-1"], "Give a FILE, or --answer"),
        (["answer", "3c-1", "page.md", "--answer", "yes"], "Give a FILE, or --answer"),
        (["answer", "3c-1", "no-such-page.md"], "No such file"),
    ],
)
def test_an_order_that_makes_no_sense_is_not_sent(site: Site, words: list[str], told: str) -> None:
    code, said = site.planner(*words)

    assert code == 2
    assert told in said


def test_a_halt_of_all_asks_first(site: Site) -> None:
    result = CliRunner().invoke(app, ["halt", "--all"], input="n\n", env={"PLANNER_REDIS_URL": site.worker_url})

    assert result.exit_code == 1
    assert "Halt every plan there is?" in result.output
    site.finish(site.publish("asked", "asked/shop"))


def test_a_day_budget_that_is_not_set_cannot_be_topped_up(site: Site) -> None:
    code, said = site.planner("top-up", "--tenant", "acme", "--tokens", "5")

    assert (code, said) == (1, "top_up: refused, tenant:acme has no day budget\n")


@pytest.mark.long
@pytest.mark.outages
def test_a_worker_killed_in_the_middle_of_a_wide_halt_leaves_no_plan_running(site: Site) -> None:
    goals = site.redis.pipeline(transaction=False)
    for number in range(600):
        goal = codec.loads(fleet.goal(number, 1)) | {"goal_id": f"many-{number}", "tenant": "many"}
        goals.xadd(keys.GOALS, {"data": codec.dumps(goal)})
    goals.execute()
    wait_until(lambda: site.redis.hget(HOME.tenants, "many") == b"600", what="600 plans")
    trap = site.proxy.trap(r"^FCALL planner_remind", then=lambda: kill_child(site))

    halt = site.order(command="halt", scope="tenant", target="many")
    assert trap.sprung.wait(60), "no plan was told"

    assert site.answer(halt) == "obeyed"
    wait_until(lambda: not site.redis.hexists(HOME.tenants, "many"), what="every plan has ended")
    wait_until(lambda: not site.redis.exists(keys.COMMANDS_LOCK), what="the lock is let go")


def kill_child(site: Site) -> None:
    """Kill the process that does the worker's work."""
    for pid in children(site.worker.process.pid):
        os.kill(pid, signal.SIGKILL)
