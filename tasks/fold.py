"""The working copy of a slice while one decision is made: verbs that change it and collect the writes.

A fold lives inside one call of a handler, so the handler stays a pure function of its slice and its messages.
"""

from __future__ import annotations

from typing import Any

from schemas import codec
from schemas.event import event_type
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.change import Change
from tasks.policy import lifecycle
from tasks.view import Slice, Step

REMIND_MS = 1000


class Fold:
    """Applies moves to a slice in order; `change` is what they amount to."""

    def __init__(self, view: Slice) -> None:
        self.view = view
        self.plan = view.record
        self.change = Change(view.plan_id, view.record.version, view.now)
        self.ready: dict[str, Step] = {step_id: view.steps[step_id] for step_id in view.ready}
        self.queued = self.ready.keys() | ()  # what the ready queue holds now
        self.inputs: list[Any] = []
        self.moves: list[tuple[str, str, str]] = []
        self.revisions: list[dict[str, Any]] = []
        self.ended_steps: list[tuple[str, int]] = []
        self.touched: dict[str, Step] = {}
        self.about = {"plan_id": view.plan_id, "goal_id": view.record.head.goal_id}
        self.at = rfc3339(view.now)
        self.extra: dict[str, bytes] = {}  # fields of the plan that are written once, at its creation

    def move_step(self, step: Step, after: str, what: str | None = None, reason: str | None = None) -> None:
        """Take a step to the state `after`, and tell it as the event `step.<what>`; raises IllegalTransition."""
        status, counts = step.status, self.plan.counts
        before = status.state
        lifecycle.check_step(step.step_id, before, after)
        status.state = after
        counts[before] -= 1
        counts[after] = counts.get(after, 0) + 1
        self.plan.dirty.add("live")
        self.touched[step.step_id] = step
        self.moves.append((step.step_id, before, after))
        if what:
            told = {"step_id": step.step_id, "attempt": status.attempt, "from": before, "to": after}
            self.tell("step." + what, told, reason)

    def move_plan(self, after: str, what: str, reason: str | None = None) -> None:
        """Take the plan to the state `after`, tell it as the event `plan.<what>`; raises IllegalTransition."""
        before = self.plan.state
        lifecycle.check_plan(self.view.plan_id, before, after)
        self.plan.state = after
        self.plan.dirty.add("state")
        self.moves.append(("", before, after))
        self.tell("plan." + what, {"from": before, "to": after}, reason)
        if after in lifecycle.PLAN_ENDS:
            self._end_plan()

    def _end_plan(self) -> None:
        self.plan.times["ended"] = self.view.now
        self.plan.dirty.add("live")
        self.change.ends = True

    def end_attempt(self, step: Step) -> Attempt:
        """Take the live attempt of `step` out of flight, with its spec and its lease."""
        attempt = self.view.active.pop(step.step_id)
        self.change.ended[step.step_id] = attempt
        return attempt

    def rewrite(self, step: Step, spec: bytes) -> None:
        """Give `step` another static part."""
        step.spec, step.stored = spec, None
        self.change.specs[step.step_id] = spec
        self.touched[step.step_id] = step

    def make_ready(self, step: Step) -> None:
        """Put a step into the ready queue."""
        self.ready[step.step_id] = step

    def end_step(self, step: Step) -> None:
        """Note that what depends on `step` must hear of its end."""
        self.ended_steps.append((step.step_id, 0))

    def tell(self, what: str, data: dict[str, Any], reason: str | None = None) -> None:
        """Add an event about this plan."""
        told = {**self.about, **data, "at": self.at}
        if reason:
            told["reason"] = reason
        self.change.events.append((event_type(what), codec.dumps(told)))

    def wake_at(self, due: int) -> None:
        """Have the plan looked at by `due` at the latest. A timer that comes too early finds out and waits on."""
        if not self.plan.wake or due < self.plan.wake:
            self.plan.wake = self.change.wake = due
            self.plan.dirty.add("live")

    def close(self) -> Change:
        """Return the writes. Inputs that changed nothing leave the version where it is."""
        change, plan = self.change, self.plan
        if change.ends:
            plan.wake = change.wake = 0
        elif change.more:
            self.wake_at(self.view.now + REMIND_MS)  # in case the worker that goes on with it dies
        change.statuses = {step_id: step.status.encode() for step_id, step in self.touched.items()}
        if self.ready.keys() != self.queued:
            change.ready_add = {i: s.status.index for i, s in self.ready.items() if i not in self.queued}
            change.ready_remove = [step_id for step_id in self.queued if step_id not in self.ready]
        change.fields = {name: plan.encode(name) for name in sorted(plan.dirty)}
        change.fields.update(self.extra)
        change.changed = bool(change.fields or change.statuses or change.todo_pop)
        if change.changed and (self.inputs or self.moves):
            line = {"version": change.expected + 1, "now": self.view.now, "in": self.inputs, "moves": self.moves}
            change.log = codec.dumps({**line, "revisions": self.revisions} if self.revisions else line)
        return change
