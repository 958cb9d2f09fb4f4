"""One look at a delivered change: it reads the forge, decides, writes the tasks, and does them.

A webhook only causes a look, which reads the forge itself: a lost webhook delays a look and changes no result. Tasks
are written before they are done, and doing one twice changes nothing. A look that was overtaken does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redis import Redis

from schemas import codec
from schemas.command import Command, CommandName, Scope
from schemas.delivered import DeliveryState
from schemas.event import event_type
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange, FollowUp
from schemas.times import rfc3339
from tasks.delivered.decide import DAY_MS, UNFOLLOWED_DAYS, Moved, Terms, decide, next_look
from tasks.delivered.seen import Checks
from tasks.memory.flaky_tests import recall
from worker.delivered.github import GitHub
from worker.delivered.gitlab import GitLab
from worker.delivered.reading import ChangeReader
from worker.sources.retry import NoRetry, follow_up_of
from worker.store import delivered_changes, flaky_memory, kept_goals, queries
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
OVERTAKEN_S = 1.0
LEAST_TOKENS = 1000  # that a goal may ask for; a plan that needs more is refused
TELLS = {
    DeliveryState.CHECKS_RED: "plan.checks_red",
    DeliveryState.CHANGES_ASKED: "plan.changes_asked",
    DeliveryState.MERGED: "plan.merged",
    DeliveryState.CLOSED: "plan.closed",
    DeliveryState.REVERTED: "plan.reverted",
}
READERS: Mapping[Scheme, Callable[[Forge, str], ChangeReader]] = {Scheme.GITHUB: GitHub, Scheme.GITLAB: GitLab}


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at delivered changes at the forges of the sources of `file`."""

    client: Redis
    partitions: int
    file: Path | None

    def look(self, plan_id: str) -> float | None:
        """Look at the change of a plan; returns in how many seconds it is looked at again, None for never.

        Raises ForgeAway where the forge does not answer for now, WrongSources where the file cannot be read.
        """
        kept = delivered_changes.read(self.client, plan_id)
        if kept is None:
            return None
        source = SourcesFile.read(self.file).following(kept.change.repo) if self.file else None
        now = now_ms(self.client)
        if source is None or source.delivered is None:
            age = now - kept.change.times[kept.change.state]
            return NOBODY_FOLLOWS_S if age < UNFOLLOWED_DAYS * DAY_MS else None
        with Forge(source) as forge:
            return self._look(kept, READERS[source.scheme](forge, kept.change.repo), source, source.delivered, now)

    def _look(self, kept: Kept, reader: ChangeReader, source: Source, allowed: Delivered, now: int) -> float | None:
        change, terms = kept.change, _terms(source, allowed)
        seen = reader.read(change)
        if seen is None:  # a branch without a pull request, or with one of its own time to come
            return allowed.poll_s if now - change.times[change.state] < UNFOLLOWED_DAYS * DAY_MS else None
        if seen.checks is Checks.RED and seen.head not in change.seen and not change.in_flight and terms.acts:
            seen = replace(seen, failure=reader.failure(seen))
        found, moved = decide(change, seen, self._ends(change), self._flaky(change, now), terms, now)
        version = kept.version
        if found != change:
            if not delivered_changes.keep(self.client, version, found):
                return OVERTAKEN_S
            version += 1
        if moved:
            self._tell(found, moved)
        self._do_all(found, version, reader, allowed)
        wait_ms = next_look(found, seen, terms, now)
        return None if wait_ms is None else wait_ms / 1000

    def _do_all(self, change: DeliveredChange, version: int, reader: ChangeReader, allowed: Delivered) -> None:
        """Do the tasks, and write those that are left; a task that the forge refuses is given up."""
        if not change.todo:
            return
        left = list(change.todo)
        try:
            for act in change.todo:
                try:
                    self._do(change, act, reader, allowed)
                except (ForgeRefuses, NoRetry) as error:
                    log.warning("change not answered", extra={"plan_id": change.plan_id, "reason": str(error)})
                    _give_up(change, act, str(error))
                left.remove(act)
        finally:
            change.todo = left
            delivered_changes.keep(self.client, version, change)

    def _do(self, change: DeliveredChange, act: Act, reader: ChangeReader, allowed: Delivered) -> None:
        if act.kind == "follow_up":
            self._publish(change, next(each for each in change.follow_ups if each.goal_id == act.about), allowed)
        elif act.kind == "cancel":
            self._cancel(change, act)
        elif act.kind == "answer":
            reader.answer(change, act.about, act.text)
        elif act.kind == "comment":
            reader.comment(change, act.text)
        elif act.kind == "ready":
            reader.set_ready(change)
        else:
            reader.run_again(act.about)

    def _publish(self, change: DeliveredChange, wanted: FollowUp, allowed: Delivered) -> None:
        """Send the goal of a follow-up plan, once; raises NoRetry where the plan before it is not kept any more."""
        plan = queries.summary(self.client, self.partitions, change.plan_id)
        if plan is None:
            raise NoRetry("plan_not_kept", f"{change.plan_id} is not kept any more.")
        kept = kept_goals.read(self.client, self.partitions, change.plan_id).body
        made = follow_up_of(plan, kept, wanted.text, wanted.goal_id, ()).body
        failed = {"failing_tests": wanted.failing_tests, "failure_log": wanted.log}
        context = made["context"] | {"base_sha": wanted.head} | {name: said for name, said in failed.items() if said}
        limit = plan.budget.tokens.limit or 0
        left = int(limit * allowed.token_share) - self._spent(change)
        body = {
            **made,
            "context": context,
            "delivery": {**(kept.get("delivery") or {}), "onto": change.plan_id},
            **({"limits": {"tokens": max(LEAST_TOKENS, left)}} if limit else {}),
        }
        publish_goal(self.client, codec.dumps(body), wanted.goal_id, change.tenant, once=True)
        HERE.count(metrics.CHANGE_ROUNDS, wanted.why)
        log.info("change gets a follow-up", extra={"plan_id": change.plan_id, "goal_id": wanted.goal_id})

    def _spent(self, change: DeliveredChange) -> int:
        """Return how many tokens the follow-up plans have used."""
        plans = [each.plan_id for each in change.follow_ups if each.plan_id]
        found = [queries.summary(self.client, self.partitions, plan_id) for plan_id in plans]
        return sum(each.budget.tokens.spent for each in found if each)

    def _cancel(self, change: DeliveredChange, act: Act) -> None:
        answer = queries.goal(self.client, act.about, change.tenant)
        if answer and answer.plan_id and not answer.ended_at:
            command = Command(
                command_id=f"delivered-{act.about}"[:200],
                command=CommandName.CANCEL,
                scope=Scope.PLAN,
                plan_id=answer.plan_id,
                actor="planner",
                reason=act.text,
            )
            publish_command(self.client, self.partitions, command, "webhook")

    def _ends(self, change: DeliveredChange) -> dict[str, GoalAnswer]:
        current = change.in_flight
        answer = queries.goal(self.client, current.goal_id, change.tenant) if current else None
        return {current.goal_id: answer} if current and answer else {}

    def _flaky(self, change: DeliveredChange, now: int) -> frozenset[str]:
        seen = flaky_memory.read(self.client, self.partitions, change.tenant, change.repo)
        return frozenset(recall({f"{each.day} {each.test}": each.times for each in seen}, now).flaky)

    def _tell(self, change: DeliveredChange, moved: Moved) -> None:
        """Count a move, and send its event and callbacks."""
        HERE.count(metrics.CHANGES, moved.after)
        if moved.after is DeliveryState.MERGED:
            HERE.observe(metrics.CHANGE_SECONDS, (moved.at - change.times[DeliveryState.OPEN]) / 1000)
        data: dict[str, Any] = {"plan_id": change.plan_id, "goal_id": change.goal_id, "tenant": change.tenant}
        data |= {"repo": change.repo, "from": moved.before, "to": moved.after, "branch": change.branch}
        event = event_type("plan.delivery_changed"), codec.dumps({**data, "at": rfc3339(moved.at)})
        partition = Partition(partition_of(change.plan_id, self.partitions))
        delivered_changes.announce(self.client, partition, change, TELLS.get(moved.after, ""), event)
        log.info("change moved", extra={"plan_id": change.plan_id, "from": moved.before, "to": moved.after})


def _terms(source: Source, allowed: Delivered) -> Terms:
    """Return the limits of an operator; without a token changes are only seen."""
    does = allowed.follow_up and source.has_token
    return Terms(allowed.check_rounds if does else 0, 1000 * allowed.quiet_s, 1000 * allowed.poll_s, does)


def _give_up(change: DeliveredChange, act: Act, why: str) -> None:
    """Note that a task cannot be done; a follow-up plan that cannot be made leaves the change to people."""
    if act.kind == "follow_up":
        wanted = next(each for each in change.follow_ups if each.goal_id == act.about)
        wanted.ended = True
        change.handed_over = change.handed_over or why
