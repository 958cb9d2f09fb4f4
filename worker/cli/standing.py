"""Prints on standard error why a plan that is followed does not move, once for each reason."""

from __future__ import annotations

import time

from worker.client.planner import Planner
from worker.client.trouble import Trouble
from worker.host.terminal import line
from worker.render.plan import plain, standing_line

LOOK_S = 4.0  # between two looks: a plan's steps and queues are read for each


class StandingWatch:
    """Reports why a followed plan does not move; `look` is called while no events come."""

    def __init__(self, planner: Planner, plan_id: str) -> None:
        self._planner, self._plan_id = planner, plan_id
        self._next, self._printed = time.monotonic() + LOOK_S / 2, ""

    def look(self) -> None:
        """Print the reason why nothing moves, if it is new. The planner is asked at most once in LOOK_S."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_S
        try:
            plan = self._planner.plan(self._plan_id, activity=True)
        except Trouble:  # the caller meets it as well, and prints it
            return
        still = plan.standing_still if plan else None
        if still and still.reason != self._printed:
            line(plain(standing_line(still)), err=True)
        self._printed = still.reason if still else ""
