"""Keeps the lists of a partition's plans right where older workers made, moved or forgot plans.

Commits keep the lists themselves (lists.lua). Older workers know of none: what they commit is noted as `unlisted`, what
was there before is missed in `listed`, and what they forgot is left there. In a fleet of one version nothing is found.
"""

from __future__ import annotations

import logging
from typing import Any

from redis import Redis

from schemas import codec
from schemas.stored import HOT, decode_plan
from tasks.plan.lists import lists_of
from worker.store import functions
from worker.store.keys import Partition, list_name

log = logging.getLogger("planner.lists")

PAGE = 256
FIELDS = (*HOT[:4], "halt")
UNREADABLE = "unreadable"  # the list of plans of which nobody can say more


class ListKeeper:
    """Puts right some plans of a partition at a time; how far it came is kept in the process alone."""

    def __init__(self, client: Redis, partition: Partition) -> None:
        self._client = client
        self._partition = partition
        self._plans_at = 0
        self._listed_at = 0
        self._is_sure = False  # that no plan is missing, of which equal counts say nothing while some were left behind

    def mend(self) -> None:
        """Put at most PAGE plans of each sort right; one round trip where all are, once all were looked at."""
        part = self._partition
        pipeline = self._client.pipeline(transaction=False)
        pipeline.zrange(part.unlisted, 0, PAGE - 1)
        pipeline.zcard(part.plans)
        pipeline.hlen(part.listed)
        unlisted, plans, listed = pipeline.execute()
        if listed < plans or not self._is_sure:
            unlisted += self._missing()
            self._is_sure |= not self._plans_at
        if listed > plans:
            unlisted += self._left_behind()
        if unlisted:
            self._put([plan_id.decode() for plan_id in dict.fromkeys(unlisted)])

    def _missing(self) -> list[bytes]:
        """Find plans that are in no list; one page of all plans is looked at."""
        part, start = self._partition, self._plans_at
        page: Any = self._client.zrange(part.plans, start, start + PAGE - 1)
        self._plans_at = start + PAGE if len(page) == PAGE else 0
        found: Any = self._client.hmget(part.listed, page) if page else []
        return [plan_id for plan_id, names in zip(page, found, strict=True) if names is None]

    def _left_behind(self) -> list[bytes]:
        """Find plans that were forgotten, and are in lists; one page of those is looked at."""
        part = self._partition
        reply: Any = self._client.hscan(part.listed, self._listed_at, count=PAGE)
        self._listed_at, page = reply[0], list(reply[1])
        found: Any = self._client.zmscore(part.plans, page) if page else []
        return [plan_id for plan_id, created in zip(page, found, strict=True) if created is None]

    def _put(self, plan_ids: list[str]) -> None:
        part = self._partition
        pipeline = self._client.pipeline(transaction=False)
        for plan_id in plan_ids:
            pipeline.hmget(part.plan(plan_id).plan, FIELDS)
        calls: list[tuple[Any, ...]] = []
        for plan_id, raw in zip(plan_ids, pipeline.execute(), strict=True):
            keys = (part.plans, part.plan(plan_id).plan)
            calls.append(("FCALL", functions.LIST, len(keys), *keys, plan_id, raw[0] or "", *_names(plan_id, raw)))
        with functions.Talk(self._client) as talk:
            talk.send(calls)
            replies = talk.receive(len(calls))
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply


def _names(plan_id: str, raw: list[bytes | None]) -> list[str]:
    """Name the lists that a plan is in, as they stand in keys; none of one that is gone."""
    *hot, halt = raw
    if hot[0] is None:
        return []
    try:
        record = decode_plan([*hot, None])
        record.halt = codec.loads(halt or b"null")
        return [list_name(name) for name in lists_of(record)]
    except (ValueError, TypeError, KeyError) as error:
        log.error("plan unreadable", extra={"plan_id": plan_id, "error": f"{type(error).__name__}: {error}"})
        return [UNREADABLE]
