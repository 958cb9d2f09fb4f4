"""Waits for the planner's answer, without a thread or a connection meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar

from worker.gateway.access import Access, Context
from worker.gateway.problems import Refusal

T = TypeVar("T")

FIRST_S, SELDOM_S = 0.02, 2.0  # between two looks
TRUSTED_S = 5.0  # a key is checked again after this time


async def wait_for(
    doors: Context,
    caller: Access,
    look: Callable[[], T | None],
    wait_s: float,
    *,
    plans: Collection[str] = (),
    goal: tuple[str, str] | None = None,
) -> T | None:
    """Look until there is an answer: less and less often, but at once after an event of the plans or the goal.

    Returns None at the timeout of `wait_s` seconds, or if the process ends. Raises Refusal 401 if the key was revoked
    meanwhile.
    """
    clock = asyncio.get_running_loop().time
    began, pause = clock(), FIRST_S
    async with doors.hub.subscribe(plans=plans, goal=goal) as events:
        while True:
            found = await doors.shares.read(look)
            left = began + wait_s - clock()
            if found is not None or left <= 0 or events.is_over:
                break
            came = await events.batch(min(pause, left))
            pause = FIRST_S if came else min(SELDOM_S, pause * 1.5)
    if clock() - began > TRUSTED_S and not await doors.shares.read(caller.lasts):
        raise Refusal("wrong_key", "This key was revoked, or is over.", 401)
    return found
