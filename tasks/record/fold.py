"""Replays the lines of a plan's log: each is decided again, on the plan as it was before the line."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from schemas import codec
from schemas.command import Command
from schemas.outcome import Outcome
from schemas.stored import PlanRecord
from tasks.base.errors import EVERY_STEP, NeedsSteps
from tasks.handlers import commands, outcomes, upkeep
from tasks.plan.changeset import Changeset
from tasks.plan.report import Report
from tasks.plan.snapshot import Snapshot
from tasks.record.held_plan import HeldPlan
from tasks.record.lines import Line, Told
from tasks.record.surroundings import add_surroundings, clocks_of, leases_of

CLOCKS = frozenset(
    {
        *("expired", "backoff over", "outage", "wall clock over", "approval over", "answer over", "delivery over"),
        *("file wait", "file wait over", "let through"),
    }
)


class Fold:
    """Replays a log on a created plan, one decoded line at a time.

    `decide` changes nothing; `fold` decides and commits. To replay under other rules, pass a plan with these rules in
    its head. Stop at the first different decision, because later lines do not belong to that plan. Without the plan's
    seed (`has_seed`) the lines supply the leases of attempts and the ends of backoffs.
    """

    def __init__(self, plan: HeldPlan, *, has_seed: bool = True) -> None:
        self.plan = plan
        self._has_seed = has_seed
        self._code = plan.record.log.by  # the code of the newest line

    @property
    def record(self) -> PlanRecord:
        """The present state of the plan."""
        return self.plan.record

    def fold(self, line: Line) -> Changeset:
        """Decide `line` again, commit the decision, and return it."""
        change = self.decide(line)
        self.plan.commit(change)
        return change

    def decide(self, line: Line) -> Changeset:
        """Return the decision about the inputs of `line`; commits before it that wrote no line are made first.

        Such commits only set the plan's timer.
        """
        self.pass_timers(line["version"] - 1)
        self._code = line.get("by", self._code)
        wanted = _named(line)
        while True:
            try:
                return _decide(line, self._view(line, wanted))
            except NeedsSteps as missing:
                names = self._names(missing)
                if not {*names} - {*wanted}:  # no planner has written such a log
                    raise
                wanted = [*wanted, *names]

    def pass_timers(self, version: int) -> None:
        """Raise the plan's version to `version`, for commits that only set its timer and wrote no line."""
        if version > self.plan.version:
            self.plan.fields["version"] = b"%d" % version

    def _names(self, missing: NeedsSteps) -> list[str]:
        """Return the ids of the steps that a decision lacks; all steps if it asks for every step."""
        every = self.plan.status if EVERY_STEP in missing.step_ids else ()
        return sorted((missing.step_ids - {EVERY_STEP}).union(every))

    def _view(self, line: Line, wanted: Sequence[str]) -> Snapshot:
        view = self.plan.snapshot(line["now"], wanted, ready=line.get("read"))
        view.active = {step: view.active[step] for step in _as_told(line, [*view.active])}
        view.leases, view.knows_leases = leases_of(view, line), True
        view.record.wake = 0  # logs have no timers, and this line's commit may have only set one
        if not self._has_seed:
            _take_from(line, view)
        view.code = self._code
        add_surroundings(view, line)
        return view


def _decide(line: Line, view: Snapshot) -> Changeset:
    if orders := [Command.model_validate(said[1]) for said in line["in"] if said[0] == "command"]:
        return commands.apply(view, orders)
    reports = [_report(*said[1:]) for said in line["in"] if said[0] == "outcome"]
    if not reports and ("clocks" in line.get("around", ()) or CLOCKS.intersection(said[0] for said in line["in"])):
        return upkeep.apply(view, clocks_of(line))
    return outcomes.apply(view, reports)


def _take_from(line: Line, view: Snapshot) -> None:
    """Set the leases that the line names, and let exactly the backoffs end that the line ends."""
    for what, *said in line["in"]:
        if what == "outcome" and said[1] and (attempt := view.active.get(said[2]["step_id"])):
            attempt.lease = said[1]
    over = {step for what, *said in line["in"] if what == "backoff over" for step in said[0]}
    for step, until in view.record.backoffs.items():
        view.record.backoffs[step] = view.now if step in over else max(until, view.now + 1)


def _named(line: Line) -> list[str]:
    told = [said[3]["step_id"] for said in line["in"] if said[0] == "outcome"]
    ordered = [said[1]["step_id"] for said in line["in"] if said[0] == "command" and "step_id" in said[1]]
    return list(dict.fromkeys([*told, *ordered]))


def _as_told(line: Line, steps: list[str]) -> list[str]:
    """Return attempts in flight in the order of the line, since the server has no order and several may end at once.

    This is the order of their moves. A step that ended without a move comes before the next step in the line.
    """
    told = list(dict.fromkeys(move[0] for move in line["moves"]))
    following = ""
    for step in reversed([said[1] for said in line["in"] if said[0] in ("expired", "unclaimed")]):
        if step not in told:
            told.insert(told.index(following) if following else len(told), step)
        following = step
    place = {step: number for number, step in enumerate(told)}
    return sorted(steps, key=lambda step: place.get(step, len(told)))


def _report(attempt: int | None, lease: str | None, said: Any) -> Report:
    raw = said.raw if isinstance(said, Told) else codec.dumps(said)
    outcome = Outcome.model_validate_json(raw)
    if outcome.output is not None:  # as it was read at its arrival: numbers of 64 bits, else doubles
        outcome = outcome.model_copy(update={"output": said["output"]})
    return Report(outcome, attempt, lease, raw, blake2b(raw, digest_size=9).hexdigest())
