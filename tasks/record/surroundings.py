"""What stood around a plan when a line of its log was decided, as the lines tell it."""

from __future__ import annotations

from schemas.stored import PlanRecord
from tasks.base.log_chain import LOG, find_head
from tasks.plan.file_claims import FileClaims
from tasks.plan.snapshot import Clocks, Grant, Lease, Snapshot, StandingCommand
from tasks.plan.unit_of_work import PAUSED
from tasks.record.lines import Line, tells_all

DAY_BUDGET = "the day budget of "  # what `held` begins with where that is why; the scope follows


class Surroundings:
    """What holds for a plan from a line on until another one says otherwise, beside what one line alone says."""

    def __init__(self, plan: PlanRecord) -> None:
        self.held = plan.held  # why the plan starts nothing; its creation may have used the day budget up
        head = find_head(plan.counters, plan.version)
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
            view.record.counters.pop(LOG, None)
        view.full = line.get("full", ())
        view.probe = line.get("around", {}).get("probe", "")
        view.paused_queues, view.grants = paused_queues_of(line), grants_of(line)
        view.claims = claims_of(line) or FileClaims()
        if "order" in once or tells_all(line):
            view.standing = standing_of(line)
            view.short_of_memory = "memory" in line.get("around", {})
        else:
            self._guess(view)

    def _guess(self, view: Snapshot) -> None:
        """Take from why the plan is held what a line of an older release does not tell."""
        view.standing = self.standing
        view.short_of_memory = not self.held.startswith((PAUSED, DAY_BUDGET)) and bool(self.held)
        if self.held.startswith(DAY_BUDGET):
            view.grants = {self.held.split()[4]: Grant(0, exhausted=True)}


def standing_of(line: Line) -> StandingCommand | None:
    """Read which bulk command stood for the plan."""
    for what, *said in line["in"]:
        if what in ("order", "held"):
            standing = said if what == "order" else said[1:]
            break
    else:
        standing = line.get("around", {}).get("standing", ())
    return StandingCommand(*standing) if standing else None


def grants_of(line: Line) -> dict[str, Grant]:
    """Read what was left of day budgets, as far as the line tells it."""
    told = [said[1] for said in line["in"] if said[0] == "grants"]
    grants = told[0] if told else line.get("around", {}).get("grants", {})
    return {scope: Grant(*grant) for scope, grant in grants.items()}


def paused_queues_of(line: Line) -> dict[str, StandingCommand]:
    """Read which queues kept steps back because they were paused."""
    until = line.get("around", {}).get("paused_until", {})
    return {
        queue: StandingCommand("pause", f"queue:{queue}", "", "", "", until.get(queue, 0))
        for queue in line.get("paused_queues", ())
    }


def claims_of(line: Line) -> FileClaims | None:
    """Read what plans claimed of the repository's files, where the decision asked for that."""
    told = line.get("around", {}).get("claims")
    return None if told is None else FileClaims.read(told)


def leases_of(view: Snapshot, line: Line) -> dict[str, Lease]:
    """Make the lease of every attempt in flight: one that has run out just as the line says, or not at all."""
    told = line.get("around", {}).get("leases", {})
    now, leases = view.now, {}
    expired = {said[1]: said[3:] for said in line["in"] if said[0] == "expired"}
    lapsed = expired | {said[1]: (False, "") for said in line["in"] if said[0] == "unclaimed"}
    handed_back = {said[1]: said[3:] for said in line["in"] if said[0] == "handed back"}
    for step, attempt in view.active.items():
        if step in told:
            leases[step] = Lease(*told[step])
            continue
        if step in expired and tells_all(line):  # there was none
            continue
        is_claimed, reason = lapsed.get(step, (True, ""))
        claimed = 1 if "past its time" in reason else now if is_claimed else 0
        renewed = 1 if "silent" in reason else now if is_claimed else 0
        controller, claimed = handed_back.get(step, ("", claimed))
        leases[step] = Lease(attempt.attempt, claimed, renewed, controller)
    return leases


def clocks_of(view: Snapshot, line: Line) -> Clocks:
    """Say what the sweep knew that decided the line; older releases told how long nobody swept where it grew."""
    if tells_all(line):
        return Clocks(*line.get("around", {}).get("clocks", ()))
    outages = [said[1:] for said in line["in"] if said[0] == "outage"]
    return Clocks(outages[0][1], view.record.times["down"] + outages[0][0]) if outages else Clocks()
