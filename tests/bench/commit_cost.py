"""`python -m tests.bench.commit_cost`: what the commit of one outcome has the server do, by its own MONITOR.

One plan runs in this process. The counts do not depend on how busy the machine is.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from hiredis import pack_command
from redis import Redis

from schemas import codec
from tests.bench import fleet, servers
from tests.bench.fleet import HOME
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import clients, deployment, functions, keys
from worker.streams.inbox import Inbox

FAILURE = {"success": False, "tests_passed": False, "failure_evidence": {"category": "TYPE_ERROR"}}
BEFORE = 3  # outcomes of the plan that come first: by then nothing is read any more


class Cost(NamedTuple):
    """What one commit took."""

    outcome: str
    commands: Counter[str]
    sent: int  # bytes of the call, as they go over the wire

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {count}" for name, count in sorted(self.commands.items()))
        return f"{self.outcome}: {self.commands.total()} commands, {self.sent} bytes ({counted})"


def measure() -> list[Cost]:
    """Have a plain success, a failure, the success after it, and the success that ends the plan committed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running("embedded", Path(folder)) as url,
        clients.connect(url, 60) as client,
    ):
        here = Container(Settings(redis_url=url))
        functions.load(here.client)
        deployment.join(here.client, 1)
        here.goals.create_group()
        Inbox(here.client, HOME.outcomes, "", here.name).create_group()
        client.xadd(keys.GOALS, {"data": fleet.goal(0, BEFORE + 3)})
        while here.goal_consumer.drain():
            pass
        for _ in range(BEFORE):
            fleet.answer(client, fleet.read(client, 1))
            here.context(0).engine.drain()
        outcomes = {"plain success": {}, "failure": FAILURE, "success after it": {}, "last success": {}}
        return [_cost(client, here, what, said) for what, said in outcomes.items()]


def _cost(client: Redis, here: Container, what: str, said: dict[str, Any]) -> Cost:
    (spec,) = fleet.read(client, 1)
    client.xadd(HOME.outcomes, {"data": codec.dumps(fleet.outcome(spec) | said)})
    sent: list[int] = []
    commands: Counter[str] = Counter()

    def pack(command: tuple[Any, ...]) -> bytes:
        packed: bytes = pack_command(command)
        if b"planner_commit" in packed[:60]:
            sent.append(len(packed))
        return packed

    with patch.object(functions, "pack_command", pack), client.monitor() as monitor:
        here.context(0).engine.drain()
        client.ping()
        is_within = False
        for seen in monitor.listen():
            words = seen["command"].split(" ", 2)
            if words[0] == "PING":
                break
            if seen["client_type"] == "lua":
                commands[words[0].upper()] += is_within
            else:
                is_within = words[0] == "FCALL" and words[1].startswith("planner_commit")
    return Cost(what, +commands, sum(sent))


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(str, measure())) + "\n")
