"""A store of plans that calls the functions on a real server, with inspection methods for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from schemas import codec
from tasks.plan.hot_plan import HotPlan
from tests.support.plans import PARTITION
from worker.store import functions
from worker.store.commits import Commits
from worker.store.hot_plans import WHOLE_STEPS, HotPlans
from worker.store.keys import GROUP
from worker.store.plans import MAX_QUEUE, Ask, Begun, PlanStore, Write

RETENTION_S = 3600
PAUSE = b'{"actor":"ada","reason":"why","command_id":"c-1","until":0}'


class Real:
    def __init__(self, client: Any, whole_steps: int = WHOLE_STEPS) -> None:
        self.client = client
        self.hot = HotPlans(whole_steps=whole_steps)
        functions.load(client)
        self.commits = Commits(client, PARTITION, None)
        self.max_queue = MAX_QUEUE

    def begin(self, asks: Sequence[Ask], token: str = "me") -> list[Begun]:
        store = PlanStore(self.client, PARTITION, token, RETENTION_S, self.commits, hot=self.hot)
        with store.talk() as talk:
            talk.begin(asks)
            begun = zip(asks, talk.snapshots(asks), strict=True)
            return [talk.view(plan, ask) if isinstance(plan, HotPlan) else plan for ask, plan in begun]

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        return PlanStore(self.client, PARTITION, "me", RETENTION_S, self.commits, self.max_queue).commit(writes)

    def fields(self, key: str) -> dict[str, Any]:
        return {name.decode(): value for name, value in self.client.hgetall(key).items()}

    def members(self, key: str) -> dict[str, int]:
        return {name.decode(): int(score) for name, score in self.client.zrange(key, 0, -1, withscores=True)}

    def listed(self, key: str) -> list[bytes]:
        found: list[bytes] = self.client.lrange(key, 0, -1)
        return found

    def specs(self, queue: str) -> list[dict[str, Any]]:
        return [codec.loads(fields[b"data"]) for _, fields in self.client.xrange(queue)]

    def read(self, stream: str, group: str) -> list[bytes]:
        if group == GROUP:
            self.client.xgroup_create(stream, group, id="0")
        found: Any = self.client.xreadgroup(group, "reader", {stream: ">"})
        return [entry for _, entries in found for entry, _ in entries]

    def pending(self, stream: str, group: str) -> int:
        found: Any = self.client.xpending(stream, group)
        return int(found["pending"])

    def report(self, data: bytes) -> bytes:
        entry: bytes = self.client.xadd(PARTITION.outcomes, {"data": data})
        return entry

    def put(self, key: str, text: str) -> None:
        self.client.delete(key)
        self.client.set(key, text)

    def end_lock(self, plan: str) -> None:
        self.client.hset(PARTITION.plan(plan).plan, "lock", "other 1")

    def goes_in_s(self, key: str) -> int | None:
        left = self.client.ttl(key)
        return left if left >= 0 else None

    def set_field(self, key: str, name: str, value: str) -> None:
        self.client.hset(key, name, value)

    def everything(self) -> dict[str, Any]:
        return {key.decode(): self._value(key) for key in self.client.scan_iter()}

    def _value(self, key: bytes) -> Any:
        readers = {
            b"hash": self.client.hgetall,
            b"zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
            b"list": lambda key: self.client.lrange(key, 0, -1),
            b"stream": lambda key: (self.client.xrange(key), self.client.xinfo_groups(key)),
            b"string": self.client.get,
        }
        return readers[self.client.type(key)](key)
