"""A plan made again from its log: the lines of the log are folded into a plan that was created alike."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from schemas import codec
from schemas.command import Command
from schemas.outcome import Outcome
from tasks.base.errors import NeedsSteps
from tasks.handlers import commands, outcomes, upkeep
from tasks.handlers.outcomes import Report
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Clocks, Grant, Snapshot, StandingCommand
from tasks.plan.unit_of_work import PAUSED
from tests.support.any_plan import an_order
from tests.support.plans import PARTITION, PLAN, Running, a_report
from tests.support.surroundings import alter
from worker.engine.router import MAX_PAGE
from worker.store.plans import Ask, Write

CLOCKS = {"expired", "backoff over", "outage", "wall clock over", "approval over", "answer over", "delivery over"}
DAY_BUDGET = "the day budget of "


def run(plan: Running, doings: list[Any]) -> None:
    for number, (what, which, *said) in enumerate(doings):
        if what == "wait":
            plan.store.wait(min(which, 3_000_000))
            plan.sweep()
        elif what == "around":
            alter(plan, number, *which)
        elif what == "order":
            steps = sorted(plan.record.waits or plan.states)
            plan.obey(an_order(number, said[0], steps[which % len(steps)], plan.store.now))
        elif plan.active:
            step = sorted(plan.active)[which % len(plan.active)]
            if what == "claim":
                plan.store.claim(PLAN, step)
            else:
                told = {**said[0], "metrics": said[1], "diff_hash": str(number)}
                steps = [step] if what == "report" else sorted(plan.active)
                live = [(each, plan.active[each]) for each in steps]
                lease = number % 2  # half of them tell no lease, which counts as long as nobody has claimed the attempt
                plan.report(*[a_report(each, one.attempt, one.lease if lease else None, **told) for each, one in live])


class Again:
    """A plan that was created alike, in which nothing happens but what the lines of a log say."""

    def __init__(self, plan: Running) -> None:
        self.plan = plan
        self.held = plan.record.held  # its creation may have used the day budget up
        self.standing: StandingCommand | None = None

    def fold(self, line: dict[str, Any]) -> None:
        """Make the commit of `line` again."""
        plan, store = self.plan, self.plan.store
        store.now = line["now"]
        while (version := plan.record.version) < line["version"] - 1:  # these only set the timer anew
            assert store.commit([Write(Changeset(PLAN, version, store.now, changed=True))]) == ["ok"]
        self._lease(line)
        steps: list[str] = []
        while True:
            view = self._view(line, Ask(PLAN, [*self._named(line), *steps], leases=True, page=MAX_PAGE))
            try:
                change = self._decide(line, view)
            except NeedsSteps as missing:
                steps += self.plan.named(missing)
            else:
                change.taken, change.rests_on = {}, {}  # what the day budgets had left is what the line says
                assert store.commit([Write(change)]) == ["ok"]
                return

    def _decide(self, line: dict[str, Any], view: Snapshot) -> Changeset:
        if orders := [Command.model_validate(said[1]) for said in line["in"] if said[0] == "command"]:
            return commands.apply(view, orders)
        outages = [said[1:] for said in line["in"] if said[0] == "outage"]
        if CLOCKS.intersection(said[0] for said in line["in"]):
            clocks = [Clocks(grace, view.record.times["down"] + down) for down, grace in outages]
            return upkeep.apply(view, *clocks)
        return outcomes.apply(view, [_report(*said[1:]) for said in line["in"] if said[0] == "outcome"])

    def _named(self, line: dict[str, Any]) -> list[str]:
        told = [said[3]["step_id"] for said in line["in"] if said[0] == "outcome"]
        ordered = [said[1]["step_id"] for said in line["in"] if said[0] == "command" and "step_id" in said[1]]
        return list(dict.fromkeys([*told, *ordered]))

    def _view(self, line: dict[str, Any], ask: Ask) -> Snapshot:
        """Read the plan, with what stood around it then."""
        view, once = self.plan.begin(ask), {said[0]: said[1:] for said in line["in"]}
        if "held" in once:
            self.held, *standing = once["held"]
            self.standing = StandingCommand(*standing) if standing else None
        view.standing = StandingCommand(*once["order"]) if "order" in once else self.standing
        view.short_of_memory = not self.held.startswith((PAUSED, DAY_BUDGET)) and bool(self.held)
        view.grants = {scope: Grant(*grant) for scope, grant in once.get("grants", [{}])[0].items()}
        if self.held.startswith(DAY_BUDGET):
            view.grants = {self.held.split()[4]: Grant(0, exhausted=True)}
        view.full = line.get("full", ())
        pause = StandingCommand("pause", "queue", "", "", "")
        view.paused_queues = dict.fromkeys(line.get("paused_queues", ()), pause)
        if "read" in line:
            view.ready, view.ready_beyond = view.ready[: line["read"]], True
        return view

    def _lease(self, line: dict[str, Any]) -> None:
        """Give every attempt in flight a lease that has run out just as the line says, or not at all."""
        now = self.plan.store.now
        lapsed = {said[1]: said[3:] for said in line["in"] if said[0] == "expired"}
        lapsed |= {said[1]: (False, "") for said in line["in"] if said[0] == "unclaimed"}
        handed_back = {said[1]: said[3:] for said in line["in"] if said[0] == "handed back"}
        for step in self.plan.active:
            claimed, reason = lapsed.get(step, (True, ""))
            lease = self.plan.store.hash(PARTITION.lease_prefix(PLAN) + step)
            lease["claimed"] = 1 if "past its time" in reason else now if claimed else 0
            lease["renewed"] = 1 if "silent" in reason else now if claimed else 0
            if step in handed_back:
                lease["controller"], lease["claimed"] = handed_back[step]


def _report(attempt: int | None, lease: str | None, said: Any) -> Report:
    raw = codec.dumps(said)
    return Report(Outcome.model_validate_json(raw), attempt, lease, raw, blake2b(raw, digest_size=9).hexdigest())


def everything(plan: Running) -> dict[str, Any]:
    """All keys of the plan but for its timer, and what waits in the queue."""
    k = plan.keys
    found = {key: dict(plan.store.hash(key)) for key in (k.plan, k.status, k.ready, k.active, k.steps)}
    live = codec.loads(found[k.plan].pop("live"))
    for name in ("lock", "version"):  # commits behind the last line moved nothing
        found[k.plan].pop(name, None)
    return found | {"live": {**live, "wake": 0}, "log": list(plan.store.items(k.log)), "specs": plan.specs}
