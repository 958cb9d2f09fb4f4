"""`python -m tests.bench.profile`: where the microseconds of a plain outcome go, in a worker and in its server.

The engine runs in this process on the outcomes of many plans, and is interrupted some thousand times a second: the CPU
since the last time counts for the module of ours that is at work, with all that this has called in C. What the server
spends is told by its own counters of commands, which count those of a function, too: wall times, so that the machine
has to be quiet.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from redis import Redis

from schemas import codec
from tests.bench import fleet, plan_sizes, servers
from tests.bench.fleet import Fleet
from worker.host.garbage import collect_seldom
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import clients, deployment, functions, keys
from worker.streams.inbox import Inbox

PLANS, STEPS = 500, 10
SKIPPED = 2  # rounds before the measured ones: each plan is read with its first outcome
EVERY_S = 0.0005
OURS = ("worker", "tasks", "schemas")
LUA, REST = "Lua: matching, joining, calling", "the rest: sockets, protocol, append-only file"
PIECES = {  # by module, the longest name that fits
    "worker.streams": "reading: outcomes are decoded and sorted by plan",
    "worker.engine.router": "reading: outcomes are decoded and sorted by plan",
    "schemas.plain_outcome": "reading: outcomes are decoded and sorted by plan",
    "tasks": "deciding: guards, budgets, steps to start, the spec, two events, the log line",
    "schemas.stored.step": "looking at the step that starts, once a step",
    "schemas": "deciding: guards, budgets, steps to start, the spec, two events, the log line",
    "worker.store.functions": "sending and receiving: packing, sockets, parsing replies",
    "worker.store.commit_calls": "laying out the commits",
    "worker": "bookkeeping: copies of plans, counters, batches",
}


class Samples:
    """The CPU of this thread, seconds by module of ours."""

    def __init__(self) -> None:
        self.of: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0

    def take(self, _: int, frame: FrameType | None) -> None:
        """Count what was spent since the last time for the innermost frame of ours."""
        now = time.thread_time()
        while frame is not None:
            name = str(frame.f_globals.get("__name__"))
            if name.split(".")[0] in OURS:
                self.of[name] += now - self._last
                break
            frame = frame.f_back
        self._last = time.thread_time()  # without this

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Sample while the block runs."""
        before, self._last = signal.signal(signal.SIGALRM, self.take), time.thread_time()
        signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def measure(live: int = 0) -> dict[str, Any]:
    """Apply outcomes beside so many live plans that nothing happens to.

    Tells the microseconds of each by piece of the worker, and the calls and microseconds by command of the server.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running("embedded", Path(folder)) as url,
        clients.connect(url, 60) as client,
        Fleet(client, 1) as controllers,
    ):
        here = Container(Settings(redis_url=url))
        functions.load(here.client)
        deployment.join(here.client, 1)
        here.goals.create_group()
        Inbox(here.client, keys.Partition(0).outcomes, "", here.name).create_group()
        for number in range(PLANS):
            client.xadd(keys.GOALS, {"data": fleet.goal(number, STEPS)})
        while here.goal_consumer.drain():
            pass
        if live:
            (model,) = client.zrange(keys.Partition(0).plans, 0, 0)
            plan_sizes.copy(client, model, live)
        samples, done = Samples(), 0
        spent: Counter[str] = Counter()
        for turn in range(STEPS - 1):  # without the last outcome of each plan, which ends it
            specs = [spec for _ in range(PLANS // 256 + 1) for spec in controllers.read(256, 200)]
            controllers.answer(specs)
            before = _server(client)
            if turn < SKIPPED:
                here.context(0).engine.drain()
                continue
            with samples.taken():
                here.context(0).engine.drain()
            spent.update(_server(client) - before)
            done += len(specs)
        return _figures(samples.of, spent, done)


def _server(client: Redis) -> Counter[str]:
    """Read what the server has spent: `us NAME` and `calls NAME` of each command, and `us` of CPU in all."""
    found: Counter[str] = Counter()
    stats: Any = client.info("commandstats")
    for name, said in stats.items():
        command = name.removeprefix("cmdstat_").replace("|", " ")
        found[f"us {command}"], found[f"calls {command}"] = int(said["usec"]), int(said["calls"])
    cpu: Any = client.info("cpu")
    found["us"] = round((cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1e6)
    return found


def _figures(samples: Mapping[str, float], spent: Mapping[str, int], outcomes: int) -> dict[str, Any]:
    modules = {name: seconds * 1e6 / outcomes for name, seconds in sorted(samples.items(), key=lambda pair: -pair[1])}
    pieces: defaultdict[str, float] = defaultdict(float)
    for module, us in modules.items():
        pieces[_piece(module)] += us
    used = {name[3:]: us for name, us in spent.items() if name.startswith("us ") and us}
    calls, read = used.pop("fcall", 0), used.get("xreadgroup", 0)
    for aside in ("info", "ping"):
        used.pop(aside, None)
    pairs = sorted(used.items(), key=lambda pair: -pair[1])
    commands = [
        {"command": name, "calls": spent[f"calls {name}"] / outcomes, "us": us / outcomes} for name, us in pairs
    ]
    in_functions = sum(used.values()) - read
    return {
        "outcomes": outcomes,
        "worker": dict(sorted(pieces.items(), key=lambda pair: -pair[1])),
        "modules": modules,
        "server": {
            "us": spent["us"] / outcomes,
            "commands": commands,
            LUA: (calls - in_functions) / outcomes,
            REST: (spent["us"] - calls - read) / outcomes,
        },
    }


def _piece(module: str) -> str:
    fits = [name for name in PIECES if module == name or module.startswith(name + ".")]
    return PIECES[max(fits, key=len)]


def table(figures: Mapping[str, Any]) -> Iterator[str]:
    """Write what `main` prints with --json as tables of Markdown, line by line."""
    columns = [figures["alone"], *([figures["beside"]] if "beside" in figures else [])]
    heads = [
        "us an outcome",
        *([f"with {figures['live']:,} live plans".replace(",", " ")] if len(columns) > 1 else []),
    ]

    def row(name: str, values: Iterable[float]) -> str:
        return f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |"

    yield f"| worker: piece | {' | '.join(heads)} |"
    yield f"|---|{'--:|' * len(heads)}"
    for piece in columns[0]["worker"]:
        yield row(piece, [each["worker"].get(piece, 0.0) for each in columns])
    yield row("all", [sum(each["worker"].values()) for each in columns])
    yield ""
    yield f"| server: command | calls | {' | '.join(heads)} |"
    yield f"|---|--:|{'--:|' * len(heads)}"
    used = [{one["command"]: one["us"] for one in each["server"]["commands"]} for each in columns]
    for one in columns[0]["server"]["commands"]:
        yield row(f"{one['command'].upper()} | {one['calls']:.2f}", [each.get(one["command"], 0.0) for each in used])
    for name in (LUA, REST):
        yield row(f"{name} | ", [each["server"][name] for each in columns])
    yield row("all | ", [each["server"]["us"] for each in columns])


def main() -> None:
    """Print where the microseconds go, once more beside live plans where so many are wanted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.profile", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="once more, beside N live plans")
    parser.add_argument("--json", action="store_true", help="figures for scripts, by module too")
    asked = parser.parse_args()
    collect_seldom()  # as a worker does
    figures: dict[str, Any] = {"alone": measure()}
    if asked.beside:
        figures |= {"live": asked.beside, "beside": measure(asked.beside)}
    told = codec.dumps(figures).decode() if asked.json else "\n".join(table(figures))
    sys.stdout.write(told + "\n")


if __name__ == "__main__":
    main()
