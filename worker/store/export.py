"""Exports all stored data of a plan as one JSON document, in pieces.

The same plan gives the same bytes, except for the time. Two things are left out, because a reader could act as a
controller with them: valid leases and, while the plan runs, their seed. Lines of the log are unchanged: a lease in a
line belongs to an ended attempt. docs/doctor.md describes the document.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from redis import Redis

from schemas import codec
from schemas.stored import StepStatus
from schemas.stored.step import TEXTS, read_texts, unpack_step, window_of
from schemas.times import rfc3339
from tasks.base.batches import batches
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.record.recorded_plan import ATTEMPT_NAMES, FORMAT, FORMAT_VERSION, JSON_FIELDS, STATUS_NAMES, name_columns
from worker.store import dead, history, keys, policies
from worker.store.clients import now_ms
from worker.store.dead import Dead, Filter
from worker.store.keys import NO_TENANT, Partition, PlanKeys, partition_of

PAGE = 500
LEFT_OUT = ("plan.lock", "in_flight[].lease", "leases[].lease", "dead[] leases")
SEED = "plan.head.seed"  # left out of a plan that goes on
LEASE = re.compile(rb'("lease"\s*:\s*")[^"]*')

Item = dict[str, Any]


def export(
    client: Redis, partitions: int, plan_id: str, may_see: Callable[[Dead], bool] = lambda _: True
) -> Iterator[bytes]:
    """Yield the document of an existing plan, with the dead entries about the plan that its reader may see.

    `changed_meanwhile` at the end of the document states whether its parts may be inconsistent.
    """
    part = Partition(partition_of(plan_id, partitions))
    k = part.plan(plan_id)
    at = now_ms(client)
    plan = _plan(client, k)
    ready: Any = client.zrange(k.ready, 0, -1)
    left_over: Any = client.lrange(k.todo, 0, -1)
    goal_id = str(plan.get("goal_id", ""))
    tenant = str(plan.get("head", {}).get("tenant", NO_TENANT))
    goal: Any = client.hgetall(keys.goal_id(goal_id, tenant))
    has_ended = plan.get("state") in PLAN_ENDS
    if not has_ended:
        plan.get("head", {}).pop("seed", None)
    digest = plan.get("head", {}).get("policy")
    policy = policies.read_text(client, digest) if digest else None
    first = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "exported_at": rfc3339(at),
        "plan_id": plan_id,
        "partition": part.number,
        "left_out": LEFT_OUT if has_ended else (SEED, *LEFT_OUT),
        "plan": plan,
        "goal": {"goal_id": goal_id, **_text(goal)} if goal else None,
        "policy": policy.decode() if policy else None,
        "ready": [step.decode() for step in ready],
        "left_over": [item.decode() for item in left_over],
        "in_flight": _in_flight(client, k),
        "leases": _leases(client, part, plan_id, k),
    }
    yield codec.dumps(first)[:-1]
    yield from _array("steps", _steps(client, k))
    yield from _array("attempts", _attempts(client, k))
    yield from _array("log", map(codec.raw, history.read_lines(client, k)))
    yield from _array("events", _events(client, part, plan_id))
    yield from _array("dead", _dead(client, partitions, plan_id, goal_id, may_see))
    changed = client.hget(k.plan, "version") != str(plan.get("version")).encode()
    yield b',\n"changed_meanwhile":' + codec.dumps(changed) + b"}\n"


def _array(name: str, items: Iterable[Any]) -> Iterator[bytes]:
    """Yield the JSON of a field with a list, one item for each line."""
    yield b',\n"' + name.encode() + b'":['
    for number, item in enumerate(items):
        yield (b",\n" if number else b"\n") + codec.dumps(item)
    yield b"]"


def _plan(client: Redis, k: PlanKeys) -> Item:
    found: Any = client.hgetall(k.plan)
    plan: Item = {}
    for name, raw in sorted(found.items()):
        field = name.decode()
        if field in JSON_FIELDS:
            plan[field] = codec.loads(raw)
        elif field != "lock":
            plan[field] = int(raw) if field == "version" else raw.decode(errors="replace")
    return plan


def _text(fields: dict[bytes, bytes]) -> Item:
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in sorted(fields.items())}


def _in_flight(client: Redis, k: PlanKeys) -> list[Item]:
    found: Any = client.hgetall(k.active)
    flying = []
    for step, raw in sorted(found.items()):
        entry, _, record = raw.partition(b" ")
        attempt = name_columns(ATTEMPT_NAMES, codec.loads(record))
        attempt.pop("lease", None)
        flying.append({"step_id": step.decode(), "entry": entry.decode(), **attempt})
    return flying


def _leases(client: Redis, part: Partition, plan_id: str, k: PlanKeys) -> list[Item]:
    steps: Any = sorted(client.hkeys(k.active))
    pipeline = client.pipeline(transaction=False)
    for step in steps:
        pipeline.hgetall(part.lease_prefix(plan_id) + step.decode())
    leases = []
    for step, lease in zip(steps, pipeline.execute(), strict=True):
        if lease:
            lease.pop(b"lease", None)
            leases.append({"step_id": step.decode(), **_text(lease)})
    return leases


def _steps(client: Redis, k: PlanKeys) -> Iterator[Item]:
    """Yield the steps in their planned order: small states are read first, then specs in pages."""
    ids: Any = client.hkeys(k.status)
    order: list[tuple[int, str, StepStatus]] = []
    for page in batches(ids, PAGE):
        records: Any = client.hmget(k.status, page)
        known = zip(page, records, strict=True)
        found = [(step.decode(), StepStatus.decode(raw)) for step, raw in known if raw]
        order += [(record.index, step, record) for step, record in found]
    for rows in batches(sorted(order, key=lambda row: row[:2]), PAGE):
        names = [step for _, step, _ in rows]
        stored: Any = client.hmget(k.steps, [TEXTS, *names])
        raw_texts, *specs = stored
        texts = read_texts(raw_texts)
        for (_, step, record), spec in zip(rows, specs, strict=True):
            dependents = window_of(spec) if spec else []
            numbers = count(1)
            window: Any = dependents and client.hget(k.steps, f">{step}:{next(numbers)}")
            while window:
                dependents += window.decode().split()
                window = client.hget(k.steps, f">{step}:{next(numbers)}")
            yield {
                "step_id": step,
                "status": name_columns(STATUS_NAMES, record.columns),
                "dependents": dependents,
                "spec": unpack_step(spec, texts) if spec else None,
            }


def _attempts(client: Redis, k: PlanKeys) -> Iterator[Item]:
    """Yield each attempt that a report or a lost lease ended, in the order of the log, with the planner's judgement."""
    ended: Counter[str] = Counter()
    for line in history.read_log(client, k):
        names = set()
        for said in line.get("in", ()):
            if said[0] == "outcome":
                step = said[3]["step_id"]
                ended[step] += 1
                said[1] = said[1] or ended[step]
                names.add(step)
            elif said[0] == "expired":
                ended[said[1]] += 1
                names.add(said[1])
        wanted = sorted(names)
        facts = history.read_facts(client, k, wanted)
        for step, attempts in history.story_of([line], facts).items():
            yield from ({"step_id": step, **attempt} for attempt in attempts)


