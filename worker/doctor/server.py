"""Checks of the server: its promises, the rights of its user, its functions, its streams and timers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from schemas import codec
from worker.doctor.finding import Finding, FindingSeverity, RedisCommand, Repair, Site, ask_together, many
from worker.store import fleet, functions, keys
from worker.store.clients import LEAST, now_ms, version_of
from worker.store.dead import places
from worker.store.keys import CONTROLLERS, GROUP, Partition
from worker.store.memory import STEPS_UP_TO, refused_at, share_of
from worker.store.owners import owners as find_owners
from worker.streams.fair_inbox import WAITING

SHOWN = 5
PAGE = 200
UNREAD_MS = 60_000  # a step that no controller asked for in this time
LATE_MS = 300_000  # a timer that no worker handles for this time
UNOWNED_MS = 10_000  # time that outcomes wait after a worker's death; another one takes its partitions sooner
IDLE_FACTOR = 4  # times the idle time after which entries are taken over


def version(site: Site) -> Iterator[Finding]:
    """Find a server that is too old for the planner's functions."""
    info: Any = site.client.info("server")
    name = "valkey" if "valkey_version" in info else "redis"
    known = str(info.get(f"{name}_version", ""))
    if version_of(known) < LEAST[name]:
        least = ".".join(map(str, LEAST[name]))
        yield Finding("server.version", name, f"It is {name} {known}.", f"Run {name} {least} or newer.")


def policy(site: Site) -> Iterator[Finding]:
    """Find a server that may evict the planner's data."""
    info: Any = site.client.info("memory")
    found = str(info.get("maxmemory_policy", "noeviction"))
    if found != "noeviction":
        sentence = f"maxmemory-policy is {found}: plans, locks and budgets may vanish."
        yield Finding("server.eviction", "maxmemory-policy", sentence, "Set maxmemory-policy noeviction.")


def memory(site: Site) -> Iterator[Finding]:
    """Find a server with full or almost full memory, and report the share of dead letters."""
    info: Any = site.client.info("memory")
    share = share_of(info)
    if refused := refused_at(share):
        dead = sum(site.client.memory_usage(place.key, samples=0) or 0 for place in places(site.partitions))
        part = dead / int(info["maxmemory"])
        sentence = f"{share:.0%} of maxmemory is in use: {refused}. Dead entries take {part:.0%}."
        do = "Drop dead entries (planner dead drop), end plans (planner halt), or raise maxmemory."
        severity = FindingSeverity.ERROR if share >= STEPS_UP_TO else FindingSeverity.WARNING
        yield Finding("server.memory", "maxmemory", sentence, do, severity)


def append_only_file(site: Site) -> Iterator[Finding]:
    """Find a server that would lose acknowledged data, or that cannot write it at the moment."""
    info: Any = site.client.info("persistence")
    if not int(info.get("aof_enabled", 0)):
        sentence = "There is no append-only file: a restart loses plans and outcomes."
        yield Finding("server.aof", "appendonly", sentence, "Set appendonly yes.")
    elif info.get("aof_last_write_status", "ok") != "ok":
        sentence = "The last write to the append-only file failed."
        yield Finding("server.aof", "appendonly", sentence, "See the server's log, and whether its disk is full.")


def rights(site: Site) -> Iterator[Finding]:
    """Find rights that the planner needs and this user lacks, without executing the commands."""
    whoami: Any = site.client.execute_command("ACL", "WHOAMI")
    user = whoami.decode()
    refused = []
    for command in _needed():
        answer: Any = site.client.execute_command("ACL", "DRYRUN", user, *command)
        if answer != b"OK":
            refused.append(command)
    if refused:
        names = [" ".join(str(word) for word in command[:2]) for command in refused]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield Finding(
            "server.rights",
            user,
            f"The user {user} may not: {', '.join(names[:SHOWN])}{more}.",
            "Run the doctor as the workers' user; if this is it, give it the rights in docs/deployment.md.",
            FindingSeverity.WARNING,
        )


