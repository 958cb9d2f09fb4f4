"""The working copy of a snapshot during one decision: methods that change it and collect the writes.

A unit of work lives inside one call of a handler, so the handler remains a pure function of snapshot and messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.event import event_type
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from schemas.stored import Attempt, StepStatus
from schemas.stored.step import TEXTS, pattern_places, read_step, shared_texts, store_step, window_of
from schemas.times import rfc3339
from tasks.base.batches import batches
from tasks.base.errors import NeedsSteps
from tasks.base.log_chain import begin_line, digest_line
from tasks.plan import lifecycle
from tasks.plan.cached_draft import DRAFT_NOTE, PUT, change_at_end
from tasks.plan.changeset import Changeset, HistoryChange, plan_history
from tasks.plan.end_sum import end_sum
from tasks.plan.snapshot import NOTE, WINDOW, Snapshot, Step

REMIND_MS = 1000
KEPT_MS = 60_000  # the same, where a paused queue keeps all steps back that were read
FIRST_LOOK_MS = 60_000  # a bulk command that came while the plan was made may not have reached it
PAUSED = "pause of "  # prefix of `held` if the reason is a command


def dependents_of(steps: Sequence[PlannedStep]) -> dict[str, list[str]]:
    """Return for each step the steps that depend on it."""
    found: dict[str, list[str]] = {}
    for step in steps:
        for dependency in dict.fromkeys(step.depends_on):
            found.setdefault(dependency, []).append(step.step_id)
    return found


class UnitOfWork:
    """Applies moves to a snapshot in order; `change` has the resulting writes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.plan = snapshot.record
        self.change = Changeset(snapshot.plan_id, snapshot.record.version, snapshot.now)
        self.ready: dict[str, Step] = {step_id: snapshot.steps[step_id] for step_id in snapshot.ready}
        self.queued = self.ready.keys() | ()  # present members of the ready queue
        self.withdrawn: set[str] = set()  # steps to remove from the ready queue, wherever they are in it
        self.full: set[str] = set()  # queues that kept a step back
        self.kept: dict[str, str] = {}  # ready step -> its queue, which is paused
        self.inputs: list[Any] = []
        self.moves: list[tuple[str, str, str]] = []
        self.revisions: list[dict[str, Any]] = []
        self.born: Mapping[str, Any] = MappingProxyType({})  # how the plan began, in the line of its creation
        self.around: dict[str, Any] = {}  # other values that a handler read, for the log
        self.is_timer = False  # whether the plan's timer has run out, so that all leases in flight were read
        self.was: dict[str, Any] = {}  # step -> its spec as it was stored before it was rewritten
        self.ended_steps: list[tuple[str, int]] = []
        self.touched: dict[str, Step] = {}
        head = snapshot.record.head
        self.about = {"plan_id": snapshot.plan_id, "goal_id": head.goal_id, "tenant": head.tenant}
        if head.repo:
            self.about["repo"] = head.repo
        self.about["kind"] = head.kind
        self.at = rfc3339(snapshot.now)
        self.ends: list[Step] = []  # of a plan that expands: steps of whose end its strategy does not know yet
        self.answers: dict[str, Outcome] = {}  # from controllers
        # The strategy state of a plan that expands, None for any other plan.
        self.strategy_state = codec.loads(self.plan.strategy_state) if self.plan.strategy_state else None
        self.extra: dict[str, bytes] = {}  # fields of the plan that are written once, at its creation
        self.was_paused = self.is_paused
        self.is_delivering = self.plan.delivery.is_begun  # whether all that is left of it is its delivery
        self._listed = self.plan.state, lifecycle.is_waiting(self.plan)
        self.lapsed = 0  # tokens that attempts of another day gave back: they went with that day
        self._tokens = self.plan.reserved["tokens"] + self.plan.spent["tokens"]

    @property
    def is_stopped(self) -> bool:
        """Whether a command, a day budget or a full server keeps the plan from starting steps."""
        return bool(self.plan.paused or self.plan.held)

    @property
    def is_paused(self) -> bool:
        """Return whether a command stops the plan and its attempts in flight; a day budget leaves these alone."""
        return bool(self.plan.paused) or self.plan.held.startswith(PAUSED)

    @property
    def rested(self) -> int:
        """How long the plan has been stopped so far, in ms."""
        return self.plan.rested(self.snapshot.now)

    @property
    def tokens_used(self) -> int:
        """Tokens of today that this decision reserved or spent so far; below 0 if it released more."""
        return self.plan.reserved["tokens"] + self.plan.spent["tokens"] - self._tokens + self.lapsed

    def move_step(self, step: Step, after: str, what: str | None = None, reason: str | None = None) -> None:
        """Move a step to the state `after`, and emit `step.<what>`. Raises IllegalTransition."""
        status, before = step.status, step.status.state
        lifecycle.check_step(step.step_id, before, after)
        status.move(after, self.plan.counts)
        self.plan.dirty.add("live")
        self.touched[step.step_id] = step
        self.moves.append((step.step_id, before, after))
        if self.strategy_state and after in lifecycle.STEP_ENDS:
            self.ends.append(step)
        if what:
            data = {"step_id": step.step_id, "attempt": status.attempt, "from": before, "to": after}
            self.emit("step." + what, data, reason)

    def move_plan(
        self, after: str, what: str, reason: str | None = None, about: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Move the plan to the state `after`, and emit `plan.<what>`. Raises IllegalTransition."""
        before = self.plan.state
        lifecycle.check_plan(self.snapshot.plan_id, before, after)
        self.plan.state = after
        self.plan.dirty.add("state")
        self.moves.append(("", before, after))
        self.emit("plan." + what, {"from": before, "to": after, **about}, reason)
        if after in lifecycle.PLAN_ENDS:
            self._end_plan()

    def _end_plan(self) -> None:
        plan, head = self.plan, self.plan.head
        plan.times["ended"] = self.snapshot.now
        plan.dirty.add("live")
        self.change.ends = True
        self.change.tenant = head.tenant
        owner = plan_history(head.kind, head.tenant, head.repo)
        # Streaks of failures grow or end; a plan that an operator ended, or that never began, does neither.
        counts = plan.state != P.REJECTED and (plan.halt or {}).get("rule") != "manual"
        if owner and head.streak is not None and counts:
            change: int | str = "" if plan.state == P.COMPLETED else 1
            self.change.history += [HistoryChange(owner, name, "", change) for name in head.streak.split()]
        if head.cache:
            draft = self.note(DRAFT_NOTE) if plan.state == P.COMPLETED and head.cache[0] == PUT else None
            if kept := change_at_end(head, plan.state, self.snapshot.plan_id, self.snapshot.now, draft):
                self.change.kept.append(kept)

    def open_plan(self) -> None:
        """Open the finished plan: it becomes READY, and its wall clock starts."""
        self.move_plan(P.VALIDATING.value, "validating")
        self.move_plan(P.READY.value, "ready")
        self.plan.times["ready"] = self.snapshot.now
        self.wake_at(self.snapshot.now + min(FIRST_LOOK_MS, 1000 * (self.plan.limits["wall_clock_s"] or 0)))

    def insert(self, steps: Sequence[PlannedStep], first: int, dependents: dict[str, list[str]]) -> None:
        """Add steps to the plan, at the places from `first` on; steps without dependencies are ready.

        `dependents` has for each step the steps that depend on it. They are stored in windows of WINDOW ids.
        """
        is_first = not any(self.plan.counts.values())
        texts = shared_texts(steps) if is_first else self._texts
        places = {text: place for place, text in enumerate(texts)}
        if is_first and texts:
            self.change.specs[TEXTS] = codec.dumps(texts)
        for place, planned in enumerate(steps, first):
            state = S.BLOCKED if planned.depends_on else S.PENDING
            status = StepStatus(len(set(planned.depends_on)), state.value, place)
            step = Step(planned.step_id, None, status, texts=texts)
            self.snapshot.steps[step.step_id] = step
            self.plan.counts[state.value] = self.plan.counts.get(state.value, 0) + 1
            first_window, *windows = [*batches(dependents.get(step.step_id, ()), WINDOW)] or [()]
            self._put(step, store_step(planned, first_window, places if is_first else pattern_places(planned, texts)))
            for number, window in enumerate(windows, 1):
                self.change.specs[f">{step.step_id}:{number}"] = " ".join(window).encode()
            if state is S.PENDING:
                self.make_ready(step)
        self.plan.dirty.add("live")

    def pass_revising(self, why: str) -> None:
        """Move a plan that runs through REVISING and back; the added steps count as a revision."""
        plan = self.plan
        plan.revision += 1
        if plan.state == P.READY:  # its first step was skipped
            plan.times["started"] = self.snapshot.now
            self.move_plan(P.EXECUTING.value, "executing")
        self.move_plan(P.REVISING.value, "revising", reason=why)
        self.move_plan(P.EXECUTING.value, "revised")

    def log_added(self, ids: Sequence[str], rule: str, why: str) -> None:
        """Note the added steps in the log, and emit `plan.unfolded`."""
        data = {
            "revision": self.plan.revision,
            "policy_version": self.plan.head.policy_version,
            "rule": rule,
            "count": len(ids),
            "diff": {"added": list(ids)},
        }
        self.revisions.append({**data, "why": why})
        self.emit("plan.unfolded", data, why)

    def keep_strategy_state(self, **parts: Any) -> None:
        """Replace parts of the strategy state, in the form that they would have after a store and a read."""
        self.strategy_state = {**(self.strategy_state or {}), **codec.loads(codec.dumps(parts))}
        self.plan.dirty.add("strategy_state")

    def end_attempt(self, step: Step) -> Attempt:
        """Remove the live attempt of `step` from those in flight, with its spec and its lease."""
        attempt = self.snapshot.active.pop(step.step_id)
        self.change.ended[step.step_id] = attempt
        return attempt

    def rewrite(self, step: Step, planned: PlannedStep) -> None:
        """Replace the static part of `step`; the log of the plan keeps the previous one."""
        if step.spec is not None and step.step_id not in self.change.specs:
            self.was[step.step_id] = read_step(step.spec, step.texts)
        window = window_of(step.spec) if step.spec else ()
        self._put(step, store_step(planned, window, pattern_places(planned, step.texts)))

    @property
    def _texts(self) -> Sequence[str]:
        """The texts that the steps of the plan share, as the snapshot has read them."""
        return next((step.texts for step in self.snapshot.steps.values() if step.texts), ())

    def _put(self, step: Step, spec: bytes) -> None:
        step.spec, step.stored, step.card = spec, None, None
        self.change.specs[step.step_id] = spec
        self.touched[step.step_id] = step

    def note(self, name: str) -> Any:
        """Return the note `name`; None if the plan has no such note. Raises NeedsSteps if the snapshot lacks it.

        Notes are values that few decisions need. They are not among the fields that every decision reads.
        """
        raw = self.snapshot.notes.get(name)
        if raw is None:
            raise NeedsSteps(frozenset({NOTE + name}))
        return codec.loads(raw) if raw else None

    def keep_note(self, name: str, value: Any) -> None:
        """Store `value` as the note `name`, for later decisions about this plan."""
        self.snapshot.notes[name] = self.change.specs[NOTE + name] = codec.dumps(value)

    def keep_notes(self, notes: Mapping[str, Any]) -> None:
        """Store several notes."""
        for name, value in notes.items():
            self.keep_note(name, value)

    def make_ready(self, step: Step) -> None:
        """Put a step into the ready queue."""
        self.ready[step.step_id] = step
        self.withdrawn.discard(step.step_id)

    def withdraw(self, step: Step) -> None:
        """Remove a step from everything that could start it: the ready queue, an approval, a backoff."""
        self.ready.pop(step.step_id, None)
        self.withdrawn.add(step.step_id)
        self.plan.waits.pop(step.step_id, None)
        self.plan.backoffs.pop(step.step_id, None)
        self.plan.dirty.add("live")

    def end_step(self, step: Step, after: str, what: str, reason: str | None = None) -> None:
        """Move a step to its end, and remember it in `ended_steps` for its dependents."""
        self.plan.forget_step(step.step_id)
        self.move_step(step, after, what, reason)
        self.ended_steps.append((step.step_id, 0))

    def emit(self, what: str, data: dict[str, Any], reason: str | None = None) -> None:
        """Add an event about this plan."""
        event = {**self.about, **data, "at": self.at}
        if reason:
            event["reason"] = reason
        self.change.events.append((event_type(what), codec.dumps(event)))

    def wake_at(self, due: int) -> None:
        """Set the plan's timer to `due` (ms), unless it runs out earlier. A timer that fires too early is set again."""
        if self.plan.wake_by(due):
            self.change.wake = due
            self.plan.dirty.add("live")

    def close(self) -> Changeset:
        """Return the writes of this decision; if nothing changed, the plan keeps its version."""
        change, plan, grants = self.change, self.plan, self.snapshot.grants
        if used := self.tokens_used:
            change.taken = dict.fromkeys(grants, used)
        if change.dispatches:
            change.rests_on = {scope: grant.left for scope, grant in grants.items()}
        if change.ends:
            plan.wake = change.wake = 0
            change.sum = end_sum(plan)
        elif change.more or change.short or (change.wider and not self.snapshot.active):
            soon = KEPT_MS if self.kept and not (change.more or change.short) else REMIND_MS
            self.wake_at(self.snapshot.now + soon)  # in case the worker that goes on with it is killed
        change.statuses = {step_id: step.status.encode() for step_id, step in self.touched.items()}
        if self.ready.keys() != self.queued:
            change.ready_add = {i: s.status.index for i, s in self.ready.items() if i not in self.queued}
            change.ready_remove = [step_id for step_id in self.queued if step_id not in self.ready]
        if self.withdrawn:
            change.ready_remove += sorted(self.withdrawn - self.queued)
        if "strategy_state" in plan.dirty:
            plan.strategy_state = codec.dumps(self.strategy_state or {})
        if plan.dirty or self.extra or change.statuses or change.specs or change.todo_pop:
            change.changed = True
            self._write_log()
        change.fields = {name: plan.encode(name) for name in sorted(plan.dirty)}
        change.fields.update(self.extra)
        if not plan.version or self._listed != (plan.state, lifecycle.is_waiting(plan)):
            change.lists = lifecycle.lists_of(plan)
        return change

    def _write_log(self) -> None:
        """Write the log line of this commit, unless the commit only sets the timer.

        The digest of the line becomes the head of the log.
        """
        change, plan = self.change, self.plan
        if not (self.inputs or self.moves or change.statuses or change.todo_pop or self.born):
            return
        begun = begin_line(plan.log, change.expected + 1, change.now, self.snapshot.code)
        change.log = codec.extend(begun + b"}", self._line())
        plan.log.follow(digest_line(change.log), self.snapshot.code)
        plan.dirty.add("live")
        if change.ends:
            self._tell_head()

    def _tell_head(self) -> None:
        """Add the head of the log to the event of the plan's end; with it a reader can verify the log."""
        ends = {event_type(f"plan.{after.lower()}") for after in lifecycle.PLAN_ENDS}
        place = max(place for place, (what, _) in enumerate(self.change.events) if what in ends)
        what, data = self.change.events[place]
        self.change.events[place] = what, codec.extend(data, {"head": self.plan.log.head, "lines": self.plan.log.lines})

    def _line(self) -> dict[str, Any]:
        """Return the inputs and moves of this commit, with all that a replay needs to decide the same again."""
        line: dict[str, Any] = {"born": self.born} if self.born else {}
        line |= {"in": self.inputs, "moves": self.moves}
        if self.was:
            line["was"] = self.was
        if self.revisions:
            line["revisions"] = self.revisions
        if self.full:
            line["full"] = sorted(self.full)
        if self.kept:
            line["paused_queues"] = sorted(set(self.kept.values()))
        if self.snapshot.ready_beyond:
            line["read"] = len(self.snapshot.ready)  # of a longer ready queue
        if around := self._told_around():
            line["around"] = around
        return line

    def _told_around(self) -> dict[str, Any]:
        """Return the unusual values outside of the plan that the decision read, unless the inputs contain them."""
        snapshot, around = self.snapshot, self.around
        if snapshot.standing and not self._has_input("held", "order"):
            around["standing"] = [*snapshot.standing]
        if snapshot.probe:
            around["probe"] = snapshot.probe
        if snapshot.grants and not self._has_input("grants"):
            around["grants"] = {scope: [*grant] for scope, grant in snapshot.grants.items()}
        if snapshot.short_of_memory:
            around["memory"] = True
        for queue in sorted(set(self.kept.values())):  # the line's bytes depend on their order
            if until := snapshot.paused_queues[queue].until:
                around.setdefault("paused_until", {})[queue] = until
        if snapshot.leases:
            expired = [said[1] for said in self.inputs if said[0] == "expired"]
            if leases := {step: [*snapshot.leases[step]] for step in expired if step in snapshot.leases}:
                around["leases"] = around.get("leases", {}) | leases
        return around

    def _has_input(self, *names: str) -> bool:
        return any(said[0] in names for said in self.inputs)
