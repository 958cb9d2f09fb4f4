"""A planner over HTTP, by its gateway; docs/http.md describes the answers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from schemas import codec
from schemas.base import GoalVerdict
from schemas.command import Command
from schemas.fleet import ControllerView, QueueView
from schemas.plan import GoalAnswer, PlanSummary, PlanView
from schemas.result import PlanResult
from schemas.stats import StatsView
from schemas.times import milliseconds, rfc3339
from tasks.record.chain import MAX_LINE_BYTES
from worker.client.http_events import HttpEvents
from worker.client.http_link import GatewayLink
from worker.client.planner import ANSWER_S, REFUSED, pause_s
from worker.client.trouble import NotFound, Trouble, WrongUse
from worker.settings.settings import Settings
from worker.store import plan_names
from worker.store.history import JSON_LINES, Story
from worker.store.kept_goals import KeptGoal
from worker.store.keys import NO_TENANT
from worker.store.plan_lists import PlanFilter
from worker.store.publishing import CONFLICT, Sent
from worker.store.queries import EVERY_PLAN, Page
from worker.store.sums import Wanted

MOST_ITEMS = 500  # of one answer
LOOK_S = 0.2  # between two looks, at first
MOST_WAIT_S = 30.0  # maximum time that a gateway waits for a verdict
COMMAND_REFUSED = "command_refused"
AT_ONCE = 8  # commands on their way
PIECE = 1024 * 1024  # of a log, in bytes

M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], said: Any) -> M:
    """Return a gateway's answer as a model; fields of newer gateways are ignored."""
    return model.model_validate(said, extra="ignore")


