"""Checks of the server itself: version, memory policy, append-only file, rights, function libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.doctor.finding import Finding, Repair, Severity, Site
from worker.store import functions, keys
from worker.store.clients import LEAST, version_of
from worker.store.dead import places
from worker.store.keys import CONTROLLERS, GROUP, Partition
from worker.store.memory import STEPS_UP_TO, refused_at, share_of

SHOWN = 5


def version(site: Site) -> Iterator[Finding]:
    """Find a server that is too old for the planner's functions."""
    info: Any = site.client.info("server")
    name = "valkey" if "valkey_version" in info else "redis"
    told = str(info.get(f"{name}_version", ""))
    if version_of(told) < LEAST[name]:
        least = ".".join(map(str, LEAST[name]))
        yield Finding("server.version", name, f"It is {name} {told}.", f"Run {name} {least} or newer.")


def policy(site: Site) -> Iterator[Finding]:
    """Find a server that may evict what the planner promises to keep."""
    info: Any = site.client.info("memory")
    found = str(info.get("maxmemory_policy", "noeviction"))
    if found != "noeviction":
        sentence = f"maxmemory-policy is {found}: plans, locks and budgets may vanish."
        yield Finding("server.eviction", "maxmemory-policy", sentence, "Set maxmemory-policy noeviction.")


def memory(site: Site) -> Iterator[Finding]:
    """Find a server that is full or nearly, and say what of it is dead."""
    info: Any = site.client.info("memory")
    share = share_of(info)
    if refused := refused_at(share):
        dead = sum(site.client.memory_usage(place.key, samples=0) or 0 for place in places(site.partitions))
        part = dead / int(info["maxmemory"])
        sentence = f"{share:.0%} of maxmemory is in use: {refused}. Dead entries take {part:.0%}."
        do = "Drop dead entries (planner dead drop), end plans (planner halt), or raise maxmemory."
        severity = Severity.ERROR if share >= STEPS_UP_TO else Severity.WARNING
        yield Finding("server.memory", "maxmemory", sentence, do, severity)


def append_only_file(site: Site) -> Iterator[Finding]:
    """Find a server that would lose what was acknowledged, or cannot write it at the moment."""
    info: Any = site.client.info("persistence")
    if not int(info.get("aof_enabled", 0)):
        sentence = "There is no append-only file: a restart loses plans and outcomes."
        yield Finding("server.aof", "appendonly", sentence, "Set appendonly yes.")
    elif info.get("aof_last_write_status", "ok") != "ok":
        sentence = "The last write to the append-only file failed."
        yield Finding("server.aof", "appendonly", sentence, "See the server's log, and whether its disk is full.")


def rights(site: Site) -> Iterator[Finding]:
    """Find what the planner needs and the user of this connection may not do, asked without doing it."""
    whoami: Any = site.client.execute_command("ACL", "WHOAMI")
    user = whoami.decode()
    refused = [command for command in _needed() if not _may(site, user, command)]
    if refused:
        names = [" ".join(str(word) for word in command[:2]) for command in refused]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield Finding(
            "server.rights",
            user,
            f"The user {user} may not: {', '.join(names[:SHOWN])}{more}.",
            "Run the doctor as the workers' user; if this is it, give it the rights in docs/deployment.md.",
            Severity.WARNING,
        )


def _may(site: Site, user: str, command: tuple[str, ...]) -> bool:
    answer: Any = site.client.execute_command("ACL", "DRYRUN", user, *command)
    return bool(answer == b"OK")


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
    for key in (keys.goal_id("x"), plan.plan, plan.steps, plan.status, plan.active, part.lease_prefix("x") + "y"):
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
    """Find function libraries that are not loaded, or are another version's."""
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
            yield Finding("server.functions", library, sentence, do, Severity.WARNING)


CHECKS = (version, policy, memory, append_only_file, rights, libraries)
