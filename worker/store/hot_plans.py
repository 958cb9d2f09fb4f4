"""The plans that a worker has decided about lately, and what it knows of what stands around them.

A plan is lent to one decision at a time, and comes back when that was committed: whatever else becomes of the decision,
the copy is gone with it.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from tasks.handlers.bulk_commands import Records
from tasks.plan.hot_plan import HotPlan

WHOLE_STEPS = 64  # of a plan that is kept; of a larger one each decision reads its part
MOST_PLANS = 10_000
MOST_BYTES = 128 * 1024 * 1024  # of memory, of one partition
DECODED = 16  # times as much memory as what is stored of a plan: its objects, and what plain decisions know of steps
FRESH_S = 60.0  # for which the server's clock is reckoned from here
READ_AGAIN_S = 0.5  # after which a commit reads it
ASLEEP_S = 1.0  # by which the machine's clocks may part; where it slept one of them stood still
SET_BACK_MS = 1000  # a reading that is further behind the reckoning is that of a clock that was set back
STALE_TOGETHER = 4  # copies that were stale in one round: then another worker decides about these plans


class HotPlans:
    """What one process keeps of one partition. Not for several threads at once."""

    def __init__(
        self, most_plans: int = MOST_PLANS, most_bytes: int = MOST_BYTES, whole_steps: int = WHOLE_STEPS
    ) -> None:
        self._most_plans, self._most_bytes = most_plans, most_bytes
        self.whole_steps = whole_steps  # up to which a plan is read whole, and kept; 0 for none
        self._plans: OrderedDict[str, HotPlan] = OrderedDict()
        self._bytes = 0
        self.scopes: Records | None = None  # the standing commands, None where they have to be read
        self.heard: int | str = ""  # how many commands the partition had heard of then
        self._now = 0
        self._read = self._read_wall = float("-inf")

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def is_usable(self) -> bool:
        """Whether a decision can do without reading: no command stands, and the server's time is known."""
        if self.scopes is None or self.scopes:
            return False
        age = time.monotonic() - self._read
        return age < FRESH_S and abs(time.time() - self._read_wall - age) < ASLEEP_S

    def lend(self, plan_id: str) -> HotPlan | None:
        """Give a plan to a decision; None where it is not here."""
        plan = self._plans.pop(plan_id, None)
        if plan:
            self._bytes -= DECODED * plan.size
        return plan

    def keep(self, plan: HotPlan) -> None:
        """Keep a plan as it is stored; those that nobody asked for the longest go where there are too many."""
        if plan.plan_id in self._plans:
            self.lend(plan.plan_id)
        self._plans[plan.plan_id] = plan
        self._bytes += DECODED * plan.size
        while len(self._plans) > self._most_plans or self._bytes > self._most_bytes:
            _, oldest = self._plans.popitem(last=False)
            self._bytes -= DECODED * oldest.size

    def clear(self) -> None:
        """Forget all that was read."""
        self._plans.clear()
        self._bytes = 0
        self.scopes = None

    def note_time(self, now: int) -> None:
        """Take in the server's time, ms, which goes back only where its clock was set back."""
        reckoned = self.now()
        self._now = now if reckoned - now > SET_BACK_MS else max(now, reckoned)
        self._read, self._read_wall = time.monotonic(), time.time()

    @property
    def wants_time(self) -> bool:
        """Whether the server's time was last read a while ago."""
        return time.monotonic() - self._read > READ_AGAIN_S

    def now(self) -> int:
        """Reckon the server's time, ms."""
        return self._now + int(1000 * (time.monotonic() - self._read)) if self._now else 0
