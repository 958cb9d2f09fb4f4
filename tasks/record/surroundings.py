"""What stood around a plan when a line of its log was decided, as the lines tell it."""

from __future__ import annotations

from schemas.stored import PlanRecord
from tasks.base.log_chain import LOG, find_head
from tasks.plan.snapshot import Clocks, Grant, Lease, Snapshot, StandingCommand
from tasks.plan.unit_of_work import PAUSED
from tasks.record.lines import Line

DAY_BUDGET = "the day budget of "  # what `held` begins with where that is why; the scope follows


class Surroundings:
    """What holds for a plan from a line on until another one says otherwise, beside what one line alone says."""

    def __init__(self, plan: PlanRecord) -> None:
        self.held = plan.held  # why the plan starts nothing; its creation may have used the day budget up
        head = find_head(plan.halting, plan.version)
        self.code = head.by if head else ""
        self.standing: StandingCommand | None = None

    def read(self, line: Line) -> None:
        """Take in what `line` says of what holds from now on."""
        if "by" in line or "prev" not in line:  # a worker of an older version tells neither
            self.code = line.get("by", "")
        for what, *said in line["in"]:
            if what == "held":
                self.held, *standing = said
                self.standing = StandingCommand(*standing) if standing else None

    def put_around(self, view: Snapshot, line: Line) -> None:
        """Give the snapshot for the decision of `line` what stood around the plan then."""
        once = {said[0]: said[1:] for said in line["in"]}
        view.code = self.code
        if "prev" not in line:
            view.record.halting.pop(LOG, None)
        view.standing = StandingCommand(*once["order"]) if "order" in once else self.standing
        view.short_of_memory = not self.held.startswith((PAUSED, DAY_BUDGET)) and bool(self.held)
        view.grants = {scope: Grant(*grant) for scope, grant in once.get("grants", [{}])[0].items()}
        if self.held.startswith(DAY_BUDGET):
            view.grants = {self.held.split()[4]: Grant(0, exhausted=True)}
        view.full = line.get("full", ())
        pause = StandingCommand("pause", "queue", "", "", "")
        view.paused_queues = dict.fromkeys(line.get("paused_queues", ()), pause)


def leases_of(view: Snapshot, line: Line) -> dict[str, Lease]:
    """Make the lease of every attempt in flight: one that has run out just as the line says, or not at all."""
    now, leases = view.now, {}
    lapsed = {said[1]: said[3:] for said in line["in"] if said[0] == "expired"}
    lapsed |= {said[1]: (False, "") for said in line["in"] if said[0] == "unclaimed"}
    handed_back = {said[1]: said[3:] for said in line["in"] if said[0] == "handed back"}
    for step, attempt in view.active.items():
        is_claimed, reason = lapsed.get(step, (True, ""))
        claimed = 1 if "past its time" in reason else now if is_claimed else 0
        renewed = 1 if "silent" in reason else now if is_claimed else 0
        controller, claimed = handed_back.get(step, ("", claimed))
        leases[step] = Lease(attempt.attempt, claimed, renewed, controller)
    return leases


def clocks_of(view: Snapshot, line: Line) -> Clocks:
    """Say what the sweep knew that decided the line: how long nobody swept is told where it grew."""
    outages = [said[1:] for said in line["in"] if said[0] == "outage"]
    return Clocks(outages[0][1], view.record.times["down"] + outages[0][0]) if outages else Clocks()
