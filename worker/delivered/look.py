"""Looks at a delivered change: reads the forge, decides, stores the resulting tasks, and does them.

A webhook only causes a look, which reads the forge itself. So a lost webhook only delays a look. Only one worker at a
time does the tasks of a change. If that worker dies, another one repeats them after LEASE_MS: an event may come twice
then, an answer does not. If another look was faster, this one does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import Mode, StepType
from schemas.command import Command, CommandName, Scope
from schemas.delivered import DeliveryState
from schemas.event import event_type
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange, FollowUp
from schemas.times import rfc3339
from tasks.delivered.decide import (
    DAY_MS,
    IN_FLIGHT_MS,
    UNFOLLOWED_DAYS,
    Terms,
    decide,
    hand_over,
    has_ended,
    has_news,
    is_stale,
    next_look,
)
from tasks.delivered.seen import SeenChange, Stale
from tasks.memory.flaky_tests import recall
from tasks.plan.file_claims import REVIEW
from tasks.toolchain.command_lines import split_commands
from worker.delivered.github import GitHub
from worker.delivered.gitlab import GitLab
from worker.delivered.reading import ChangeReader, Writers
from worker.sources.retry import NoRetry, follow_up_of
from worker.store import delivered_changes, file_claims, flaky_memory, kept_goals, queries
from worker.store.clients import now_ms
from worker.store.delivered_changes import Kept
from worker.store.keys import Partition, partition_of
from worker.store.publishing import publish_command, publish_goal
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE
from worker.webhooks.forge import Forge, ForgeRefuses
from worker.webhooks.sources_file import Delivered, Scheme, Source, SourcesFile

log = logging.getLogger("planner.delivered")

NOBODY_FOLLOWS_S = 3600.0
OVERTAKEN_S, BUSY_S = 1.0, 5.0
LEASE_MS = 180_000  # more than a look takes (WHOLE_S of worker/webhooks/forge.py)
ALWAYS = ("announce", "cancel")  # tasks that write nothing at the forge
GOAL_FIELDS = ("callback", "holdout", "mend", "overlap")  # of the first goal, which follow-ups keep
ENDS = (DeliveryState.MERGED, DeliveryState.CLOSED, DeliveryState.REVERTED)
LEAST_TOKENS = 1000  # that a goal may ask for; a plan that needs more is refused
TELLS = {
    DeliveryState.CHECKS_RED: "plan.checks_red",
    DeliveryState.CHANGES_ASKED: "plan.changes_asked",
    DeliveryState.MERGED: "plan.merged",
    DeliveryState.CLOSED: "plan.closed",
    DeliveryState.REVERTED: "plan.reverted",
}
READERS: Mapping[Scheme, Callable[[Forge, str, Writers], ChangeReader]] = {Scheme.GITHUB: GitHub, Scheme.GITLAB: GitLab}


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at delivered changes at their forges; `file` (PLANNER_WEBHOOKS_FILE) describes the forges."""

    client: Redis
    partitions: int
    file: Path | None
    writers: Writers = field(default_factory=Writers)

    def look(self, plan_id: str, is_asked: bool = False) -> float | None:
        """Look at the change of a plan. Return the seconds until the next look, None for no further look.

        While a follow-up plan works, only its goal's record is read; the forge is read every `poll_s`, or if
        `is_asked`. Raises ForgeAway if the forge does not answer, ForgeRefuses if it refuses, and WrongSources if the
        file cannot be read.
        """
        kept = delivered_changes.read(self.client, plan_id)
        if kept is None:
            return None
        source = SourcesFile.read(self.file).following(kept.change.tenant, kept.change.repo) if self.file else None
        now = now_ms(self.client)
        if source is None or source.delivered is None:
            self._release(kept.change)
            age = now - kept.change.times[kept.change.state]
            return NOBODY_FOLLOWS_S if age < UNFOLLOWED_DAYS * DAY_MS else None
        if kept.change.busy_until > now:
            return BUSY_S
        terms = _terms(source, source.delivered)
        if not is_asked and now < kept.looked + terms.poll_ms and self._is_at_work(kept.change, terms):
            return IN_FLIGHT_MS / 1000
        with Forge(source) as forge:
            reader = READERS[source.scheme](forge, kept.change.repo, self.writers)
            return self._look(kept, reader, terms, source.delivered, now)

    def _is_at_work(self, change: DeliveredChange, terms: Terms) -> bool:
        """Return whether the change only waits for its follow-up plan to end."""
        is_waiting = bool(change.in_flight) and not _due(change, terms)
        return is_waiting and not any(map(has_ended, self._ends(change).values()))

    def _look(self, kept: Kept, reader: ChangeReader, terms: Terms, allowed: Delivered, now: int) -> float | None:
        change = kept.change
        seen = reader.read(change)
        delivered_changes.note_look(self.client, change, now)
        if seen is None:  # a branch without a pull request, or with one of its own time to come
            return allowed.poll_s if now - change.times[change.state] < UNFOLLOWED_DAYS * DAY_MS else None
        if has_news(change, seen, now) and terms.acts:
            seen = replace(seen, failure=reader.failure(seen))
        if terms.acts and seen.is_open and terms.lands_if is not Stale.NO and not change.handed_over:
            seen = replace(seen, stale=_stale(reader, seen))
        ends, flaky, version = self._ends(change), self._flaky(change, now), kept.version
        may_land = is_stale(change, seen, terms) and delivered_changes.take_turn(self.client, change)
        found = decide(change, seen, ends, flaky, terms, now, may_land)
        if due := _due(found, terms):
            found.busy_until = now + LEASE_MS
        if found != change:
            if not delivered_changes.keep(self.client, version, found):
                return OVERTAKEN_S
            version += 1
        if found.state in ENDS:
            self._release(found)
        self._note_turn(found)
        self._hold_new_work(found, allowed.max_open_changes, now)
        self._do_all(found, version, due, reader, allowed)
        wait_ms = next_look(found, seen, terms, now)
        return None if wait_ms is None else wait_ms / 1000

    def _note_turn(self, change: DeliveredChange) -> None:
        """Keep the repository's turn to land again while the change uses it, else release the turn."""
        current = change.in_flight
        if current and current.why == "target":
            delivered_changes.take_turn(self.client, change)
        else:
            delivered_changes.end_turn(self.client, change)

    def _do_all(
        self, change: DeliveredChange, version: int, due: list[Act], reader: ChangeReader, allowed: Delivered
    ) -> None:
        """Do the due tasks and store the change with the remaining ones; a task that the forge refuses is given up."""
        if not due:
            return
        try:
            for act in due:
                try:
                    is_done = self._do(change, act, reader, allowed)
                except (ForgeRefuses, NoRetry) as error:
                    log.warning("change not answered", extra={"plan_id": change.plan_id, "reason": str(error)})
                    _give_up(change, act, str(error))
                    is_done = True
                if is_done:
                    change.todo.remove(act)
        finally:
            change.busy_until = 0
            delivered_changes.keep(self.client, version, change)

    def _do(self, change: DeliveredChange, act: Act, reader: ChangeReader, allowed: Delivered) -> bool:
        """Do a task; returns False if it has to wait."""
        if act.kind == "cancel":
            return self._cancel(change, _follow_up(change, act), act.text)
        if act.kind == "announce":
            self._announce(change, act)
        elif act.kind == "follow_up":
            self._publish(change, _follow_up(change, act), allowed)
        elif act.kind == "answer":
            reader.answer(change, act.about, act.text)
        elif act.kind == "comment":
            reader.comment(change, act.text)
        elif act.kind == "ready":
            reader.set_ready(change)
        else:
            reader.run_again(act.about)
        return True

    def _publish(self, change: DeliveredChange, wanted: FollowUp, allowed: Delivered) -> None:
        """Send the goal of a follow-up plan once. Raises NoRetry if the delivered plan is not stored any more."""
        plan = queries.summary(self.client, self.partitions, change.plan_id)
        if plan is None:
            raise NoRetry("plan_not_kept", f"{change.plan_id} is not kept any more.")
        kept = kept_goals.read(self.client, self.partitions, change.plan_id).body
        made = follow_up_of(plan, kept, wanted.text, wanted.goal_id, ()).body
        if wanted.why == "target":
            made |= self._steps_again(change.plan_id, made["context"].get("test_command"))
        failed = {"failing_tests": wanted.failing_tests, "failure_log": wanted.log}
        context = made["context"] | {"base_sha": wanted.head} | {name: said for name, said in failed.items() if said}
        tokens = plan.budget.tokens
        left = int((tokens.limit or tokens.spent) * allowed.token_share) - self._spent(change)
        body = {
            **made,
            **{name: kept[name] for name in GOAL_FIELDS if kept.get(name) is not None},
            "context": context,
            "delivery": {**(kept.get("delivery") or {}), "onto": change.plan_id, "again": wanted.why == "target"},
            "limits": {**(kept.get("limits") or {}), "tokens": max(LEAST_TOKENS, left)},
        }
        publish_goal(self.client, codec.dumps(body), wanted.goal_id, change.tenant, once=True)
        wanted.failing_tests, wanted.log = [], ""  # the goal has them
        HERE.count(metrics.CHANGE_ROUNDS, wanted.why)
        log.info("change gets a follow-up", extra={"plan_id": change.plan_id, "goal_id": wanted.goal_id})

    def _steps_again(self, plan_id: str, test_command: str | None) -> dict[str, Any]:
        """Return the only step of a plan that lands again: it runs the verification of the plan's landing.

        Without such a verification, it runs the goal's test command. Raises NoRetry if there is neither.
        """
        plan = queries.plan(self.client, self.partitions, plan_id)
        landings = [each.verify for each in plan.steps if each.type is StepType.LAND] if plan else []
        if not (verify := (landings and landings[-1]) or test_command):
            raise NoRetry("no_verification", f"The landing of {plan_id} verified nothing.")
        step = {
            "step_id": "verify",
            "title": "Verify the branch",
            "intent": "Run the last verification of the plan on its branch.",
            "mode": Mode.TEST,
            "verify": split_commands(verify),
        }
        return {"steps": [step]}

    def _spent(self, change: DeliveredChange) -> int:
        """Return the number of tokens that the follow-up plans of a change have used."""
        plans = [each.plan_id for each in change.follow_ups if each.plan_id]
        found = [queries.summary(self.client, self.partitions, plan_id) for plan_id in plans]
        return sum(each.budget.tokens.spent for each in found if each)

    def _cancel(self, change: DeliveredChange, wanted: FollowUp, why: str) -> bool:
        """Cancel a follow-up plan. Return False while its goal may still get a plan, so that the task has to wait."""
        answer = queries.goal(self.client, wanted.goal_id, change.tenant)
        if answer is None:
            return False
        wanted.plan_id = answer.plan_id or wanted.plan_id
        if answer.plan_id and not answer.ended_at:
            command = Command(
                command_id=f"delivered-{wanted.goal_id}"[:200],
                command=CommandName.CANCEL,
                scope=Scope.PLAN,
                plan_id=answer.plan_id,
                actor="planner",
                reason=why,
            )
            publish_command(self.client, self.partitions, command, "webhook")
        return bool(answer.plan_id) or has_ended(answer)

    def _release(self, change: DeliveredChange) -> None:
        """Release the files that the plans of a change still claim."""
        for plan_id in change.plans:
            partition = Partition(partition_of(plan_id, self.partitions))
            is_merged = plan_id == change.plan_id and change.state is DeliveryState.MERGED
            file_claims.release(self.client, partition, plan_id, is_merged=is_merged)

    def _hold_new_work(self, change: DeliveredChange, most: int | None, now: int) -> None:
        """Let the repository take no new work while it has `most` open changes or more; None means no limit."""
        count, open_plan = delivered_changes.count_open(self.client, change, now)
        partition = Partition(partition_of(change.plan_id, self.partitions))
        full = open_plan if most and count >= most else ""
        file_claims.set_claim(self.client, partition, (change.tenant, change.repo), REVIEW, full)

    def _ends(self, change: DeliveredChange) -> dict[str, GoalAnswer]:
        current = change.in_flight
        answer = queries.goal(self.client, current.goal_id, change.tenant) if current else None
        return {current.goal_id: answer} if current and answer else {}

    def _flaky(self, change: DeliveredChange, now: int) -> frozenset[str]:
        seen = flaky_memory.read(self.client, self.partitions, change.tenant, change.repo)
        return frozenset(recall({f"{each.day} {each.test}": each.times for each in seen}, now).flaky)

    def _announce(self, change: DeliveredChange, moved: Act) -> None:
        """Count a change's move to another state, and send the event and the callbacks about it."""
        after = DeliveryState(moved.text)
        HERE.count(metrics.CHANGES, after)
        if after is DeliveryState.MERGED:
            HERE.observe(metrics.CHANGE_SECONDS, (moved.at - change.times[DeliveryState.OPEN]) / 1000)
        data: dict[str, Any] = {"plan_id": change.plan_id, "goal_id": change.goal_id, "tenant": change.tenant}
        data |= {"repo": change.repo, "from": moved.about, "to": after, "branch": change.branch}
        event = event_type("plan.delivery_changed"), codec.dumps({**data, "at": rfc3339(moved.at)})
        partition = Partition(partition_of(change.plan_id, self.partitions))
        delivered_changes.announce(self.client, partition, change, moved.at, TELLS.get(after, ""), event)
        log.info("change moved", extra={"plan_id": change.plan_id, "from": moved.about, "to": after})


