"""What commands ask of a planner. There are two ways to ask: by Redis, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

from schemas.command import Command
from schemas.envelope import FieldError, Problem
from schemas.fleet import ControllerView, QueueView
from schemas.plan import GoalAnswer, PlanSummary, PlanView
from schemas.result import PlanResult
from schemas.stats import StatsView
from tasks.base.errors import PlannerError
from worker.settings.settings import Settings
from worker.store.history import Story
from worker.store.kept_goals import KeptGoal
from worker.store.keys import NO_TENANT
from worker.store.plan_lists import PlanFilter
from worker.store.publishing import Sent
from worker.store.queries import EVERY_PLAN, Page
from worker.store.sums import Wanted


class Trouble(PlannerError):
    """A planner did not do what it was asked; `problem` says why."""

    status = 500
    event = "gateway_unavailable"  # what a controller logs that asks again

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @classmethod
    def of(cls, code: str, detail: str, errors: Sequence[FieldError] = ()) -> Self:
        """Make the trouble `code`."""
        return cls(Problem.of(code, detail, tuple(errors), cls.status))


class Refused(Trouble):
    """Waiting changes nothing about it."""


class WrongUse(Refused):
    """What was asked, or a setting, cannot be meant like that."""

    status = 422


class NotFound(Refused):
    """There is no such thing."""

    status = 404


class NoRight(Refused):
    """This user, or this key, may not do that."""


class Away(Trouble):
    """Nobody answers for now; the same may be asked again. `who` does not answer, because of `why`."""

    who = why = ""
    retry_after_s = 0.0  # not before this is over


ANSWER_S = 10.0  # until a command that nobody answers is given up
SELDOM_S = 5.0  # at most between two looks
REFUSED = "dev.planner.command.refused.v1"
GAP = "gap"  # the name of an event that stands for those that are missing
ENDS = frozenset({"plan.completed", "plan.halted", "plan.rejected"})


def pause_s(waited_s: float, least_s: float) -> float:
    """Return how long to pause before the next look: ever longer, for the longer one has waited the less it matters."""
    return min(SELDOM_S, max(least_s, waited_s / 20))


class PlanEvent(NamedTuple):
    """One event of a plan; `what` is its type without what all types have in common."""

    id: str
    what: str
    data: dict[str, Any]


class PlanEvents(Protocol):
    """The events of a plan from its beginning, as far as they are kept; what was read is not read again."""

    ended: bool  # once the event of its end was read

    def read(self, wait_s: float = 0.0) -> list[PlanEvent]:
        """Return the next events, none where none has come for `wait_s`."""

    def close(self) -> None:
        """Follow no longer."""


class Planner(Protocol):
    """A planner, as it is asked; every method raises Trouble."""

    settings: Settings

    def publish(
        self, data: bytes, goal_id: str | None, tenant: str | None, digest: str | None = None, *, once: bool = False
    ) -> Sent:
        """Hand in a goal, with `once` unless its id is known; an id that is another body's is a Trouble."""

    def verdict(self, sent: Sent, timeout_s: float) -> GoalAnswer | None:
        """Wait for what the planner says of a goal; None where it says nothing in time, Trouble for a dead one."""

    def goal(self, goal_id: str, tenant: str = NO_TENANT) -> GoalAnswer | None:
        """Return what became of a goal; None if the planner has not taken it, or has forgotten it."""

    def resolve(self, prefix: str, tenant: str = NO_TENANT) -> str:
        """Find the plan that the id of a goal or the beginning of a plan's id means; raises NotFound or WrongUse."""

    def plan(self, plan_id: str, *, activity: bool = False) -> PlanView | None:
        """Tell everything about a plan, with `activity` what its steps do now; None if there is none."""

    def result(self, plan: PlanView) -> PlanResult:
        """Return what a plan has done."""

    def changes(self, plan: PlanView) -> bytes:
        """Return the diffs of what a plan landed, as far as they are kept."""

    def plans(self, wanted: PlanFilter = EVERY_PLAN, most: int | None = None) -> list[PlanSummary]:
        """List plans, the newest first, at most so many."""

    def page(self, wanted: PlanFilter, limit: int, cursor: str | None) -> Page:
        """List plans behind a cursor; raises WrongUse for one that is none."""

    def count_states(self) -> dict[str, int] | None:
        """Count the plans in each state; None where that is not known."""

    def attempts(self, plan_id: str) -> Story:
        """Tell the attempts of every step of a plan that was tried."""

    def kept_goal(self, plan_id: str, from_step: str | None = None) -> KeptGoal:
        """Return what is kept of a plan's goal, or what is left of it `from_step` on."""

    def export(self, plan_id: str) -> Iterator[bytes]:
        """Return all that is kept of a plan as one JSON document, in pieces; raises NotFound."""

    def log(self, plan_id: str, first: int = 0) -> Iterator[bytes]:
        """Return the lines of a plan's log as they are stored, from number `first` (0: the oldest); raises NotFound."""

    def events(self, plan: PlanView) -> PlanEvents:
        """Follow the events of a plan from its beginning."""

    def command(self, commands: Sequence[Command]) -> list[dict[str, Any] | None]:
        """Put commands where they are obeyed; returns the event that answers each, None where no worker has."""

    def stats(self, wanted: Wanted) -> StatsView:
        """Add up plans that ended."""

    def queues(self) -> list[QueueView]:
        """List the queues of step specs."""

    def controllers(self) -> list[ControllerView]:
        """List the controllers."""
