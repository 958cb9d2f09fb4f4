"""A planner over Redis: reads its store, and adds goals and commands to its streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from redis import Redis

from schemas import codec
from schemas.command import Command
from schemas.event import EVENT_PREFIX, EVENT_SUFFIX
from schemas.fleet import ControllerView, QueueView
from schemas.plan import GoalAnswer, PlanSummary, PlanView
from schemas.result import PlanResult
from schemas.stats import StatsView
from worker.client.planner import ANSWER_S, ENDS, PlanEvent, pause_s
from worker.client.redis_connection import asked
from worker.client.trouble import NotFound, Trouble, WrongUse
from worker.host.account import host_name
from worker.render.result_reading import ALL_DIFFS, read_result
from worker.settings.settings import Settings
from worker.store import attachments, export, fleet, kept_goals, plan_lists, plan_names, publishing, queries, sums
from worker.store.history import Story, read_lines, story
from worker.store.kept_goals import KeptGoal
from worker.store.keys import NO_TENANT, Partition, PlanKeys, partition_of
from worker.store.plan_lists import PlanFilter
from worker.store.publishing import DeadGoal, GoalConflict, Sent
from worker.store.queries import EVERY_PLAN, Page
from worker.store.step_activity import with_activity
from worker.store.sums import Wanted

LOOK_S = 0.05  # between two looks, at first
EVENT_PAGE = 500

P = ParamSpec("P")
T = TypeVar("T")


def _told(
    method: Callable[Concatenate[RedisPlanner, P], T],
) -> Callable[Concatenate[RedisPlanner, P], T]:
    """Return the method with errors of Redis turned into Trouble."""

    @wraps(method)
    def call(self: RedisPlanner, /, *args: P.args, **options: P.kwargs) -> T:
        with asked(self.settings.redis_url):
            return method(self, *args, **options)

    return call


class RedisPlanner:
    """The planner whose Redis `client` is connected to."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self.client, self.settings, self.partitions = client, settings, settings.partitions

    @_told
    def publish(
        self, data: bytes, goal_id: str | None, tenant: str | None, digest: str | None = None, *, once: bool = False
    ) -> Sent:
        """Add a goal to the stream."""
        try:
            return publishing.publish_goal(self.client, data, goal_id, tenant, digest, once=once)
        except GoalConflict as conflict:
            raise Trouble(conflict.problem) from conflict

    @_told
    def verdict(self, sent: Sent, timeout_s: float) -> GoalAnswer | None:
        """Read the goal's record until it has a verdict or `timeout_s` is over."""
        since = time.monotonic()
        while (waited := time.monotonic() - since) < timeout_s:
            try:
                answer = publishing.verdict(self.client, sent)
            except (GoalConflict, DeadGoal) as refused:
                raise Trouble(refused.problem) from refused
            if answer:
                return answer
            time.sleep(min(pause_s(waited, LOOK_S), timeout_s - waited))
        return None

    @_told
    def goal(self, goal_id: str, tenant: str = NO_TENANT) -> GoalAnswer | None:
        """Read the goal's record."""
        return queries.goal(self.client, goal_id, tenant)

    @_told
    def resolve(self, prefix: str, tenant: str = NO_TENANT) -> str:
        """Return the plan of the goal `prefix`, else the plan whose id begins with `prefix`."""
        try:
            return plan_names.resolve(self.client, self.partitions, prefix, tenant)
        except plan_names.NoSuchPlan as error:
            raise NotFound.of("no_such_plan", str(error)) from error
        except plan_names.Ambiguous as error:
            raise WrongUse.of("ambiguous_plan", str(error)) from error

    @_told
    def plan(self, plan_id: str, *, activity: bool = False) -> PlanView | None:
        """Read a plan."""
        view = queries.plan(self.client, self.partitions, plan_id)
        return with_activity(self.client, self.partitions, view) if view and activity else view

    @_told
    def result(self, plan: PlanView) -> PlanResult:
        """Return the plan's result, as its log has it."""
        return read_result(self.client, self.partitions, plan).result

    @_told
    def changes(self, plan: PlanView) -> bytes:
        """Return the diffs that the plan's log names, joined into one."""
        return b"".join(read_result(self.client, self.partitions, plan, diffs=ALL_DIFFS).diffs.values())

    @_told
    def transcript(self, plan: PlanView, step_id: str, attempt: dict[str, Any]) -> bytes | None:  # noqa: ARG002
        """Return the stored transcript of the attempt; None if there is none."""
        return attachments.read_transcript(self.client, self.partitions, plan.plan_id, plan.tenant, attempt)

    @_told
    def plans(self, wanted: PlanFilter = EVERY_PLAN, most: int | None = None) -> list[PlanSummary]:
        """Return the wanted plans from the lists of all partitions."""
        return list(islice(queries.plans(self.client, self.partitions, wanted), most))

    @_told
    def page(self, wanted: PlanFilter, limit: int, cursor: str | None) -> Page:
        """Read one page of the lists."""
        try:
            return queries.page(self.client, self.partitions, wanted, limit, cursor)
        except plan_lists.WrongCursor as error:
            raise WrongUse.of("wrong_cursor", f"{cursor} is no cursor.") from error

    @_told
    def count_states(self) -> dict[str, int] | None:
        """Return the lengths of the lists."""
        return plan_lists.count_states(self.client, self.partitions)

    @_told
    def attempts(self, plan_id: str) -> Story:
        """Return the attempts that the plan's log has, by step."""
        return story(self.client, Partition(partition_of(plan_id, self.partitions)).plan(plan_id))

    @_told
    def kept_goal(self, plan_id: str, from_step: str | None = None) -> KeptGoal:
        """Read the stored goal of a plan."""
        if not from_step:
            return kept_goals.read(self.client, self.partitions, plan_id)
        try:
            return kept_goals.read_rest(self.client, self.partitions, plan_id, from_step)
        except kept_goals.NoRest as error:
            raise WrongUse.of(error.code, str(error)) from error

    def export(self, plan_id: str) -> Iterator[bytes]:
        """Read all keys of a plan."""
        with asked(self.settings.redis_url):
            self._keys(plan_id)
            yield from export.export(self.client, self.partitions, plan_id)

    def log(self, plan_id: str, first: int = 0) -> Iterator[bytes]:
        """Yield the lines of the plan's log, which is read in pages."""
        with asked(self.settings.redis_url):
            yield from read_lines(self.client, self._keys(plan_id), first)

    def _keys(self, plan_id: str) -> PlanKeys:
        """Return the keys of an existing plan. Raises NotFound."""
        k = Partition(partition_of(plan_id, self.partitions)).plan(plan_id)
        if not self.client.exists(k.plan):
            raise NotFound.of("no_such_plan", f"{plan_id} was never made, or was forgotten.")
        return k

    def events(self, plan: PlanView) -> RedisEvents:
        """Return the events from the stream of the plan's partition."""
        return RedisEvents(self, plan)

    @_told
    def command(self, commands: Sequence[Command]) -> list[dict[str, Any] | None]:
        """Publish commands, and read the events that answer them."""
        last: dict[str, Any] = {}
        for home in (publishing.home_of(one, self.partitions) for one in commands):
            if home.events not in last:
                found: Any = self.client.xrevrange(home.events, count=1)
                last[home.events] = found[0][0] if found else b"0"
        for one in commands:
            publishing.publish_command(self.client, self.partitions, one, host_name())
        answers = self._answers(last, {one.command_id for one in commands})
        return [answers.get(one.command_id) for one in commands]

    def _answers(self, after: dict[str, Any], waiting: set[str]) -> dict[str, dict[str, Any]]:
        """Return the events that answer the commands in `waiting`, by the id of the command.

        The wait ends as soon as no answer has arrived for ANSWER_S seconds.
        """
        answers: dict[str, dict[str, Any]] = {}
        end = time.monotonic() + ANSWER_S
        while len(answers) < len(waiting) and (left := end - time.monotonic()) > 0:
            reply: Any = self.client.xread(after, count=100, block=max(1, int(1000 * left)))  # type: ignore[arg-type]
            for stream, found in reply or ():
                for entry, fields in found:
                    after[stream.decode()], data = entry, codec.loads(fields[b"data"])
                    if data.get("command_id") in waiting:
                        answers[data["command_id"]] = {"type": fields[b"type"].decode(), "data": data}
                        end = time.monotonic() + ANSWER_S
        return answers

    @_told
    def stats(self, wanted: Wanted) -> StatsView:
        """Return the totals over all partitions."""
        return sums.read(self.client, self.partitions, wanted)

    @_told
    def queues(self) -> list[QueueView]:
        """Return the queues, as the streams of step specs show them."""
        return fleet.queues(self.client, None, self.partitions)

    @_told
    def controllers(self) -> list[ControllerView]:
        """Return the controllers, as the consumer groups and the leases show them."""
        return fleet.controllers(self.client, None, self.partitions)


