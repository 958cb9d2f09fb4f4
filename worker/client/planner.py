"""The interface of a planner for commands, with two implementations: over Redis, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from schemas.command import Command
from schemas.fleet import ControllerView, QueueView
from schemas.plan import GoalAnswer, PlanSummary, PlanView
from schemas.result import PlanResult
from schemas.stats import StatsView
from worker.settings.settings import Settings
from worker.store.history import Story
from worker.store.kept_goals import KeptGoal
from worker.store.keys import NO_TENANT
from worker.store.plan_lists import PlanFilter
from worker.store.publishing import Sent
from worker.store.queries import EVERY_PLAN, Page
from worker.store.sums import Wanted

ANSWER_S = 10.0  # maximum wait for the answer to a command
SELDOM_S = 5.0  # at most between two looks
REFUSED = "dev.planner.command.refused.v1"
GAP = "gap"  # the name of an event that replaces missing ones
ENDS = frozenset({"plan.completed", "plan.halted", "plan.rejected"})


def pause_s(waited_s: float, least_s: float) -> float:
    """Return the pause in seconds before the next look; the pauses grow with the time waited so far."""
    return min(SELDOM_S, max(least_s, waited_s / 20))


class PlanEvent(NamedTuple):
    """One event of a plan; `what` is its type without the parts that all types have in common."""

    id: str
    what: str
    data: dict[str, Any]


class PlanEvents(Protocol):
    """The stored events of a plan from its beginning; each is returned once."""

    ended: bool  # whether the event of its end was read

    def read(self, wait_s: float = 0.0) -> list[PlanEvent]:
        """Return the next events; an empty list if none arrives within `wait_s` seconds."""

    def close(self) -> None:
        """Stop following."""


class Planner(Protocol):
    """The interface of a planner for its clients; every method may raise Trouble."""

    settings: Settings

    def publish(
        self, data: bytes, goal_id: str | None, tenant: str | None, digest: str | None = None, *, once: bool = False
    ) -> Sent:
        """Submit a goal; with `once`, only if its id is new. Raises Trouble if the id belongs to a different goal."""

    def verdict(self, sent: Sent, timeout_s: float) -> GoalAnswer | None:
        """Return the verdict on a goal; None after `timeout_s` without one. Raises Trouble for a dead-lettered goal."""

    def goal(self, goal_id: str, tenant: str = NO_TENANT) -> GoalAnswer | None:
        """Return the state of a goal; None if the planner has not taken it, or has forgotten it."""

    def resolve(self, prefix: str, tenant: str = NO_TENANT) -> str:
        """Return the plan for the id of a goal or the start of a plan's id. Raises NotFound or WrongUse."""

    def plan(self, plan_id: str, *, activity: bool = False) -> PlanView | None:
        """Return everything about a plan, with the activity of its steps on request; None if there is none."""

    def result(self, plan: PlanView) -> PlanResult:
        """Return the result of a plan."""

    def changes(self, plan: PlanView) -> bytes:
        """Return the stored diffs of the changes that a plan landed."""

    def transcript(self, plan: PlanView, step_id: str, attempt: dict[str, Any]) -> bytes | None:
        """Return the sent output of the agent in an attempt of a step; None if it is not stored."""

    def plans(self, wanted: PlanFilter = EVERY_PLAN, most: int | None = None) -> list[PlanSummary]:
        """Return at most `most` of the wanted plans, the newest first."""

    def page(self, wanted: PlanFilter, limit: int, cursor: str | None) -> Page:
        """Return at most `limit` plans after the cursor. Raises WrongUse for an invalid cursor."""

    def count_states(self) -> dict[str, int] | None:
        """Return the number of plans in each state; None if that is unknown."""

    def attempts(self, plan_id: str) -> Story:
        """Return the attempts of a plan by step, without the steps that were never tried."""

    def kept_goal(self, plan_id: str, from_step: str | None = None) -> KeptGoal:
        """Return the stored goal of a plan, or only its part from the step `from_step` on."""

    def export(self, plan_id: str) -> Iterator[bytes]:
        """Yield all stored data of a plan as one JSON document, in pieces. Raises NotFound."""

    def log(self, plan_id: str, first: int = 0) -> Iterator[bytes]:
        """Yield the lines of a plan's log as they are stored, from number `first` (0: the oldest). Raises NotFound."""

    def events(self, plan: PlanView) -> PlanEvents:
        """Return the events of a plan from its beginning."""

    def command(self, commands: Sequence[Command]) -> list[dict[str, Any] | None]:
        """Publish commands. Return for each command the event that answers it; None if no worker answered in time."""

    def stats(self, wanted: Wanted) -> StatsView:
        """Return the totals over the plans that ended in the wanted period."""

    def queues(self) -> list[QueueView]:
        """Return the queues of step specs."""

    def controllers(self) -> list[ControllerView]:
        """Return the controllers."""
