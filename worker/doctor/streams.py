"""Checks of streams and timers: groups, entries that a dead worker had read, specs of no attempt, late timers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from schemas import codec
from worker.doctor.finding import Command, Finding, Repair, Severity, Site, many
from worker.doctor.together import together
from worker.store import keys
from worker.store.keys import CONTROLLERS, GROUP, Partition

PAGE = 200
LATE_MS = 300_000  # a timer that nobody looks at for so long
IDLE_FACTOR = 4  # times the idle time after which entries are taken over


def inbound(site: Site) -> Iterator[Finding]:
    """Look at every stream that the planner reads."""
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
        yield Finding("stream.group", stream, f"{what}: nobody can read it.", do, Severity.WARNING, repair)


def _left_behind(site: Site, stream: str) -> Iterator[Finding]:
    """Find entries that somebody read who has not been heard of since, and that nobody takes over."""
    if not site.client.exists(stream):
        return
    groups: Any = site.client.xinfo_groups(stream)
    if GROUP.encode() not in {each["name"] for each in groups}:
        return
    limit = max(LATE_MS, IDLE_FACTOR * site.claim_idle_ms)
    consumers: Any = site.client.xinfo_consumers(stream, GROUP)
    for one in consumers:
        if one["pending"] and one["idle"] > limit:
            name = one["name"].decode(errors="replace")
            silent = one["idle"] // 1000
            sentence = f"Entries that {name} read and did not finish: {one['pending']}. It is silent for {silent} s."
            do = "Start a worker: it takes over what a dead one had read."
            yield Finding("stream.left", stream, sentence, do, Severity.WARNING)


def timers(site: Site) -> Iterator[Finding]:
    """Find timers that ran out long ago: nobody sweeps."""
    late = site.now() - LATE_MS
    for number in range(site.partitions):
        part = Partition(number)
        count = site.client.zcount(part.timers, "-inf", late)
        if count:
            sentence = f"{many(count, 'timer')} ran out more than {LATE_MS // 60_000} minutes ago: nobody looks."
            do = "Start a worker that consumes planner.outcomes and planner.upkeep."
            yield Finding("timers.late", part.timers, sentence, do, Severity.WARNING)


def queue(site: Site, stream: str) -> Iterator[Finding]:
    """Look at a queue of step specs: its group, and whether each spec belongs to a live attempt."""
    yield from _group(site, stream, CONTROLLERS)
    first = "-"
    while True:
        page: Any = site.client.xrange(stream, min=first, count=PAGE)
        yield from _strays(site, stream, page)
        if len(page) < PAGE:
            return
        first = "(" + page[-1][0].decode()


def _strays(site: Site, stream: str, page: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Iterator[Finding]:
    """Find specs of no live attempt.

    A spec and its attempt are written by one commit, and ended by one: an entry whose attempt is not there while it is
    itself will have none ever again.
    """
    number = int(stream.partition("{")[2].partition("}")[0])
    specs = [(entry, _owner(Partition(number), fields)) for entry, fields in page]
    asked: list[Command] = []
    for entry, owner in specs:
        asked += [("XRANGE", stream, entry, entry), ("HGET", *(owner or (stream + ":nobody", "")))]
    answers = together(site.client, asked)
    for (entry, owner), still, record in zip(specs, answers[::2], answers[1::2], strict=True):
        if not still or (record or b"").startswith(entry + b" "):
            continue
        name, repair = entry.decode(), None
        if owner:
            repair = Repair((("XACK", stream, CONTROLLERS, name), ("XDEL", stream, name)))
            sentence = f"The spec {name} belongs to no live attempt: a controller would work for nothing."
        else:
            sentence = f"The entry {name} is no step spec of the planner's."
        yield Finding("queue.stray", stream, sentence, f"XDEL {stream} {name}", Severity.WARNING, repair)


def _owner(part: Partition, fields: dict[bytes, bytes] | None) -> tuple[str, str] | None:
    """Say where the attempt of a spec would stand; None where it is no spec."""
    try:
        spec = codec.loads((fields or {}).get(b"data", b""))
        return part.plan(spec["plan_id"]).active, str(spec["step_id"])
    except (ValueError, TypeError, KeyError):
        return None
