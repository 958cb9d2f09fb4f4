"""Finds the plan that a user names: by the id of its goal, or by the start of the plan's id."""

from __future__ import annotations

import re
from collections.abc import Callable

from redis import Redis

from schemas.plan import GoalAnswer
from tasks.base.errors import PlannerError
from worker.store import queries
from worker.store.keys import NO_TENANT
from worker.store.plan_lists import PlanFilter, walk

PLAN_PREFIX = re.compile(r"(?:plan_)?([0-9a-f]{1,2}|[0-9a-f]{2}-[0-9a-f]{0,32})")
CANDIDATES = 10


class NoSuchPlan(PlannerError):
    """There is no such plan."""


class Ambiguous(PlannerError):
    """The ids of several plans begin with the given text."""


def resolve(client: Redis, partitions: int, prefix: str, tenant: str = NO_TENANT) -> str:
    """Return the plan for the id of a tenant's goal or the start of a plan's id, with or without `plan_`.

    Raises NoSuchPlan, or Ambiguous with the candidates.
    """

    def find(begin: str) -> list[str]:
        return [place.plan_id for place, fits in walk(client, partitions, PlanFilter(id_prefix=begin)) if fits]

    return choose(prefix, queries.goal(client, prefix, tenant), find)


def choose(prefix: str, answer: GoalAnswer | None, find: Callable[[str], list[str]]) -> str:
    """Return the plan of the goal with the id `prefix`, or else the plan that `find` returns.

    Raises as `resolve` does.
    """
    if answer and answer.plan_id:
        return answer.plan_id
    if answer:
        raise NoSuchPlan(f"{prefix} has no plan: it could not be read ({answer.reason}).")
    found = find("plan_" + match[1]) if (match := PLAN_PREFIX.fullmatch(prefix)) else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoSuchPlan(f"No plan and no goal begins with {prefix!r}.")
    shown = ", ".join(found[:CANDIDATES]) + (", ..." if len(found) > CANDIDATES else "")
    raise Ambiguous(f"{prefix!r} could be any of {len(found)} plans: {shown}.")
