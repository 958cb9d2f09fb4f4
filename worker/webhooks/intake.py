"""Handles one delivery of a webhook: checks its signature, applies the rules, writes to Redis once, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from redis import Redis

from schemas import codec
from schemas.traceparent import read_traceparent
from tasks.base.errors import PlannerError
from tasks.delivered.seen import Stale
from worker.store import delivered_changes, webhook_events
from worker.telemetry import tracing
from worker.webhooks import events, listing, rules
from worker.webhooks.expressions import Scalar
from worker.webhooks.rules import Ignored, Wanted
from worker.webhooks.signatures import Headers, is_signed
from worker.webhooks.sources_file import Source

SAID = {  # verdict of the store -> why a delivery that a rule accepts is ignored
    "duplicate": "duplicate: this was delivered before",
    "coalesced": "coalesced: it is about the same as an earlier one",
    "order": "order: its type differs from the stored one, a number or a text",
    "not_newer": "not_newer: the stored one is as new or newer",
}


class WrongSignature(PlannerError):
    """No secret of the source signed this delivery."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a delivery: the id of its goal, or the reason for none; `cancels` is an older goal that it ends."""

    goal_id: str | None = None
    ignored: str | None = None
    cancels: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        more = {"cancels": self.cancels} if self.cancels else {}
        return {"goal_id": self.goal_id, "ignored": self.ignored, **more}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The decision about a delivery with the id and the body of its goal; the forge may have to complete the body."""

    wanted: Wanted
    goal_id: str = ""
    goal: dict[str, Any] | None = None


def take(client: Redis, source: Source, headers: Headers, raw: bytes, now_s: float) -> Answer:
    """Handle a delivery of permitted size; the names of its headers are in lower case.

    Raises WrongSignature, then events.NoEvent. Raises WrongSources if a required file cannot be read.
    """
    if not is_signed(source.scheme, headers, raw, source.secrets(), now_s):
        raise WrongSignature
    event = events.read(source.scheme, headers, raw)
    if source.delivered and source.delivered.has(event.repository):
        tenant = source.delivered.tenant
        delivered_changes.nudge(client, tenant, event.repository, event.reverted)
        if event.is_push and source.delivered.land_again is not Stale.NO:
            delivered_changes.nudge_targets(client, tenant, event.repository, event.branches)
        if delivered_changes.nudge(client, tenant, event.repository, event.branches):
            webhook_events.count(client, f"{source.name}:delivered")
            return Answer(ignored="delivered: its change is looked at")
    found = prepare(source, event, raw, tracing.traceparent(read_traceparent(headers.get("traceparent"))))
    if isinstance(found, Ignored):
        webhook_events.count(client, f"{source.name}:{found.code}")
        return Answer(ignored=found.reason)
    verdict, goal_id, cancels = webhook_events.take(client, _arrival(source, event.delivery, raw, found))
    if reason := SAID.get(verdict):
        return Answer(goal_id or None, reason)
    if found.goal is None:
        return Answer(None, None if cancels else "resolved: nothing is to be cancelled", cancels or None)
    return Answer(goal_id, None, cancels or None)


def prepare(source: Source, event: events.Event, raw: bytes, traceparent: str | None = None) -> Prepared | Ignored:
    """Decide about an event, and build its goal with id and trace. Raises WrongSources.

    A listing is read from the file that the rule names.
    """
    wanted = rules.decide(source, event)
    if isinstance(wanted, Ignored):
        return wanted
    if wanted.goal is None:
        return Prepared(wanted)
    goal_id = f"webhook-{source.name}-{_digest(source.name, event.delivery, sha256(raw).hexdigest())[:24]}"
    goal = {"goal_id": goal_id, **wanted.goal}
    if traceparent:
        goal["traceparent"] = traceparent
    if wanted.rule.files_from:
        goal = listing.with_files(goal, listing.read(wanted.rule.files_from))
    return Prepared(wanted, goal_id, goal)


def _arrival(source: Source, delivery: str, raw: bytes, found: Prepared) -> webhook_events.Arrival:
    """Return the record for the store, with digests as keys.

    A digest contains the name of the source. If goals can meet under it, it also contains the tenant.
    """
    wanted, tenant = found.wanted, found.wanted.rule.tenant
    body = _digest(source.name, sha256(raw).hexdigest())
    job: Mapping[str, Any] | None = None
    if found.goal is not None and wanted.asks_forge:
        job = {
            "source": source.name,
            "goal": found.goal,
            "files": wanted.rule.files is not None,
            "failures_of": wanted.failures_of,
        }
    return webhook_events.Arrival(
        source=source.name,
        delivery=_digest(source.name, delivery) if delivery else body,
        body=body,
        goal_id=found.goal_id,
        tenant=tenant,
        goal=codec.dumps(found.goal) if found.goal is not None and job is None else b"",
        job=codec.dumps(job) if job else b"",
        coalesce=None if wanted.coalesce is None else _digest(source.name, tenant, wanted.coalesce),
        latest=None if wanted.supersedes is None else _digest(source.name, tenant, wanted.supersedes),
        order=_order(wanted.order),
    )


def _order(order: Scalar | None) -> str:
    """Return an order as the store compares it: numbers begin with `n`, texts with `s`; empty without an order."""
    if order is None:
        return ""
    return f"n{order!r}" if isinstance(order, int | float) and not isinstance(order, bool) else f"s{order}"


def _digest(*parts: str) -> str:
    """Return a digest of a list of texts; lists with the same texts joined differently have different digests."""
    return sha256(codec.dumps(parts)).hexdigest()