def _needed() -> Iterator[tuple[str, ...]]:
    """Yield one command for each family of keys and each right; functions run with the rights of their caller."""
    part = Partition(0)
    plan = part.plan("plan_00-0")
    for stream in (keys.GOALS, part.outcomes, part.commands):
        yield "XREADGROUP", "GROUP", GROUP, "doctor", "STREAMS", stream, ">"
        yield "XADD", stream, "*", "data", "x"
        yield "XACK", stream, GROUP, "1-1"
        yield "XDEL", stream, "1-1"
        yield "XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM"
        yield "XAUTOCLAIM", stream, GROUP, "doctor", "0", "0-0"
    for stream in (keys.GOALS_DEAD, keys.COMMANDS_DEAD, part.dead, part.events, part.steps("default")):
        yield "XADD", stream, "*", "data", "x"
    yield "MEMORY", "USAGE", part.dead
    yield "XGROUP", "CREATE", part.steps("default"), CONTROLLERS, "0", "MKSTREAM"
    goals = (keys.goal_id("x"), keys.goal_id("x", "y"))
    for key in (*goals, plan.plan, plan.steps, plan.status, plan.active, part.lease_prefix("x") + "y"):
        yield "HSET", key, "a", "b"
        yield "EXPIRE", key, "1"
    yield "ZADD", plan.ready, "1", "a"
    yield "ZADD", part.timers, "1", "a"
    yield "ZADD", part.plans, "1", "a"
    yield "RPUSH", plan.log, "a"
    yield "LTRIM", plan.todo, "0", "0"
    yield "FCALL", functions.BEGIN, "1", plan.plan
    yield "FUNCTION", "LOAD", "x"
    yield ("INFO",)
    yield ("TIME",)


def libraries(site: Site) -> Iterator[Finding]:
    """Find function libraries that are missing, or of another version."""
    found: Any = site.client.execute_command("FUNCTION", "LIST", "WITHCODE")
    loaded = {}
    for flat in found:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        loaded[fields[b"library_name"].decode()] = fields[b"library_code"].decode()
    for library in functions.LIBRARIES:
        source = functions.source(library)
        if library not in loaded:
            repair = Repair((("FUNCTION", "LOAD", "REPLACE", source),))
            sentence = "The function library is not loaded: nothing can be decided."
            do = "Start a worker, which loads it."
            yield Finding("server.functions", library, sentence, do, repair=repair)
        elif loaded[library] != source:
            sentence = "The function library that is loaded is that of another version than ours."
            do = "Restart the workers with one version, the newest last; and run the doctor of that version."
            yield Finding("server.functions", library, sentence, do, FindingSeverity.WARNING)


def inbound(site: Site) -> Iterator[Finding]:
    """Check every stream that the planner reads."""
    streams = [keys.GOALS]
    for number in range(site.partitions):
        streams += (Partition(number).outcomes, Partition(number).commands)
    if site.client.exists(keys.COMMANDS):
        streams.append(keys.COMMANDS)
    for stream in streams:
        yield from _group(site, stream, GROUP)
        yield from _left_behind(site, stream)


def _group(site: Site, stream: str, group: str) -> Iterator[Finding]:
    exists = site.client.exists(stream)
    groups: Any = site.client.xinfo_groups(stream) if exists else []
    if group.encode() not in {each["name"] for each in groups}:
        what = f"The stream has no group `{group}`" if exists else "There is no such stream"
        repair = Repair((("XGROUP", "CREATE", stream, group, "0", "MKSTREAM"),))
        do = "Start a worker, which makes it; or planner doctor --fix."
        yield Finding("stream.group", stream, f"{what}: no consumer can read it.", do, FindingSeverity.WARNING, repair)


def _left_behind(site: Site, stream: str) -> Iterator[Finding]:
    """Find entries that a silent consumer has read and not finished, and that no worker takes over."""
    if not site.client.exists(stream):
        return
    groups: Any = site.client.xinfo_groups(stream)
    if GROUP.encode() not in {each["name"] for each in groups}:
        return
    limit = max(LATE_MS, IDLE_FACTOR * site.claim_idle_ms)
    consumers: Any = site.client.xinfo_consumers(stream, GROUP)
    for one in consumers:
        if one["pending"] and one["idle"] > limit and one["name"] != WAITING.encode():
            name = one["name"].decode(errors="replace")
            silent = one["idle"] // 1000
            sentence = f"Entries that {name} read and did not finish: {one['pending']}. It is silent for {silent} s."
            do = "Start a worker: it takes over the entries that a dead one had read."
            yield Finding("stream.left", stream, sentence, do, FindingSeverity.WARNING)


