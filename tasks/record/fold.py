"""The lines of a plan's log, decided again by the handlers that decided them, on the plan as it was before each."""

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
from tasks.handlers.outcomes import Report
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Snapshot
from tasks.record.held_plan import HeldPlan
from tasks.record.surroundings import Line, Surroundings, clocks_of, leases_of

CLOCKS = frozenset(
    {"expired", "backoff over", "outage", "wall clock over", "approval over", "answer over", "delivery over"}
)


class Fold:
    """A plan that was created, in which nothing happens but what the lines of its log say.

    `decide` changes nothing; `fold` decides and commits. Both take a line as it is decoded. Whoever folds under other
    rules gives it a plan whose head has them, and stops where a decision is another one: what the lines behind it say
    did not happen to that plan.
    """

    def __init__(self, plan: HeldPlan) -> None:
        self.plan = plan
        self._around = Surroundings(plan.record.held)

    @property
    def record(self) -> PlanRecord:
        """The plan as it is now."""
        return self.plan.record

    def fold(self, line: Line) -> Changeset:
        """Make the commit of `line` again."""
        change = self.decide(line)
        self.plan.commit(change)
        return change

    def decide(self, line: Line) -> Changeset:
        """Decide again about what came in with `line`.

        Commits between the last line and this one had none, since they only set the plan's timer: they are made first.
        """
        while (version := self.plan.version) < line["version"] - 1:
            self.plan.commit(Changeset(self.plan.plan_id, version, line["now"], changed=True))
        self._around.read(line)
        wanted = _named(line)
        while True:
            try:
                return _decide(line, self._view(line, wanted))
            except NeedsSteps as missing:
                wanted = [*wanted, *self._names(missing)]

    def _names(self, missing: NeedsSteps) -> list[str]:
        """The steps that a decision needs, as the engine finds them."""
        every = self.plan.status if EVERY_STEP in missing.step_ids else ()
        return sorted((missing.step_ids - {EVERY_STEP}).union(every))

    def _view(self, line: Line, wanted: Sequence[str]) -> Snapshot:
        view = self.plan.snapshot(line["now"], wanted)
        view.active = {step: view.active[step] for step in _as_told(line, [*view.active])}
        view.leases = leases_of(view, line)
        self._around.put_around(view, line)
        return view


def _decide(line: Line, view: Snapshot) -> Changeset:
    if orders := [Command.model_validate(said[1]) for said in line["in"] if said[0] == "command"]:
        return commands.apply(view, orders)
    if CLOCKS.intersection(said[0] for said in line["in"]):
        return upkeep.apply(view, clocks_of(view, line))
    return outcomes.apply(view, [_report(*said[1:]) for said in line["in"] if said[0] == "outcome"])


def _named(line: Line) -> list[str]:
    told = [said[3]["step_id"] for said in line["in"] if said[0] == "outcome"]
    ordered = [said[1]["step_id"] for said in line["in"] if said[0] == "command" and "step_id" in said[1]]
    return list(dict.fromkeys([*told, *ordered]))


def _as_told(line: Line, steps: list[str]) -> list[str]:
    """Sort what is in flight as the line names it: a server keeps it in no order, and several may end at once."""
    told = [said[1] for said in line["in"] if said[0] == "expired"] + [move[0] for move in line["moves"]]
    place = {step: number for number, step in reversed([*enumerate(told)])}
    return sorted(steps, key=lambda step: place.get(step, len(told)))


def _report(attempt: int | None, lease: str | None, said: Any) -> Report:
    raw = codec.dumps(said)
    return Report(Outcome.model_validate_json(raw), attempt, lease, raw, blake2b(raw, digest_size=9).hexdigest())
