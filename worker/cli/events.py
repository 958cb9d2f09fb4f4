"""The events of a plan as they come, out of its partition's stream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rich.text import Text

from schemas import codec
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


class Watcher:
    """Prints the events of one plan, first those that were, then those that come."""

    def __init__(self, link: Link, plan: PlanView, *, as_json: bool) -> None:
        self._link, self._plan, self._as_json = link, plan, as_json
        self._stream = Partition(partition_of(plan.plan_id, link.partitions)).events
        self._console = Terminal(highlight=False)

    def run(self) -> str:
        """Print events until the plan has ended; returns its state."""
        if not self._as_json:
            self._console.print(Text(self._plan.plan_id, "bold"), Text(plain(self._plan.goal), "dim"), soft_wrap=True)
        for entry, what, data in self._events():
            if self._as_json:
                say_json({"id": entry, "type": f"{EVENT_PREFIX}{what}{EVENT_SUFFIX}", "data": data}, line=True)
            else:
                self._console.print(event_line(what, data))
        return self._now().state

    def _now(self) -> PlanView:
        return queries.plan(self._link.client, self._link.partitions, self._plan.plan_id) or self._plan

    def _events(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield (entry, what, data) until the plan's end, or until nothing comes of a plan that has ended."""
        last, ended = _before(self._plan.created_at), False
        while not ended:
            found: Any = self._link.client.xread({self._stream: last}, count=PAGE, block=int(BLOCK_S * 1000))
            if not found and self._now().state in PLAN_ENDS:
                return  # its last events are beyond the stream's cap
            for entry, fields in found[0][1] if found else ():
                last = entry
                if self._plan.plan_id.encode() in fields[b"data"]:
                    what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
                    ended |= what in ENDS
                    yield entry.decode(), what, codec.loads(fields[b"data"])


def _before(created_at: str) -> str:
    """Name the place in the stream just before a time."""
    return f"{int(datetime.fromisoformat(created_at).timestamp() * 1000) - 1}-0"
