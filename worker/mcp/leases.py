"""Renews the leases of an agent's attempts while its process lives, because agents forget to renew them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from worker.mcp.doors import Doors

log = logging.getLogger("planner.mcp")

RENEW_S = 15.0  # a quarter of the shortest lease
OVER = frozenset({"taken", "stale"})  # answers of a heartbeat for an attempt that is no longer ours


class Leases:
    """The attempts that an agent holds, each with the name of its controller."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._held: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}

    def hold(self, controller: str, steps: Iterable[dict[str, Any]]) -> None:
        """Renew the leases of these steps from now on."""
        for step in steps:
            held = {name: step[name] for name in ("plan_id", "step_id", "attempt", "lease")}
            self._held[step["plan_id"], step["step_id"]] = (controller, held)

    def forget(self, plan_id: str, step_id: str) -> None:
        """Stop the renewal of a step's lease."""
        self._held.pop((plan_id, step_id), None)

    async def renew_for_ever(self) -> None:
        """Renew the held attempts until cancelled."""
        while True:
            await asyncio.sleep(RENEW_S)
            for controller in {controller for controller, _ in self._held.values()}:
                await self._renew(controller)

    async def _renew(self, controller: str) -> None:
        steps = [held for whose, held in self._held.values() if whose == controller]
        try:
            answer = await self._doors.json(
                None, "POST", "/v1/steps:heartbeat", body={"controller": controller, "steps": steps}
            )
        except ToolError as error:  # the lease lasts for some more rounds
            log.warning("leases not renewed", extra={"count": len(steps), "error": str(error)})
            return
        for step in answer["steps"]:
            if step["action"] in OVER:
                self.forget(step["plan_id"], step["step_id"])
