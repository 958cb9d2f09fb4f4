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
from worker.host.terminal import Terminal
from worker.render.plan import event_line, plain
from worker.store import queries
from worker.store.keys import Partition, partition_of

BLOCK_S = 1.0
PAGE = 500
ENDS = frozenset({"plan.completed", "plan.halted", "plan.rejected"})


class PlanEvents:
    """The events of a plan, read as far as they have come; what was read is not read again."""

    def __init__(self, link: Link, plan_id: str, created_at: str) -> None:
        self._link, self._plan_id = link, plan_id
        self._stream = Partition(partition_of(plan_id, link.partitions)).events
        # just before its first event
        self._last: Any = f"{int(datetime.fromisoformat(created_at).timestamp() * 1000) - 1}-0"
        self.ended = False  # once the event of its end was read

    def read(self, block_ms: int | None = None) -> Iterator[tuple[str, str, dict[str, Any]] | None]:
        """Yield (entry, what, data) of a page of events, with None for those of other plans.

        So nothing is yielded only where nothing has come, for which `block_ms` may wait.
        """
        found: Any = self._link.client.xread({self._stream: self._last}, count=PAGE, block=block_ms)
        for entry, fields in found[0][1] if found else ():
            self._last = entry
            if self._plan_id.encode() not in fields[b"data"]:
                yield None
                continue
            what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
            self.ended |= what in ENDS
            yield entry.decode(), what, codec.loads(fields[b"data"])


def print_events(link: Link, plan: PlanView, *, as_json: bool) -> str:
    """Print the events of a plan until it has ended, first those that were; returns its state."""
    console = Terminal(highlight=False)
    if not as_json:
        console.print(Text(plan.plan_id, "bold"), Text(plain(plan.goal), "dim"), soft_wrap=True)
    events = PlanEvents(link, plan.plan_id, plan.created_at)
    while not events.ended:
        page = list(events.read(int(BLOCK_S * 1000)))
        if not page and _state(link, plan) in PLAN_ENDS:
            break  # its last events are beyond the stream's cap
        for entry, what, data in filter(None, page):
            if as_json:
                say_json({"id": entry, "type": f"{EVENT_PREFIX}{what}{EVENT_SUFFIX}", "data": data}, line=True)
            else:
                console.print(event_line(what, data))
    return _state(link, plan)


def _state(link: Link, plan: PlanView) -> PlanState:
    return (queries.plan(link.client, link.partitions, plan.plan_id) or plan).state
