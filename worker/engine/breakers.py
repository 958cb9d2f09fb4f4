"""Opens, probes and closes the breakers of a partition's repositories, as tasks/features/breakers/breaker.py decides.

One call changes a breaker and its pause, and only if both are still as they were read. So a crash leaves no half of a
change, and only one of two workers succeeds. Reminders of the affected plans are repeated until they are recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis import Redis

from schemas import codec
from schemas.base import PlanState
from schemas.event import event_type
from schemas.stored import Claims, PlanHead, read_part
from schemas.times import rfc3339
from tasks.base.batches import batches
from tasks.features.breakers import breaker
from tasks.features.breakers.breaker import PAUSED, Breaker, Failure, Next, Seen, Terms, What, name_pause
from tasks.plan.changeset import CountedFailure, ProbeNews
from worker.engine import breaker_evidence
from worker.store import functions
from worker.store.clients import now_ms
from worker.store.commit_calls import EVENTS_CAP
from worker.store.keys import Partition, list_name
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE

log = logging.getLogger("planner.breaker")

PAGE = 64  # repositories that are processed together
PLANS_AT_ONCE = 256
MOST_ROUNDS = 8  # decisions about one repository before others have their turn
LIVE = (PlanState.EXECUTING, PlanState.READY)
OF_FAILURE, OF_PROBE = len(CountedFailure._fields), len(ProbeNews._fields)  # a newer version may add others behind


def note_lifted(client: Redis, partition: Partition, lifted: Iterable[str | bytes]) -> None:
    """Schedule the breakers whose pauses were removed to be looked at by the next sweep."""
    for name in lifted:
        if isinstance(name, str) and name.startswith(PAUSED):
            client.zadd(partition.breakers_due, {name.removeprefix(PAUSED): 0})


class _Read(NamedTuple):
    """A repository's breaker as it was read: field, name of the pause, stored form, due time, decoded form."""

    series: str
    pause: str
    raw: bytes
    was: str
    seen: Seen