class RedisEvents:
    """The events of a plan from its partition's stream."""

    def __init__(self, planner: RedisPlanner, plan: PlanView) -> None:
        self._planner, self._plan_id = planner, plan.plan_id.encode()
        self._stream = Partition(partition_of(plan.plan_id, planner.partitions)).events
        # just before its first event
        self._last: Any = f"{int(datetime.fromisoformat(plan.created_at).timestamp() * 1000) - 1}-0"
        self.ended = False

    def read(self, wait_s: float = 0.0) -> list[PlanEvent]:
        """Return the plan's events in the next page of the stream that has any.

        Returns an empty list if none arrives within `wait_s` seconds.
        """
        end = time.monotonic() + wait_s
        while True:
            left = end - time.monotonic()
            block = max(1, int(1000 * left)) if left > 0 else None
            with asked(self._planner.settings.redis_url):
                reply: Any = self._planner.client.xread({self._stream: self._last}, count=EVENT_PAGE, block=block)
            page = reply[0][1] if reply else ()
            found = [self._event(entry, fields) for entry, fields in page if self._plan_id in fields[b"data"]]
            if page:
                self._last = page[-1][0]
            if found or not page or (len(page) < EVENT_PAGE and block is None):
                return found

    def close(self) -> None:
        """Do nothing: the connection belongs to the planner."""

    def _event(self, entry: bytes, fields: dict[bytes, bytes]) -> PlanEvent:
        what = fields[b"type"].decode().removeprefix(EVENT_PREFIX).removesuffix(EVENT_SUFFIX)
        self.ended |= what in ENDS
        return PlanEvent(entry.decode(), what, codec.loads(fields[b"data"]))
