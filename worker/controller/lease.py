"""The claim on one attempt: made by a heartbeat, and renewed by a thread during the work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from threading import Event, Thread

from worker.client.steps import Steps, call_until_answered
from worker.client.trouble import Trouble
from worker.controller.wire import Spec
from worker.sandbox.process import Abandoned

log = logging.getLogger("planner.controller")


class Action(StrEnum):
    """The planner's answer to a heartbeat."""

    CONTINUE = "continue"
    PAUSE = "pause"
    CANCEL = "cancel"
    TAKEN = "taken"
    STALE = "stale"

    @classmethod
    def _missing_(cls, value: object) -> Action:  # noqa: ARG003 - a word of a newer planner forbids nothing
        return cls.CONTINUE


class Paused(Exception):
    """The attempt cannot be claimed now, because its plan is paused; it can be claimed later."""


LOST = frozenset({Action.CANCEL, Action.TAKEN, Action.STALE})


class LeaseClient:
    """A controller's claim on the attempt of `spec`."""

    def __init__(self, steps: Steps, spec: Spec, every_s: float, stop: Event, info: bytes = b"{}") -> None:
        self._steps, self._spec, self._every_s, self._stop = steps, spec, every_s, stop
        self._info = info  # a description of this controller for people: a JSON object
        self._lost: Action | None = None
        self.tool_calls: int | None = None  # of the agent so far, if they are counted while it works
        self.claimed = False  # stays false if the planner's server has no heartbeat function

    def is_wanted(self) -> bool:
        """Return whether the work is still wanted: until the planner takes it back or the controller stops."""
        return self._lost is None and not self._stop.is_set()

    @property
    def has_too_many_calls(self) -> bool:
        """Return whether the planner cancelled the attempt after it received the number of tool calls."""
        return self._lost is Action.CANCEL and self.tool_calls is not None

    def claim(self) -> None:
        """Claim the attempt. Raises Paused if it cannot be claimed for now, and Abandoned if it never can be."""
        if self.confirm() is Action.PAUSE:
            raise Paused

    def confirm(self) -> Action | None:
        """Check that the attempt is still ours, as before a change lands. Raises Abandoned if it is not."""
        action = call_until_answered(self._beat, self._stop)
        if not self.is_wanted():
            raise Abandoned(self._lost or "shutdown")
        return action

    @contextmanager
    def renewal(self) -> Iterator[None]:
        """Send heartbeats from a thread while the block runs."""
        done = Event()
        thread = Thread(target=self._renew, args=(done,), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _renew(self, done: Event) -> None:
        while not done.wait(self._every_s) and self.is_wanted():
            try:
                self._beat()
            except Trouble as error:  # the planner judges how long silence may last
                log.warning("heartbeat_failed", extra={**self._spec.ids, "error": str(error)})

    def _beat(self) -> Action | None:
        """Send one heartbeat and return the planner's answer; None if this planner takes no heartbeats.

        The attempt then has until its deadline.
        """
        beat = self._steps.beat(self._spec.held, self._info, self.tool_calls)
        if beat is None:
            return None
        action = Action(beat.action)
        self.claimed = True
        if action in LOST:
            self._lost = action
            log.info("lease_lost", extra={**self._spec.ids, "action": action})
        if beat.lease_ttl_ms > 0:  # a planner with shorter leases needs to hear from us more often
            self._every_s = min(self._every_s, beat.lease_ttl_ms / 3000)
        return action
