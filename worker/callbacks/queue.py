"""The deliveries of one partition in Redis: created from the outbox, leased for tries, recorded, sent again."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.stored import PlanHead
from worker.callbacks.message import About
from worker.callbacks.schedule import DISABLED
from worker.store import functions
from worker.store.clients import now_ms
from worker.store.endpoints import Endpoint, read_all
from worker.store.functions import FunctionsMissing, call
from worker.store.keys import Partition

log = logging.getLogger("planner.callbacks")

PAGE = 100
FAN_OUT_S = 1.0  # of one task; the poller notices the rest
DELIVERY_ID = re.compile(r"msg_(\d{1,3})-\d+-\d+-([0-9a-f]{16})")
LEASE_S = 40.0  # longer than a try takes; then another worker takes the delivery over
KEPT_S = 30 * 86_400  # a delivery; its tries take three days
ATTEMPTS_KEPT = 20


class Delivery(NamedTuple):
    """A delivery of a callback: id (the header `webhook-id` of each try), subject, number and results of its tries."""

    id: str
    about: About
    tries: int
    log: list[dict[str, Any]]
    leased: int = 0  # until when, ms
    ended: str = ""
    due: int = 0  # when its next try is, ms


@dataclass(frozen=True, slots=True)
class Queue:
    """The deliveries of one partition."""

    client: Redis
    partition: Partition

    def fan_out(self) -> int:
        """Create the deliveries for entries in the outbox, for at most FAN_OUT_S. Return the number of entries."""
        done, end = 0, time.monotonic() + FAN_OUT_S
        while time.monotonic() < end and (page := self._entries()):
            known = read_all(self.client)  # after the page: so each entry reaches all endpoints that are older
            for entry, fields in page:
                both = (self.partition.outbox, self.partition.callbacks)
                self._fcall(functions.FAN_OUT, *both, args=(entry, KEPT_S, *self._made_of(entry, fields, known)))
            done += len(page)
        return done

    def due(self) -> list[str]:
        """Return the endpoints with something due."""
        found: Any = self.client.zrange(self.partition.callbacks, "-inf", now_ms(self.client), byscore=True)
        return [name.decode() for name in found]

    def lease(self, endpoint_id: str) -> Delivery | None:
        """Lease an endpoint's delivery that is due first; None if none is due.

        If `note` does not record a result within LEASE_S, another worker may take the delivery over.
        """
        reply: Any = self._call(functions.LEASE_CALLBACK, endpoint_id, int(LEASE_S * 1000))
        if reply is None:
            return None
        name, until, about, tries, log = reply
        return Delivery(name.decode(), About.decode(about), int(tries), codec.loads(log), int(until))

    def note(self, endpoint_id: str, taken: Delivery, ended: str, wait_s: float) -> bool:
        """Record the result of a try. Return False if another worker has leased the delivery meanwhile."""
        log = codec.dumps(taken.log[-ATTEMPTS_KEPT:])
        kept = (endpoint_id, taken.id, taken.leased, int(wait_s * 1000), ended, taken.tries, log)
        return bool(self._call(functions.NOTE_TRY, *kept))

    def end_all(self, endpoint_id: str, why: str) -> None:
        """End all open deliveries to an endpoint, with the reason `why`."""
        while self._call(functions.END_CALLBACKS, endpoint_id, why):
            pass

    def send_again(self, endpoint_id: str, ids: Sequence[str]) -> int:
        """Make these deliveries due now. Return how many are; deliveries in progress are unchanged."""
        return int(self._call(functions.CALL_AGAIN, endpoint_id, KEPT_S, *ids)) if ids else 0

    def newest(self, endpoint_id: str, count: int) -> list[Delivery]:
        """Return the newest deliveries to an endpoint."""
        callbacks = self.partition.callbacks
        names: Any = self.client.zrevrange(f"{callbacks}:of:{endpoint_id}", 0, count - 1)
        return self.read(endpoint_id, [name.decode() for name in names])

    def read(self, endpoint_id: str, ids: Sequence[str]) -> list[Delivery]:
        """Return deliveries to an endpoint; missing ones are left out."""
        callbacks = self.partition.callbacks
        pipeline = self.client.pipeline(transaction=False)
        for name in ids:
            pipeline.hmget(f"{callbacks}:one:{name}", "about", "tries", "log", "leased", "ended")
            pipeline.zscore(f"{callbacks}:due:{endpoint_id}", name)
        found = pipeline.execute()
        return [
            Delivery(
                name, About.decode(about), int(tries), codec.loads(log), int(leased), ended.decode(), int(due or 0)
            )
            for name, (about, tries, log, leased, ended), due in zip(ids, found[::2], found[1::2], strict=True)
            if about
        ]

    def state_of(self, plan_id: str) -> str | None:
        """Return the current state of a plan; None if it is gone."""
        found: Any = self.client.hget(self.partition.plan(plan_id).plan, "state")
        return found.decode() if found else None

    def _call(self, function: str, *args: Any) -> Any:
        return self._fcall(function, self.partition.callbacks, args=args)

    def _fcall(self, function: str, *keys: str, args: Sequence[Any]) -> Any:
        command = ("FCALL", function, len(keys), *keys, *args)
        try:
            return call(self.client, *command)
        except FunctionsMissing:
            functions.load(self.client)
            return call(self.client, *command)

    def _entries(self) -> list[tuple[bytes, dict[bytes, bytes]]]:
        found: Any = self.client.xrange(self.partition.outbox, count=PAGE)
        return list(found)

    def _made_of(self, entry: bytes, fields: dict[bytes, bytes], endpoints: Mapping[str, Endpoint]) -> list[Any]:
        """Return the arguments of fan_out for an outbox entry: a delivery for each endpoint that receives the event."""
        try:
            event, plan_id, at, state, callback = (
                fields[name].decode() for name in (b"type", b"plan", b"at", b"state", b"callback")
            )
            head = PlanHead.decode(fields[b"head"])
        except (ValueError, TypeError, KeyError):  # not by a worker; it must not keep the others back
            log.exception("outbox unreadable", extra={"entry": entry.decode()})
            return []
        about = About(event, plan_id, head.goal_id, state, int(at), head.context.get("base_sha")).encode()
        laid_out: list[Any] = []
        for endpoint in endpoints.values():
            if endpoint.hears(event, head.tenant, head.repo, callback):
                name = f"msg_{self.partition.number}-{entry.decode()}-{endpoint.id.removeprefix('ep_')}"
                laid_out += (endpoint.id, name, about, DISABLED if endpoint.off else "")
        return laid_out


def place_of(delivery_id: str) -> tuple[int, str] | None:
    """Return the partition and the endpoint in a delivery's id; None if it is no such id."""
    found = DELIVERY_ID.fullmatch(delivery_id)
    return (int(found[1]), f"ep_{found[2]}") if found else None