def owners(site: Site) -> Iterator[Finding]:
    """Find partitions that have waiting outcomes and no owner."""
    for number, owner in find_owners(site.client, site.partitions).items():
        stream = Partition(number).outcomes
        if owner or not site.client.exists(stream):
            continue
        groups: Any = site.client.xinfo_groups(stream)
        read = next((each["last-delivered-id"] for each in groups if each["name"] == GROUP.encode()), b"0-0")
        unread: Any = site.client.xrange(stream, min=b"(" + read, count=1)
        waits_ms = now_ms(site.client) - int(unread[0][0].partition(b"-")[0]) if unread else 0
        if waits_ms > UNOWNED_MS:
            sentence = f"Outcomes have waited for {waits_ms // 1000} s, and no worker owns the partition."
            do = "Start a worker that consumes planner.outcomes."
            yield Finding("partition.unowned", stream, sentence, do, FindingSeverity.WARNING)


def timers(site: Site) -> Iterator[Finding]:
    """Find timers that ran out long ago, because no worker reads timers."""
    late = now_ms(site.client) - LATE_MS
    for number in range(site.partitions):
        part = Partition(number)
        count = site.client.zcount(part.timers, "-inf", late)
        if count:
            sentence = (
                f"{many(count, 'timer')} ran out more than {LATE_MS // 60_000} minutes ago: no worker reads timers."
            )
            do = "Start a worker that consumes planner.outcomes and planner.upkeep."
            yield Finding("timers.late", part.timers, sentence, do, FindingSeverity.WARNING)


def queue(site: Site, stream: str, pages: float = math.inf) -> Iterator[Finding]:
    """Check a queue of step specs: its group, and whether each spec in the oldest `pages` pages has an attempt."""
    yield from _group(site, stream, CONTROLLERS)
    first = "-"
    while True:
        page: Any = site.client.xrange(stream, min=first, count=PAGE)
        yield from _strays(site, stream, page)
        pages -= 1
        if len(page) < PAGE or pages <= 0:
            return
        first = "(" + page[-1][0].decode()


def _strays(site: Site, stream: str, page: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Iterator[Finding]:
    """Find specs without a live attempt.

    One commit writes a spec with its attempt, and one commit ends both. So a spec without its attempt will never
    get one.
    """
    number = int(stream.partition("{")[2].partition("}")[0])
    specs = [(entry, _owner(Partition(number), fields)) for entry, fields in page]
    asked: list[RedisCommand] = []
    for entry, owner in specs:
        asked += [("XRANGE", stream, entry, entry), ("HGET", *(owner or (stream + ":nobody", "")))]
    answers = ask_together(site.client, asked)
    for (entry, owner), still, record in zip(specs, answers[::2], answers[1::2], strict=True):
        if not still or (record or b"").startswith(entry + b" "):
            continue
        name, repair = entry.decode(), None
        if owner:
            repair = Repair((("XACK", stream, CONTROLLERS, name), ("XDEL", stream, name)))
            sentence = f"The spec {name} belongs to no live attempt: a controller would work for nothing."
        else:
            sentence = f"The entry {name} is no step spec of the planner's."
        yield Finding("queue.stray", stream, sentence, f"XDEL {stream} {name}", FindingSeverity.WARNING, repair)


def _owner(part: Partition, fields: dict[bytes, bytes] | None) -> tuple[str, str] | None:
    """Return the key and the field of the attempt that a spec belongs to; None if the entry is no spec."""
    try:
        spec = codec.loads((fields or {}).get(b"data", b""))
        return part.plan(spec["plan_id"]).active, str(spec["step_id"])
    except (ValueError, TypeError, KeyError):
        return None


def readers(site: Site) -> Iterator[Finding]:
    """Find queues that have waiting steps and no controller that reads them."""
    for queue in fleet.queues(site.client, None, site.partitions):
        if queue.waiting and not queue.readers and (queue.oldest_ms or 0) > UNREAD_MS:
            sentence = f"{many(queue.waiting, 'step')} of the queue {queue.queue} wait, and no controller reads it."
            do = f"Start one: planner controller --queue {queue.queue}."
            yield Finding("queue.unread", queue.queue, sentence, do, FindingSeverity.WARNING)


CHECKS = (version, policy, memory, append_only_file, rights, libraries, inbound, owners, timers, readers)
