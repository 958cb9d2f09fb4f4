"""The floor of an outcome's effects: a bare loop that writes what one commit of ours writes, and decides nothing.

The commit is one that a worker made: MONITOR tells its commands. The loop reads outcomes from the same fleet, and has
the writes of up to 16 done by one call. `python -m tests.bench.effects URL` is that loop; its input says what it
writes.
"""

from __future__ import annotations

import ast
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis import Redis

from schemas import codec
from tests.bench import cpu
from tests.bench.fleet import HOME, QUEUE, Fleet, wait_for
from tests.bench.site import Site
from tests.bench.wire import Wire, pack
from worker.store import clients
from worker.store.keys import GROUP

MERGED = 16  # outcomes of a call
BATCH = 256  # outcomes that are read together
APPLIED_BEFORE = 4  # steps of the plan whose next commit is taken
WORD = re.compile(r'"(?:[^"\\]|\\.)*"')
PLAIN = re.compile(rb"[\w:{}.~*-]{1,40}")  # words that stand in the function: no commit has them otherwise
PLAN_ID, OLD, OUTCOME, NEW = b"<plan>", b"<old spec>", b"<outcome>", b"<new spec>"
ONCE_A_CALL = frozenset({b"HINCRBY", b"XTRIM", b"DEL", b"XACK", b"XDEL"})  # whatever the number of plans in it
FUNCTION = """#!lua name=bench_effects
redis.register_function('bench_effects', function(_, a)
  local entries, told = {}, {}
  for i = 0, #a - 1, %(arguments)d do
    %(calls)s
    entries[#entries + 1] = entry
  end
  %(once)s
  return entries
end)
"""


@dataclass(frozen=True, slots=True)
class Commit:
    """The writes of one commit, in order; the names above stand for what differs between two of them."""

    writes: list[list[bytes]]

    @property
    def arguments(self) -> list[bytes]:
        """The words that each commit has of its own, once each."""
        words = [word for write in self.writes for word in write]
        return list(dict.fromkeys(part for word in words for part in word.split(NEW) if part and not _is_plain(part)))

    @property
    def function(self) -> str:
        """The library that does the writes of several, and returns the entries of their specs.

        What a commit of ours does once a call, whatever the number of its plans, is done once here as well.
        """
        place = {word: f"a[i + {at}]" for at, word in enumerate(self.arguments, 1)}

        def expression(word: bytes) -> str:
            parts = re.split(b"(%b)" % NEW, word)
            known = {NEW: "entry", **place}
            return " .. ".join(known.get(part) or f"'{part.decode()}'" for part in parts if part) or "''"

        calls, once = [], []
        for number, write in enumerate(self.writes, 1):
            if write[0].upper() in ONCE_A_CALL:
                same = [expression(word) for word in write if _is_plain(word)]
                own = [expression(word) for word in write if not _is_plain(word)]
                if own:
                    calls.append(f"local m = told[{number}] or {{}}; told[{number}] = m; m[#m + 1] = {own[0]}")
                once.append(f"redis.call({', '.join([*same, *([f'unpack(told[{number}])'] if own else [])])})")
            else:
                call = f"redis.call({', '.join(map(expression, write))})"
                calls.append(f"local entry = {call}" if _adds_spec(write) else call)
        return FUNCTION % {"arguments": len(place), "calls": "\n    ".join(calls), "once": "\n  ".join(once)}

    @property
    def spec(self) -> bytes:
        """The spec that it writes."""
        return next(write[-1] for write in self.writes if _adds_spec(write))


def capture(client: Redis) -> Commit:
    """Have a worker apply one outcome of a plan of 10 steps that is in flight, and take what that wrote."""
    with Fleet(client) as fleet, Wire(client) as monitor:
        specs = fleet.read(1, 5000)
        for _ in range(APPLIED_BEFORE):
            fleet.answer(specs)
            specs = fleet.read(1, 5000)
        monitor.ask(pack("MONITOR"), 1)
        (outcome,) = fleet.answer(specs)
        (new,) = fleet.read(1, 5000)
        mark = secrets.token_hex(8)
        client.echo(mark)
        lines: list[str] = []
        while mark not in (lines or [""])[-1]:
            lines += (line.decode() for line in monitor.receive(1))
        (old,) = specs
        plan_id: str = codec.loads(old.data)["plan_id"]
        left = [new]
        while left:
            fleet.answer(left)
            left = fleet.read(1, 1000)
    entries = {QUEUE.encode(): (old.entry_id, OLD), HOME.outcomes.encode(): (outcome, OUTCOME)}  # they may be equal
    writes = []
    for write in _writes(client, lines, plan_id):
        if write[2:3] == [b"MAXLEN"]:  # the first event of a call cuts their stream: here that is a command of its own
            writes.append([b"XTRIM", write[1], *write[2:5]])
            write = [*write[:2], *write[5:]]
        entry, name = entries.get(write[1], (new.entry_id, NEW))
        writes.append([word.replace(plan_id.encode(), PLAN_ID).replace(entry, name) for word in write])
    return Commit(writes)