def _events(client: Redis, part: Partition, plan_id: str) -> Iterator[Item]:
    first, wanted = "-", plan_id.encode()
    while True:
        page: Any = client.xrange(part.events, min=first, count=PAGE)
        for entry, fields in page:
            data = codec.loads(fields[b"data"]) if wanted in fields.get(b"data", b"") else {}
            if data.get("plan_id") == plan_id:
                yield {"entry": entry.decode(), "type": fields[b"type"].decode(), "data": data}
        if len(page) < PAGE:
            return
        first = "(" + page[-1][0].decode()


def _dead(
    client: Redis, partitions: int, plan_id: str, goal_id: str, may_see: Callable[[Dead], bool]
) -> Iterator[Item]:
    for batch in dead.until_now(client, partitions, Filter()):
        for one in batch:
            if _names(one, plan_id.encode(), goal_id) and may_see(one):
                data = LEASE.sub(rb"\1", one.data)
                beside = {name: value for name, value in one.beside.items() if name != b"lease"}
                yield dataclasses.replace(one, data=data, beside=beside).document()


def _names(one: Dead, plan_id: bytes, goal_id: str) -> bool:
    """Return whether a dead entry is about the plan or its goal."""
    if plan_id in one.data or plan_id in one.beside.values() or plan_id.decode() in str(one.problem.get("detail")):
        return True
    about_goal = one.origin == keys.GOALS and bool(goal_id)
    return about_goal and (one.source == goal_id or codec.dumps(goal_id) in one.data)
