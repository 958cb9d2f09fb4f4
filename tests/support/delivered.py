"""A planner, and the change of one of its plans at a forge of the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from schemas.delivered import DeliveryState, DeliveryView
from tests.support import engine, webhooks
from tests.support.engine import drain, plan
from tests.support.forge_life import LifeServer, Pushed
from tests.support.forge_server import TOKEN, playing
from tests.support.messages import answer, report, work
from tests.support.stored import P0
from tests.support.webhooks import by_github, source
from worker.process.container import Container
from worker.store import keys, queries
from worker.webhooks import intake
from worker.webhooks.sources_file import SourcesFile

DELIVERED = '\n[source.delivered]\nrepos = ["acme/shop"]\ntenant = "acme"\nquiet_s = 300\n'
GOAL = {
    "goal": "Fix the total",
    "goal_id": "ci-1",
    "tenant": "acme",
    "allowed_files": ["src/app.py"],
    "context": {"repo": "acme/shop", "base_sha": "a" * 40, "language": "python", "test_command": "pytest"},
    "delivery": {"pull_request": True},
}
EARLIER = "2026-11-28T20:00:00Z"


class Life:
    """A planner in this process, and the change of one of its plans at a forge of the test."""

    def __init__(
        self,
        here: Container,
        redis: Redis,
        forge: LifeServer,
        path: Path,
        *,
        with_webhooks: bool,
        goal: Mapping[str, Any],
    ) -> None:
        self.here, self.redis, self.forge, self.with_webhooks = here, redis, forge, with_webhooks
        self.sources = SourcesFile.read(path)
        (self.plan_id,) = plan(here, redis, {**GOAL, **goal})
        forge.branch = f"planner/{self.plan_id}"
        self.deliver(self.plan_id, "1" * 40)
        self.look()

    def deliver(self, plan_id: str, sha: str) -> None:
        """Play the fleet until the plan has delivered a commit."""
        while work(self.redis):
            drain(self.here)
        landing = self.waiting(plan_id)
        target = landing["context"]["base_sha"]
        report(self.redis, answer(landing, output={"target_sha": target, "result_sha": sha, "conflicts": []}))
        drain(self.here)
        spec = self.waiting(plan_id)
        self.forge.pushed.append(Pushed(sha, f"Fix it\n\nPlan: {plan_id}\nStep: fix\nAttempt: 1"))
        output = {"branch": self.forge.branch, "pull_request": "https://forge.example/acme/shop/pull/7"}
        report(self.redis, answer(spec, output=output))
        drain(self.here)

    def waiting(self, plan_id: str) -> dict[str, Any]:
        """Return the spec of a plan that waits in the queue of deliveries."""
        found: Any = self.redis.xrange(P0.steps("deliver"))
        specs: list[dict[str, Any]] = [codec.loads(fields[b"data"]) for _, fields in found]
        spec = next(each for each in specs if each["plan_id"] == plan_id)
        assert spec["input"].get("onto") == (None if plan_id == self.plan_id else self.plan_id)
        return spec

    def push_to(self, branch: str) -> None:
        """Report a push to a branch of others."""
        said = {"repository": {"id": 1, "full_name": "acme/shop"}, "ref": f"refs/heads/{branch}", "after": "9" * 40}
        headers, raw = by_github("push", said, f"d-{time.monotonic_ns()}")
        intake.take(self.here.client, self.sources.source[0], headers, raw, time.time())

    def follow_up(self, sha: str) -> dict[str, Any]:
        """Have the goal of a follow-up planned and played; returns the goal."""
        found: Any = self.redis.xrange(keys.GOALS)
        goal: dict[str, Any]
        (goal,) = [codec.loads(fields[b"data"]) for _, fields in found]
        plan(self.here, self.redis)
        said = queries.goal(self.here.client, goal["goal_id"], "acme")
        assert said
        assert (said.verdict, said.reason) == ("PLANNED", ""), said.halt_reason
        self.deliver(said.plan_id, sha)
        self.look()
        return goal

    def happens(self, event: str = "pull_request", **payload: Any) -> DeliveryView:
        """Report an event by a webhook, or have polling find it; return the state of the delivery afterwards."""
        if self.with_webhooks:
            about = self.sources.source[0]
            repository = {"id": 1, "full_name": "acme/shop"}
            said = {"repository": repository, "pull_request": {"head": {"ref": self.forge.branch}}, **payload}
            headers, raw = by_github(event, said, f"d-{time.monotonic_ns()}")
            if about.scheme == "gitlab":
                said = {"object_kind": "merge_request", "project": {"path_with_namespace": "acme/shop"}}
                raw = codec.dumps(said | {"object_attributes": {"source_branch": self.forge.branch}})
                headers = {"x-gitlab-token": webhooks.SECRET}
            told = intake.take(self.here.client, about, headers, raw, time.time())
            assert (told.goal_id, told.ignored) == (None, "delivered: its change is looked at")
            self.here.webhook_jobs.drain()
        else:
            self.look()
        return self.view

    def look(self) -> None:
        """Make the waiting jobs due now, with a look at the forge, and run them."""
        self.redis.hset(keys.delivered(self.plan_id), "looked", 0)
        for job, _ in self.redis.zscan_iter(keys.WEBHOOK_LATER):
            self.redis.zadd(keys.WEBHOOK_LATER, {job: 0})
        self.here.webhook_jobs.drain()

    def state(self) -> DeliveryState:
        return self.view.state

    @property
    def view(self) -> DeliveryView:
        found = queries.summary(self.here.client, 1, self.plan_id)
        assert found
        assert found.delivery
        return found.delivery

    def told(self, what: str) -> list[tuple[str, str]]:
        entries: Any = self.redis.xrange(P0.events)
        found = [codec.loads(fields[b"data"]) for _, fields in entries if what.encode() in fields[b"type"]]
        return [(each["from"], each["to"]) for each in found]


Begin = Callable[..., Life]


@pytest.fixture
def begin(redis_url: str, redis: Redis, tmp_path: Path) -> Iterator[Begin]:
    (tmp_path / "token").write_text(TOKEN + "\n")
    opened: list[Any] = []

    def made(
        scheme: str,
        *,
        with_webhooks: bool = False,
        more: str = DELIVERED,
        goal: Mapping[str, Any] = MappingProxyType({}),
        **forge: Any,
    ) -> Life:
        serving = playing(LifeServer(**forge))
        server = serving.__enter__()
        text = f'app = "our-app"\napi = "{server.url}/{scheme}"\ntoken_file = "token"'
        path = webhooks.write(tmp_path, source("forge", scheme, more, more=text))
        here = engine.container(redis_url, webhooks_file=path)
        opened.extend((serving, here))
        return Life(here.__enter__(), redis, server, path, with_webhooks=with_webhooks, goal=goal)

    yield made
    for each in opened:
        each.__exit__(None, None, None)
