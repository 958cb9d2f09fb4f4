"""Obeys bulk commands: commands about more than one plan, for current and later plans.

The command is written first; then every plan in the scope becomes due, and the next sweep decides about it. A
decision that was made before and is not written yet becomes stale. Commands are obeyed in order, by one worker at a
time. After an interruption a command is obeyed again from the start, which changes nothing that was done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from schemas import codec
from schemas.command import Command, CommandName
from schemas.envelope import Problem
from schemas.event import event_type
from schemas.stored import PlanHead
from schemas.times import rfc3339
from tasks.base.errors import PlannerError
from tasks.handlers import bulk_commands
from tasks.plan.lifecycle import PLAN_ENDS
from worker.engine.admission import Quota
from worker.store import audit, functions, keys, publishing
from worker.store.clients import now_ms
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition, partition_of
from worker.store.plans import EVENTS_CAP
from worker.streams.decode import read_command
from worker.streams.inbox import Inbox, StreamEntry
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE

log = logging.getLogger("planner.wide")

PAGE = 256
REUSED = "its id was used for another command: take a new one"
LOCK_MS = 5000  # renewed before every page of plans


class LostLock(PlannerError):
    """Another worker obeys bulk commands now, because this worker took too long."""


@dataclass(eq=False, repr=False)
class BulkCommands:
    """Obeys the commands of `planner:commands`. One per process; not for several threads at once."""

    client: Redis
    inbox: Inbox
    quota: Quota
    token: str
    max_failures: int
    note_lifted: Callable[[Redis, Partition, Sequence[str]], None]  # called with the names of removed records

    @cached_property
    def partitions(self) -> list[Partition]:
        """All partitions of the server."""
        return [Partition(number) for number in range(self.quota.partitions)]

    def drain(self) -> bool:
        """Obey commands in order, unless another worker does. Returns whether some may be left."""
        try:
            self._hold()
            self.inbox.take_over(0)  # the worker that had read them has lost its lock
            entries = [*self.inbox.read(after="0"), *self.inbox.read(count=PAGE)]
            done = all(map(self._try, entries))  # after a failure, later commands wait
            functions.call(self.client, "FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, self.token, 0)
        except LostLock:
            return False
        except FunctionsMissing:
            functions.load(self.client)
            return True
        return bool(entries) or not done

    def _hold(self) -> None:
        """Take or renew the lock. Raises LostLock if another worker has it."""
        call = ("FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, self.token, LOCK_MS)
        if not functions.call(self.client, *call):
            raise LostLock

    def _try(self, entry: StreamEntry) -> bool:
        """Process one command.

        An internal error is counted against it; after too many it is dead-lettered as poison.
        """
        try:
            self._take(entry)
        except (LostLock, FunctionsMissing, NoConnection, TookTooLong):
            raise
        except Exception:
            log.exception("command failed", extra={"entry": entry.entry_id.decode()})
            removal = self.inbox.count_failure(entry, keys.COMMANDS_FAILURES, self.max_failures)
            if not removal:
                return False
            self._dead(entry, "poison", removal)
        return True

    def _take(self, entry: StreamEntry) -> None:
        found = read_command(entry) if entry.fields else None
        if isinstance(found, Problem):
            self._dead(entry, found.code, self.inbox.dead_letter(entry, found))
            return
        if found and found.scope in bulk_commands.WIDE:
            self._obey(found, entry.field("source"))
        elif found:
            partition = Partition(partition_of(str(found.plan_id), len(self.partitions)))
            self.inbox.forward(entry, partition.commands)
            return
        functions.call_each(self.client, self.inbox.drop((entry,)))

    def _dead(self, entry: StreamEntry, code: str, removal: Sequence[Any]) -> None:
        log.warning("entry dead", extra={"stream": entry.stream, "entry": entry.entry_id.decode(), "code": code})
        functions.call_each(
            self.client, [*removal, ("FCALL", functions.COUNT, 1, keys.COMMANDS_STATS, "dead", 1, f"dead:{code}", 1)]
        )
        HERE.count(metrics.DEAD, code)

    def _obey(self, command: Command, source: str | None) -> None:
        self._hold()
        now = now_ms(self.client)
        if (is_same := publishing.is_known_alike(self.client, command)) is not None:
            self._announce(command, "known" if is_same else "refused", None if is_same else REUSED, now)
            return
        refusal = self._do(command, now)
        if not refusal:
            self._look_again(bulk_commands.scope_of(command), now)
        self._announce(command, "refused" if refusal else "obeyed", refusal or command.reason, now)
        became = (audit.REFUSED, refusal) if refusal else (audit.DONE, command.reason)
        functions.call(self.client, *audit.call_of_command(command, source, *became))
        publishing.keep_known(self.client, command)

    def _do(self, command: Command, now: int) -> str | None:
        """Apply a bulk command to all partitions. Return the reason if the command is refused, else None."""
        if command.command is CommandName.TOP_UP:
            refusal = self.quota.top_up(bulk_commands.scope_of(command), command, now)
            for part in [] if refusal else self.partitions:
                self._stand(part, [], {})
            return refusal
        if command.command is CommandName.RESUME:
            gone = [self._lift(part, command) for part in self.partitions]
            return None if any(gone) else "nothing is paused or halted in this scope"
        if bulk_commands.is_over(command, now):
            return "`until` is over"
        for part in self.partitions:
            found: Any = self.client.hgetall(part.scopes)
            self._stand(part, bulk_commands.find_over(found, now), bulk_commands.record(command, now, found))
        return None

    def _lift(self, part: Partition, command: Command) -> int:
        """Remove the partition's bulk commands that a resume command ends. Return their number."""
        found: Any = self.client.hgetall(part.scopes)
        lifted = bulk_commands.lift(command, found)
        count = self._stand(part, lifted, {})
        self.note_lifted(self.client, part, lifted)
        return count

    def _stand(self, part: Partition, lifted: Sequence[str | bytes], kept: Mapping[str, bytes]) -> int:
        """Remove the bulk commands `lifted` from a partition, and add `kept`. Return the number of removed ones."""
        pairs = [each for pair in kept.items() for each in pair]
        call = ("FCALL", functions.PAUSE_SCOPE, 1, part.scopes, len(lifted), *lifted, *pairs)
        return int(functions.call(self.client, *call))

    def _look_again(self, scope: str, now: int) -> None:
        """Schedule each live plan in `scope` for the next sweep."""
        for part in self.partitions:
            cursor: int | None = None
            while cursor != 0:  # ZSCAN yields every plan that exists throughout, regardless of changes meanwhile
                reply: Any = self.client.zscan(part.plans, cursor or 0, count=PAGE)
                cursor, found = reply
                plan_ids = [plan_id.decode() for plan_id, _ in found]
                self._hold()
                pipeline: Any = self.client.pipeline(transaction=False)
                for plan_id in plan_ids:
                    pipeline.hmget(part.plan(plan_id).plan, "state", "head")
                plans = zip(plan_ids, pipeline.execute(), strict=True)
                if due := [plan_id for plan_id, (state, head) in plans if _is_in(scope, state, head)]:
                    functions.call(self.client, "FCALL", functions.REMIND, 1, part.timers, now, 1, *due)

    def _announce(self, command: Command, what: str, reason: str | None, now: int) -> None:
        """Write the event and the log line about the result of a command."""
        scope = bulk_commands.scope_of(command)
        said: dict[str, str | None] = {"command_id": command.command_id, "command": command.command.value}
        said |= {"actor": command.actor, "scope": scope, "reason": reason, "at": rfc3339(now)}
        said |= bulk_commands.named_by(scope)
        data = codec.dumps({name: value for name, value in said.items() if value is not None})
        log.info("command", extra={"command": command.command.value, "scope": scope, "verdict": what})
        call = ("FCALL", functions.ADD, 1, self.partitions[0].events, EVENTS_CAP)
        functions.call(self.client, *call, "type", event_type(f"command.{what}"), "data", data)


def _is_in(scope: str, state: bytes | None, head: bytes | None) -> bool:
    """Return whether a plan is in `scope` and has not ended."""
    if not state or not head or state.decode() in PLAN_ENDS:
        return False
    known = PlanHead.decode(head)
    return bulk_commands.reaches(scope, known.tenant, known.repo)
