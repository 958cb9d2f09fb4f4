"""The plans that a worker has decided about recently, with their context.

A plan is lent to one decision at a time, and returns after its commit. If the decision ends in any other way, the copy
is dropped.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from tasks.handlers.bulk_commands import Records
from tasks.plan.hot_plan import HotPlan

WHOLE_STEPS = 64  # of a plan that is kept; of a larger one each decision reads its part
MOST_PLANS = 10_000
MOST_BYTES = 128 * 1024 * 1024  # of memory, of one partition
DECODED = 16  # memory of a plan's objects, and of its data for plain decisions, as a multiple of its stored size
FRESH_S = 60.0  # time for which the server's clock is estimated from here
READ_AGAIN_S = 0.5  # after this time a commit reads it
ASLEEP_S = 1.0  # allowed difference of the machine's clocks; during a suspend one of them stops
SET_BACK_MS = 1000  # a time further behind the estimate means that the clock was set back
STALE_TOGETHER = 4  # stale copies in one round: above this, another worker decides about these plans


class HotPlans:
    """The hot plans of one process and partition. Not for several threads at once."""

    def __init__(
        self, most_plans: int = MOST_PLANS, most_bytes: int = MOST_BYTES, whole_steps: int = WHOLE_STEPS
    ) -> None:
        self._most_plans, self._most_bytes = most_plans, most_bytes
        self.whole_steps = whole_steps  # maximum size of a plan that is read whole, and kept; 0 for none
        self._plans: OrderedDict[str, HotPlan] = OrderedDict()
        self._bytes = 0
        self.scopes: Records | None = None  # standing commands; None if they have to be read
        self.heard: int | str = ""  # the number of commands in the partition at that time
        self._now = 0
        self._read = self._read_wall = float("-inf")

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def is_usable(self) -> bool:
        """Whether a decision needs no reading: there is no bulk command, and the server's time is known."""
        if self.scopes is None or self.scopes:
            return False
        age = time.monotonic() - self._read
        return age < FRESH_S and abs(time.time() - self._read_wall - age) < ASLEEP_S

    def lend(self, plan_id: str) -> HotPlan | None:
        """Lend a plan to a decision; None if it is not here."""
        plan = self._plans.pop(plan_id, None)
        if plan:
            self._bytes -= DECODED * plan.size
        return plan

    def keep(self, plan: HotPlan) -> None:
        """Store a plan in its committed state; if there are too many, the longest unused ones are dropped."""
        if plan.plan_id in self._plans:
            self.lend(plan.plan_id)
        self._plans[plan.plan_id] = plan
        self._bytes += DECODED * plan.size
        while len(self._plans) > self._most_plans or self._bytes > self._most_bytes:
            _, oldest = self._plans.popitem(last=False)
            self._bytes -= DECODED * oldest.size

    def clear(self) -> None:
        """Drop everything that was read."""
        self._plans.clear()
        self._bytes = 0
        self.scopes = None

    def note_time(self, now: int) -> None:
        """Record the server's time in ms, which goes back only if its clock was set back."""
        reckoned = self.now()
        self._now = now if reckoned - now > SET_BACK_MS else max(now, reckoned)
        self._read, self._read_wall = time.monotonic(), time.time()

    @property
    def wants_time(self) -> bool:
        """Whether the server's time was last read a while ago."""
        return time.monotonic() - self._read > READ_AGAIN_S

    def now(self) -> int:
        """Return the estimated time of the server, in ms."""
        return self._now + int(1000 * (time.monotonic() - self._read)) if self._now else 0