class HttpPlanner:
    """The planner behind a gateway."""

    def __init__(self, link: GatewayLink, settings: Settings) -> None:
        self._link, self.settings = link, settings
        self._bodies: dict[str, bytes] = {}  # of the goals that were handed in, by their ids

    def publish(
        self, data: bytes, goal_id: str | None, tenant: str | None, digest: str | None = None, *, once: bool = False
    ) -> Sent:
        """Submit a goal; a goal without an id gets one first, so that a repeated request makes no second goal."""
        owner = tenant or NO_TENANT
        if goal_id and once and self.goal(goal_id, owner):
            return Sent(None, goal_id, owner)
        named = goal_id or uuid.uuid4().hex
        if not goal_id:
            data = codec.dumps({**codec.loads(data), "goal_id": named})
        try:
            said = self._link.ask("POST", "/v1/goals", data=data)
        except Trouble as trouble:
            if once and trouble.problem.code == CONFLICT:  # another job was faster
                return Sent(None, named, owner)
            raise
        self._bodies[named] = data
        return Sent(said.get("entry") or "", named, owner, None if once else digest)

    def verdict(self, sent: Sent, timeout_s: float) -> GoalAnswer | None:
        """Return the verdict on a goal; None after `timeout_s`.

        Until then, submit the goal again and again: the gateway waits for the verdict before it answers. If another
        process sent the goal, only read its state.
        """
        since, body = time.monotonic(), self._bodies.get(sent.goal_id)
        while True:
            answer = self.goal(sent.goal_id, sent.tenant)
            if answer and answer.plan_id and answer.verdict is not GoalVerdict.PENDING:
                return answer
            waited = time.monotonic() - since
            if waited >= timeout_s:
                return None
            if body is not None:
                wait_s = round(min(timeout_s - waited, MOST_WAIT_S), 3)
                self._link.ask("POST", "/v1/goals", data=body, params={"wait": wait_s}, wait_s=wait_s)
            else:  # another process had sent it
                time.sleep(min(pause_s(waited, LOOK_S), timeout_s - waited))

    def goal(self, goal_id: str, tenant: str = NO_TENANT) -> GoalAnswer | None:
        """Return the state of a goal; None if the gateway knows no goal with this id."""
        whose = None if tenant == NO_TENANT else tenant
        try:
            said = self._link.get("/v1/goals", goal_id=goal_id, tenant=whose)
        except (NotFound, WrongUse):  # or a text that cannot be the id of a goal
            return None
        return _read(GoalAnswer, {**said, "plan_id": said.get("plan_id") or "", "reason": said.get("reason") or ""})

    def resolve(self, prefix: str, tenant: str = NO_TENANT) -> str:
        """Return the plan of the goal `prefix`, else the plan whose id begins with `prefix`."""

        def find(begin: str) -> list[str]:
            return [plan.plan_id for plan in self.plans(PlanFilter(id_prefix=begin))]

        try:
            return plan_names.choose(prefix, self.goal(prefix, tenant), find)
        except plan_names.NoSuchPlan as error:
            raise NotFound.of("no_such_plan", str(error)) from error
        except plan_names.Ambiguous as error:
            raise WrongUse.of("ambiguous_plan", str(error)) from error

    def plan(self, plan_id: str, *, activity: bool = False) -> PlanView | None:  # noqa: ARG002 (it is told anyway)
        """Return a plan and its steps."""
        path = f"/v1/plans/{quote(plan_id, safe='')}"
        try:
            said = self._link.get(path, include="steps")
        except NotFound:
            return None
        if len(said["steps"]) < sum(said["counts"].values()):
            said["steps"] = list(self._items(f"{path}/steps"))
        return _read(PlanView, said)

    def result(self, plan: PlanView) -> PlanResult:
        """Return the result of a plan."""
        return _read(PlanResult, self._link.get(f"/v1/plans/{quote(plan.plan_id, safe='')}/result"))

    def changes(self, plan: PlanView) -> bytes:
        """Return the diffs of a plan."""
        with self._link.stream(f"/v1/plans/{quote(plan.plan_id, safe='')}/changes.diff", {}, {}) as answer:
            return answer.read()

    def transcript(self, plan: PlanView, step_id: str, attempt: dict[str, Any]) -> bytes | None:
        """Return the transcript that the gateway sends; None if it has none."""
        path = f"/v1/plans/{quote(plan.plan_id, safe='')}/steps/{quote(step_id, safe='')}/transcript"
        try:
            with self._link.stream(path, {"attempt": attempt["attempt"]}, {}) as answer:
                return answer.read()
        except NotFound:
            return None

    def plans(self, wanted: PlanFilter = EVERY_PLAN, most: int | None = None) -> list[PlanSummary]:
        """Return the plans of one page after the other."""
        found: list[PlanSummary] = []
        cursor = None
        while most is None or len(found) < most:
            page = self.page(wanted, MOST_ITEMS if most is None else most - len(found), cursor)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    def page(self, wanted: PlanFilter, limit: int, cursor: str | None) -> Page:
        """Return one page of plans."""
        said = self._link.get(
            "/v1/plans",
            state=wanted.state,
            kind=wanted.kind,
            repo=wanted.repo,
            tenant=wanted.tenant,
            rule=wanted.rule,
            waiting="true" if wanted.waiting else None,
            since=wanted.since and rfc3339(milliseconds(wanted.since)),
            until=wanted.until and rfc3339(milliseconds(wanted.until)),
            id_prefix=wanted.begin,
            text=wanted.text,
            limit=min(limit, MOST_ITEMS),
            cursor=cursor,
        )
        return Page([_read(PlanSummary, each) for each in said["items"]], said["next_cursor"])

    def count_states(self) -> dict[str, int] | None:
        """Return the number of plans in each state; None for a key that sees only some plans."""
        found: dict[str, int] | None = self._link.get("/v1/plans", limit=1, include="counts").get("counts")
        return found

    def attempts(self, plan_id: str) -> Story:
        """Return the attempts from the plan's explanation."""
        said = self._link.get(f"/v1/plans/{quote(plan_id, safe='')}/explain")
        return {step["step_id"]: step["attempts"] for step in said["steps"] if step["attempts"]}

    def kept_goal(self, plan_id: str, from_step: str | None = None) -> KeptGoal:
        """Return the stored goal of a plan."""
        said = self._link.get(f"/v1/plans/{quote(plan_id, safe='')}/goal", **{"from": from_step})
        return KeptGoal(said["goal"], tuple(said["left_out"]))

    def export(self, plan_id: str) -> Iterator[bytes]:
        """Yield the pieces of the JSON document that the gateway sends."""
        with self._link.stream(f"/v1/plans/{quote(plan_id, safe='')}/export", {}, {}) as answer:
            yield from answer.iter_bytes()

    def log(self, plan_id: str, first: int = 0) -> Iterator[bytes]:
        """Yield the lines of the log that the gateway sends. Raises Trouble if the gateway is too old for this."""
        path, rest = f"/v1/plans/{quote(plan_id, safe='')}/log", b""
        with self._link.stream(path, {"cursor": first}, {"Accept": JSON_LINES}) as answer:
            if not answer.headers.get("content-type", "").startswith(JSON_LINES):
                raise Trouble.of(
                    "older_gateway", "This gateway is too old to send whole logs: update it, or use PLANNER_REDIS_URL."
                )
            for piece in answer.iter_bytes(PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
                if len(rest) > MAX_LINE_BYTES:
                    raise Trouble.of("line_too_long", f"The log has a line of more than {MAX_LINE_BYTES} bytes.")

    def events(self, plan: PlanView) -> HttpEvents:
        """Follow the gateway's server-sent events."""
        return HttpEvents(self._link, plan.plan_id)

    def command(self, commands: Sequence[Command]) -> list[dict[str, Any] | None]:
        """Send commands, several at a time; the gateway waits for the result of each."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._command, commands))

    def _command(self, command: Command) -> dict[str, Any] | None:
        path = f"/v1/plans/{quote(command.plan_id, safe='')}/commands" if command.plan_id else "/v1/commands"
        data = codec.encode(command, exclude_none=True)
        try:
            said = self._link.ask("POST", path, data=data, params={"wait": ANSWER_S}, wait_s=ANSWER_S)
        except Trouble as trouble:
            if trouble.problem.code != COMMAND_REFUSED:
                raise
            return {"type": REFUSED, "data": {"reason": trouble.problem.detail.removeprefix(f"{command.command}: ")}}
        return {name: said[name] for name in ("type", "data")} if "type" in said else None

    def stats(self, wanted: Wanted) -> StatsView:
        """Return the totals that the gateway reports for the wanted period."""
        said = self._link.get(
            "/v1/stats",
            since=rfc3339(wanted.since),
            until=wanted.until and rfc3339(wanted.until),
            by=wanted.by.value,
            tenant=wanted.tenant,
            repo=wanted.repo,
        )
        return _read(StatsView, said)

    def queues(self) -> list[QueueView]:
        """Return the queues."""
        return [_read(QueueView, each) for each in self._items("/v1/queues")]

    def controllers(self) -> list[ControllerView]:
        """Return the controllers."""
        return [_read(ControllerView, each) for each in self._items("/v1/controllers")]

    def _items(self, path: str) -> Iterator[Any]:
        cursor = None
        while True:
            said = self._link.get(path, limit=MOST_ITEMS, cursor=cursor)
            yield from said["items"]
            if not (cursor := said["next_cursor"]):
                return
