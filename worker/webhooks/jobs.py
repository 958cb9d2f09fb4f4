"""Does the remaining work for webhooks in a worker: completes a goal, cancels an older one, looks at delivered changes.

A job is an entry of a stream. A job that has to wait is postponed and returns; a job of a dead worker is taken over. A
worker takes the forge's address and token from PLANNER_WEBHOOKS_FILE, never from a job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from schemas import codec
from schemas.base import GoalVerdict
from schemas.command import Command, CommandName, Scope
from schemas.envelope import Problem
from worker.store import functions, goal_record, keys, webhook_events
from worker.store.functions import FunctionsMissing
from worker.store.publishing import publish_command
from worker.streams.inbox import Inbox, StreamEntry
from worker.streams.internal_error import is_passing, report_failure
from worker.webhooks.failures import failures_of
from worker.webhooks.forge import Forge, ForgeAway, ForgeRefuses
from worker.webhooks.listing import wanted_manifests, with_files, with_instructions, with_manifests
from worker.webhooks.sources_file import SourcesFile, WrongSources

log = logging.getLogger("planner.webhooks")

T = TypeVar("T")

DRAIN_S = 1.0  # after which a drain gives its place in the pool back, when the job in hand is done
RENEW_S = 10.0
PAGE = 100
ASK_AGAIN_S = (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)  # after failures in a row of a forge; then no more
LOOK_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # pauses between looks for the plan to cancel; the last one repeats
MOST_ONCE_S = 10.0  # limit for looks that a webhook requests; later ones belong to polling
MOST_LOOKS = 1500  # about a day


class _Later(Exception):
    """The job has to wait for `delay_s` seconds; the message is the reason."""

    def __init__(self, why: str, delay_s: float) -> None:
        super().__init__(why)
        self.delay_s = delay_s


class _Hopeless(Exception):
    """The job cannot be done; the message is the reason."""


@dataclass(eq=False, repr=False)
class WebhookJobs:
    """Does the jobs one by one. One per process and thread."""

    client: Redis
    inbox: Inbox
    partitions: int
    file: Path | None
    max_failures: int
    claim_idle_s: float
    retention_s: int
    look: Callable[[str, bool], float | None]  # at a plan's change, at once if asked to; returns seconds until the next

    def drain(self, share: float = 1.0) -> bool:
        """Do jobs until none is left, or for the part `share` of DRAIN_S. Return whether some jobs may be left."""
        end = time.monotonic() + DRAIN_S * share
        webhook_events.wake_postponed(self.client, PAGE)
        while time.monotonic() < end:
            entries = self.inbox.read(count=1)
            if not entries:
                return False
            self._try(entries[0])
        return True

    def recover(self, idle_ms: int) -> None:
        """Take over the jobs of dead workers; do these, and the jobs that this worker has not finished."""
        self.inbox.take_over(idle_ms)
        last = "0"
        while entries := self.inbox.read(count=1, after=last):
            last = entries[0].entry_id.decode()
            self._try(entries[0])

    def _try(self, entry: StreamEntry) -> None:
        """Do one job. After too many passing failures it is dead-lettered.

        A job with an internal error is dead-lettered at once, and the record of its goal has the reason.
        """
        try:
            with self.inbox.renewal((entry,), min(RENEW_S, self.claim_idle_s / 3)):
                self._take(entry)
        except FunctionsMissing:
            functions.load(self.client)
            self._try(entry)
        except (NoConnection, TookTooLong):
            raise
        except Exception as error:
            if is_passing(error):
                log.warning("webhook job not done yet", extra={"entry": entry.entry_id.decode()}, exc_info=error)
                functions.call_each(
                    self.client, self.inbox.count_failure(entry, keys.WEBHOOK_FAILURES, self.max_failures)
                )
            else:
                self._fail(entry, error)

    def _fail(self, entry: StreamEntry, error: Exception) -> None:
        """Dead-letter a job after an internal error, and record why there is no plan of its goal."""
        goal: dict[str, Any] = {}
        with suppress(codec.DecodeError, KeyError, TypeError):
            goal = codec.loads(entry.data or b"")["goal"]
        goal_id, tenant = goal.get("goal_id", ""), goal.get("tenant", keys.NO_TENANT)
        problem = report_failure(error, entry.entry_id.decode(), goal_id)
        if goal_id:
            goal_record.refuse(self.client, keys.goal_id(goal_id, tenant), problem, self.retention_s)
        functions.call_each(self.client, self.inbox.dead_letter(entry, problem))

    def _take(self, entry: StreamEntry) -> None:
        if not entry.data:
            functions.call_each(self.client, self.inbox.drop((entry,)))
            return
        job: dict[str, Any] = codec.loads(entry.data)
        if "delivered" in job:
            self._look(entry, job)
            return
        try:
            if "cancels" in job:
                self._cancel(job)
                functions.call_each(self.client, self.inbox.drop((entry,)))
            else:
                self._complete(entry, job)
        except _Later as later:
            said = {"reason": str(later), "delay_s": later.delay_s, "source": job.get("source")}
            log.log(logging.DEBUG if "cancels" in job else logging.WARNING, "webhook job waits", extra=said)
            again = codec.dumps({**job, "tries": job.get("tries", 0) + 1})
            webhook_events.postpone(self.client, entry.entry_id, again, later.delay_s)
        except _Hopeless as why:
            problem = Problem.of("forge_lookup_failed", str(why), status=502)
            log.warning("webhook job dead", extra={"reason": str(why), "source": job.get("source")})
            functions.call_each(self.client, self.inbox.dead_letter(entry, problem))

    def _look(self, entry: StreamEntry, job: Mapping[str, Any]) -> None:
        """Look at a delivered change, and schedule the next look while its state may change.

        A forge that refuses is asked again too, since an operator may replace the token. The job of a webhook only
        schedules a look that is due soon.
        """
        tries = 0
        try:
            wait_s = self.look(job["delivered"], bool(job.get("once")))
        except (ForgeAway, ForgeRefuses, WrongSources) as error:
            tries = job.get("tries", 0) + 1
            asked = error.retry_after_s if isinstance(error, ForgeAway) else 0.0
            wait_s = max(asked, ASK_AGAIN_S[min(tries, len(ASK_AGAIN_S)) - 1])
            log.warning("change not looked at", extra={"plan_id": job["delivered"], "reason": str(error)})
        if wait_s is None or (job.get("once") and (tries or wait_s > MOST_ONCE_S)):
            functions.call_each(self.client, self.inbox.drop((entry,)))
            return
        again = {name: said for name, said in job.items() if name != "tries"} | ({"tries": tries} if tries else {})
        webhook_events.postpone(self.client, entry.entry_id, codec.dumps(again), wait_s)

    def _complete(self, entry: StreamEntry, job: Mapping[str, Any]) -> None:
        """Complete the goal with the forge's data, and send it unless a newer goal overtook it."""
        goal = self._asked(job)
        sent = webhook_events.send_completed(self.client, entry.entry_id, goal["goal_id"], codec.dumps(goal))
        said = {1: "webhook goal sent", 0: "webhook goal overtaken", -1: "webhook job done by another"}[sent]
        log.info(said, extra={"goal_id": goal["goal_id"], "source": job["source"]})

    def _asked(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the goal of a job with the forge's data. Raises _Later or _Hopeless."""
        goal: dict[str, Any] = job["goal"]
        tries, context = job.get("tries", 0), goal["context"]
        found: dict[str, Any] = {}
        try:
            source = SourcesFile.read(self.file).named(job["source"]) if self.file else None
            if source is None:
                raise ForgeAway(f"This worker's PLANNER_WEBHOOKS_FILE has no source {job['source']}.")
            with Forge(source) as forge:

                def read(paths: Sequence[str]) -> Mapping[str, str]:
                    return _told(job, lambda: forge.texts(context["repo"], context["base_sha"], paths)) or {}

                if job["files"] and (tree := _told(job, lambda: forge.files(context["repo"], context["base_sha"]))):
                    goal = with_files(goal, tree.files, are_all=tree.is_whole)
                    goal = with_instructions(goal, tree.files if tree.is_whole else (), read)
                if job["failures_of"]:
                    found = _told(job, lambda: failures_of(forge, context["repo"], job["failures_of"])) or {}
                goal = {**goal, "context": found | goal["context"]}
                if wanted := wanted_manifests(goal):
                    goal = with_manifests(goal, read(wanted))
            return goal
        except WrongSources as error:
            raise _later(tries, ForgeAway(str(error))) from error
        except ForgeAway as error:
            raise _later(tries, error) from error

    def _cancel(self, job: Mapping[str, Any]) -> None:
        """Cancel the plan of a goal that a webhook ended. Raises _Later while the goal has no verdict."""
        goal_id, tenant = job["cancels"], job["tenant"]
        found: Any = self.client.hmget(keys.goal_id(goal_id, tenant), "plan_id", "verdict", "ended_at")
        plan_id, verdict, ended = (each and each.decode() for each in found)
        if verdict is None and not webhook_events.is_withdrawn(self.client, goal_id):
            return  # it was never sent
        if verdict in (None, GoalVerdict.PENDING):
            if (tries := job.get("tries", 0)) >= MOST_LOOKS:
                log.warning("webhook goal never planned", extra={"goal_id": goal_id})
                return
            raise _Later(f"{goal_id} has no plan yet", LOOK_AGAIN_S[min(tries, len(LOOK_AGAIN_S) - 1)])
        if verdict in (GoalVerdict.PLANNED, GoalVerdict.NEEDS_INPUT) and plan_id and not ended:
            by = job["by"]
            reason = f"superseded_by {by}" if by else f"solved meanwhile, as the source {job['source']} reports"
            command = Command(
                command_id=f"webhook-{goal_id}",
                command=CommandName.CANCEL,
                scope=Scope.PLAN,
                plan_id=plan_id,
                actor=f"webhook {job['source']}",
                reason=reason,
            )
            publish_command(self.client, self.partitions, command, "webhook")
            log.info("webhook cancels", extra={"goal_id": goal_id, "plan_id": plan_id, "by": by})
        self.client.zrem(keys.WEBHOOK_WITHDRAWN, goal_id)


def _told(job: Mapping[str, Any], ask: Callable[[], T]) -> T | None:
    """Return the forge's answer; None if the forge refuses, or is away at the last try.

    Raises ForgeAway at any try before.
    """
    try:
        return ask()
    except (ForgeAway, ForgeRefuses) as error:
        if isinstance(error, ForgeAway) and job.get("tries", 0) < len(ASK_AGAIN_S):
            raise
        log.warning("webhook lookup failed", extra={"reason": str(error), "source": job["source"]})
        return None


def _later(tries: int, error: ForgeAway) -> Exception:
    """Return the error for a forge that is away: _Later with the pause, or _Hopeless at the last try.

    The pause is at least as long as the forge asks for.
    """
    if tries >= len(ASK_AGAIN_S):
        return _Hopeless(str(error))
    return _Later(str(error), max(ASK_AGAIN_S[tries], error.retry_after_s))
