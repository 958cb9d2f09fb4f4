"""The events of a plan as they come, out of its partition's stream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rich.text import Text

from schemas import codec
from schemas.base import PlanState
from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from schemas.plan import PlanView
from tasks.plan.lifecycle import PLAN_ENDS
from worker.cli.console import Link, say_json
from worker.cli.render.plan import event_line, plain
from worker.host.terminal import Terminal
from worker.store import queries
from worker.store.keys import Partition, partition_of

BLOCK_S = 1.0
PAGE = 500
ENDS = frozenset({"plan.completed", "plan.halted", "plan.rejected"})


def print_events(link: Link, plan: PlanView, *, as_json: bool) -> str:
    """Print the events of a plan until it has ended, first those that were; returns its state."""
    console = Terminal(highlight=False)
    if not as_json:
        console.print(Text(plan.plan_id, "bold"), Text(plain(plan.goal), "dim"), soft_wrap=True)
    for entry, what, data in _events(link, plan):
        if as_json:
            say_json({"id": entry, "type": f"{EVENT_PREFIX}{what}{EVENT_SUFFIX}", "data": data}, line=True)
        else:
            console.print(event_line(what, data))
    return _state(link, plan)


def _state(link: Link, plan: PlanView) -> PlanState:
    return (queries.plan(link.client, link.partitions, plan.plan_id) or plan).state


def _events(link: Link, plan: PlanView) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (entry, what, data) until the plan's end, or until nothing comes of a plan that has ended."""
    stream = Partition(partition_of(plan.plan_id, link.partitions)).events
    last = f"{int(datetime.fromisoformat(plan.created_at).timestamp() * 1000) - 1}-0"  # just before its first event
    ended = False
    while not ended:
        found: Any = link.client.xread({stream: last}, count=PAGE, block=int(BLOCK_S * 1000))
        if not found and _state(link, plan) in PLAN_ENDS:
            return  # its last events are beyond the stream's cap
        for entry, fields in found[0][1] if found else ():
            last = entry
            if plan.plan_id.encode() in fields[b"data"]:
                what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
                ended |= what in ENDS
                yield entry.decode(), what, codec.loads(fields[b"data"])