def _writes(client: Redis, lines: Iterable[str], plan_id: str) -> list[list[bytes]]:
    """Find the commands that write, of the functions that were told of the plan."""
    found: list[list[bytes]] = []
    is_ours = False
    for line in lines:
        command = [ast.literal_eval("b" + word) for word in WORD.findall(line)]
        if " lua] " in line:
            if is_ours:
                found.append(command)
        else:
            is_ours = command[0].upper() == b"FCALL" and plan_id in line
    flags: Any = client.execute_command("COMMAND")
    return [command for command in found if "write" in flags[command[0].decode().lower()]["flags"]]


def _is_plain(word: bytes) -> bool:
    return bool(PLAIN.fullmatch(word))


def _adds_spec(write: list[bytes]) -> bool:
    return write[:2] == [b"XADD", QUEUE.encode()]


def floor(site: Site, commit: Commit) -> dict[str, float]:
    """Measure the bare loop, with the fleet beside it, on as many plans as ours and with as many outcomes."""
    client, sizes = site.client, site.sizes
    outcomes = sizes.plans * sizes.steps
    client.flushdb()
    client.function_load(commit.function, replace=True)
    client.xgroup_create(HOME.outcomes, GROUP, "0", mkstream=True)
    ids = [b"plan_%02x-%b" % (number % 256, secrets.token_hex(16).encode()) for number in range(sizes.plans)]
    with Fleet(client) as fleet:
        with Wire(client) as wire:
            specs = [pack("XADD", QUEUE, "*", "data", commit.spec.replace(PLAN_ID, plan_id)) for plan_id in ids]
            entries = wire.ask(b"".join(specs), len(specs))
        told = {
            "entries": {plan_id.decode(): entry.decode() for plan_id, entry in zip(ids, entries, strict=True)},
            "arguments": [word.decode("latin-1") for word in commit.arguments],
        }
        command = [sys.executable, "-W", "ignore", "-m", "tests.bench.effects", site.url]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert process.stdin
            process.stdin.write(codec.dumps(told))
            process.stdin.close()
            wait_for(lambda: process.poll() is not None or client.xinfo_consumers(HOME.outcomes, GROUP))
            if process.poll() is not None:
                raise RuntimeError("the bare loop has ended")
            before = cpu.usage(client, process.pid)
            rate = outcomes / fleet.work(outcomes)
            spent = cpu.usage(client, process.pid).us_each(before, outcomes)
            process.terminate()
    client.function_delete("bench_effects")
    client.flushdb()
    return {"effects_floor_per_s": rate, "effects_floor_cpu_us": spent["cpu_us"]}


def _apply(client: Redis, entries: dict[bytes, bytes], arguments: list[bytes]) -> None:
    """Do for every outcome what a commit writes, for ever; `entries` are the specs of plans that are in flight."""
    rendered = {plan_id: [word.replace(PLAN_ID, plan_id) for word in arguments] for plan_id in entries}
    old, outcome = (arguments.index(name) if name in arguments else None for name in (OLD, OUTCOME))
    group = ("GROUP", GROUP, "bench", "COUNT", BATCH, "BLOCK", 100)
    read = pack("XREADGROUP", *group, "STREAMS", HOME.outcomes, ">")
    with Wire(client) as wire:
        (found,) = wire.ask(read, 1)
        while True:
            calls, plans = [], []
            fresh = found[0][1] if found else []
            for first in range(0, len(fresh), MERGED):
                words: list[bytes] = []
                for entry, (_, data) in fresh[first : first + MERGED]:
                    at = data.index(b'"plan_id":"') + 11
                    plan_id = data[at : data.index(b'"', at)]
                    mine = rendered[plan_id]
                    if old is not None:
                        mine[old] = entries[plan_id]
                    if outcome is not None:
                        mine[outcome] = entry
                    words += mine
                    plans.append(plan_id)
                calls.append(pack("FCALL", "bench_effects", 0, *words))
            *replies, found = wire.ask(b"".join([*calls, read]), len(calls) + 1)
            entries.update(zip(plans, (entry for reply in replies for entry in reply), strict=True))


if __name__ == "__main__":
    told = codec.loads(sys.stdin.buffer.read())
    with clients.connect(sys.argv[1], 120) as connected:
        _apply(
            connected,
            {plan_id.encode(): entry.encode() for plan_id, entry in told["entries"].items()},
            [word.encode("latin-1") for word in told["arguments"]],
        )