@dataclass(eq=False, repr=False)
class Breakers:
    """Manages the breakers of one partition. Not for several threads at once."""

    client: Redis
    partition: Partition
    terms: Terms

    def look(self) -> bool:
        """Process the repositories that are due. Returns whether a pause has changed."""
        pipeline = self.client.pipeline(transaction=False)
        pipeline.time()
        pipeline.zrange(self.partition.breakers_due, 0, PAGE - 1, withscores=True)
        (seconds, microseconds), first = pipeline.execute()
        now = 1000 * seconds + microseconds // 1000
        changed = [self._look_at(series, now) for series, due in first if due <= now]
        return any(changed)

    def _look_at(self, series: bytes, now: int) -> bool:
        """Process one repository. An unreadable record is postponed, so that it does not delay the others."""
        try:
            return self._settle(series.decode())
        except (ValueError, LookupError, TypeError, AttributeError):
            log.exception("breaker unreadable", extra={"series": repr(series)})
            self.client.zadd(self.partition.breakers_due, {series: now + breaker.LOOK_MS})
            return False

    def _settle(self, series: str) -> bool:
        """Make decisions about a repository until it has to wait. Return whether its pause has changed."""
        tenant, repo = map(unquote, series.split(" "))
        has_changed = False
        for _ in range(MOST_ROUNDS):
            read = self._read(series, tenant, repo)
            found = self._decide(read.seen, (tenant, repo))
            has_changed |= self._do(read, found)
            if found.what in (What.WAIT, What.NOTHING, What.GIVE):
                break
        return has_changed

    def _decide(self, seen: Seen, whose: tuple[str, str]) -> Next:
        """Return the decision about a repository.

        If enough plans failed alike, it first reads evidence against opening the breaker, the cheapest evidence first.
        """
        now = now_ms(self.client)
        found = breaker.decide(seen, whose, now, self.terms)
        if found.what is not What.WEIGH:
            return found
        evidence = breaker_evidence.read_states(self.client, self.partition, seen.failures)
        found = breaker.decide(seen._replace(evidence=evidence), whose, now, self.terms)
        if found.what is not What.TRIP:
            return found
        since = now - self.terms.window_ms
        known = breaker_evidence.read_successes(self.client, self.partition, whose, seen.failures, since)
        return breaker.decide(seen._replace(evidence=evidence._replace(succeeded=known)), whose, now, self.terms)

    def _read(self, series: str, tenant: str, repo: str) -> _Read:
        part, pause = self.partition, name_pause(tenant, repo)
        pipeline = self.client.pipeline(transaction=False)
        pipeline.hget(part.breakers, series)
        pipeline.hget(part.scopes, pause)
        pipeline.hget(part.probes, series)
        pipeline.zscore(part.breakers_due, series)
        pipeline.zrange(part.counted_failures(series), 0, -1, withscores=True)
        raw, standing, probe, due, failures = pipeline.execute()
        known = Breaker.decode(raw) if raw else None
        stands = bool(known and standing and codec.loads(standing)["command_id"] == known.id)
        counted = [Failure(int(at), CountedFailure(*codec.loads(about)[:OF_FAILURE])) for about, at in failures]
        seen = Seen(known, stands, counted, _read_probe(probe))
        return _Read(series, pause, raw or b"", f"was {due:.0f}" if due is not None else "was ", seen)

    def _do(self, read: _Read, found: Next) -> bool:
        """Carry out a decision. Returns whether the pause of the repository has changed."""
        known = found.breaker
        if found.what is What.GIVE and known:
            return self._give(read, known, found.look)
        if found.what is What.REMIND and known:
            self._remind(self._live(known))
        if found.what is What.NOTHING or found.what is What.FORGET or known is None:
            self._put(read, read.raw if found.what is What.WAIT else b"", found.look, forget=found.what is What.FORGET)
            return False
        if found.what is What.REMIND:
            self._put(read, known.encode(), found.look)
            return False
        return self._change(read, known, found)

    def _give(self, read: _Read, known: Breaker, look: int) -> bool:
        """Let one of the repository's plans start a probe step. Return whether its pause has changed.

        Without live plans, the breaker closes. If no plan can start a step, it looks again at `look`.
        """
        live = self._live(known)
        if not live:
            return self._do(read, breaker.close(known, breaker.NO_PLAN, now_ms(self.client)))
        given = breaker.give(known, self._able(live), now_ms(self.client))
        if given is None:
            self._put(read, read.raw, look)
            return False
        due = given.given + breaker.GRACE_MS
        if not self._put(read, given.encode(), due, pause=given.pause(self.terms)):
            return False
        self._remind([given.plan])
        HERE.count(metrics.BREAKERS, "let_through")
        log.info("breaker lets a step through", extra={"repo": known.repo, "plan_id": given.plan})
        return True

    def _change(self, read: _Read, known: Breaker, found: Next) -> bool:
        """Trip or close a breaker, or withdraw the probe step that it had let through."""
        closes, trips = found.what is What.CLOSE, found.what is What.TRIP
        events: tuple[Any, ...] = ()
        why = found.why or known.why
        if closes or trips:
            kind = event_type("repository.paused") if trips else event_type("repository.resumed")
            events = (kind, self._event(known, why))
        pause = b"" if closes else known.pause(self.terms)
        told = known.plans[-1] if trips else ""
        if not self._put(read, known.encode(), found.look, pause=pause, forget=closes, told=told, events=events):
            return False
        if closes or trips:
            HERE.count(metrics.BREAKERS, "closed" if closes else "tripped")
            about = {"repo": known.repo, "tenant": known.tenant, "reason": why}
            log.warning("breaker closed" if closes else "breaker tripped", extra=about)
        return True

    def _put(
        self,
        read: _Read,
        record: bytes,
        look: int,
        *,
        pause: bytes | None = None,
        forget: bool = False,
        told: str = "",
        events: Sequence[Any] = (),
    ) -> bool:
        """Write a breaker, and its pause if given, unless the stored one has changed. Return whether it did so."""
        part = self.partition
        call = ("FCALL", functions.CHANGE_BREAKER, 2, part.scopes, part.events, read.series, read.raw, record)
        about = (read.pause, "-" if pause is None else pause, look or read.was, int(forget), now_ms(self.client), told)
        return bool(functions.call(self.client, *call, *about, EVENTS_CAP, *events))

    def _event(self, known: Breaker, why: str) -> bytes:
        """Return the JSON of an event that reports a change of a repository's breaker."""
        about = {"tenant": known.tenant, "repo": known.repo, "signature": known.signature, "command_id": known.id}
        return codec.dumps({**about, "actor": breaker.ACTOR, "reason": why, "at": rfc3339(now_ms(self.client))})

    def _live(self, known: Breaker) -> list[str]:
        """Return the plans of a repository that have not ended, the running ones first."""
        part = self.partition
        pipeline = self.client.pipeline(transaction=False)
        for state in LIVE:
            pipeline.zinter([part.list_of(f"state:{state}"), f"{part.plans}:{list_name(f'repo:{known.repo}')}"])
        plans = [plan_id.decode() for found in pipeline.execute() for plan_id in found]
        ours = []
        for page in batches(plans, PLANS_AT_ONCE):
            pipeline = self.client.pipeline(transaction=False)
            for plan_id in page:
                pipeline.hget(part.plan(plan_id).plan, "head")
            heads = zip(page, pipeline.execute(), strict=True)
            ours += [plan for plan, head in heads if head and PlanHead.decode(head).tenant == known.tenant]
        return ours

    def _able(self, plans: Sequence[str]) -> list[str]:
        """Return the plans without a controller at work that have a step to start or to claim."""
        able = []
        for page in batches(plans, PLANS_AT_ONCE):
            pipeline = self.client.pipeline(transaction=False)
            for plan_id in page:
                k = self.partition.plan(plan_id)
                pipeline.zcard(k.ready)
                pipeline.hkeys(k.active)
                pipeline.hget(k.plan, "live")
            found = pipeline.execute()
            waiting: dict[str, list[bytes]] = {
                plan_id: active
                for plan_id, ready, active, live in zip(page, found[::3], found[1::3], found[2::3], strict=True)
                if (ready or active) and not _is_kept_back(codec.loads(live or b"{}"))
            }
            at_work = self._at_work(waiting)
            able += [plan_id for plan_id in waiting if plan_id not in at_work]
        return able

    def _at_work(self, active: Mapping[str, Sequence[bytes]]) -> set[str]:
        """Return the plans with a step in flight that a controller has claimed."""
        pipeline = self.client.pipeline(transaction=False)
        asked = [(plan_id, step.decode()) for plan_id, steps in active.items() for step in steps]
        for plan_id, step_id in asked:
            pipeline.hget(self.partition.lease_prefix(plan_id) + step_id, "claimed")
        return {plan_id for (plan_id, _), claimed in zip(asked, pipeline.execute(), strict=True) if claimed}

    def _remind(self, plans: Sequence[str]) -> None:
        for page in batches(plans, PLANS_AT_ONCE):
            call = ("FCALL", functions.REMIND, 1, self.partition.timers, now_ms(self.client), 1, *page)
            functions.call(self.client, *call)


def _is_kept_back(live: Mapping[str, Any]) -> bool:
    """Return whether a plan has another hold than the breaker's pause: a person's pause, or files of other plans."""
    return bool(live.get("paused")) or read_part(live, Claims).hold_plan


def _read_probe(raw: bytes | None) -> tuple[int, ProbeNews] | None:
    at, _, news = (raw or b"").partition(b" ")
    return (int(at), ProbeNews(*codec.loads(news)[:OF_PROBE])) if news else None