def _terms(source: Source, allowed: Delivered) -> Terms:
    """Return the operator's limits for follow-up plans; without a token for the forge, the planner makes none."""
    does = allowed.follow_up and source.has_token
    return Terms(
        allowed.check_rounds if does else 0,
        1000 * allowed.quiet_s,
        1000 * allowed.poll_s,
        does,
        allowed.land_again,
        allowed.land_rounds,
    )


def _stale(reader: ChangeReader, seen: SeenChange) -> Stale:
    """Return whether an open change conflicts with its target branch or is behind it; NO if the forge refuses."""
    try:
        return reader.stale(seen)
    except ForgeRefuses as error:
        log.warning("target not compared", extra={"number": seen.number, "reason": str(error)})
        return Stale.NO


def _due(change: DeliveredChange, terms: Terms) -> list[Act]:
    return [act for act in change.todo if terms.acts or act.kind in ALWAYS]


def _follow_up(change: DeliveredChange, act: Act) -> FollowUp:
    return next(each for each in change.follow_ups if each.goal_id == act.about)


def _give_up(change: DeliveredChange, act: Act, why: str) -> None:
    """Record that a task cannot be done. If it was to make a follow-up plan, people have to continue the change."""
    if act.kind == "follow_up":
        _follow_up(change, act).ended = True
        hand_over(change, why.rstrip("."))
