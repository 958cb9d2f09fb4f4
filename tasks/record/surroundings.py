"""Reads from a log line the state around the plan at that decision: pauses, budgets, claims, leases, clocks."""

from __future__ import annotations

from tasks.plan.file_claims import FileClaims
from tasks.plan.snapshot import Clocks, Grant, Lease, Snapshot, StandingCommand
from tasks.record.lines import Line


def add_surroundings(view: Snapshot, line: Line) -> None:
    """Add to the snapshot the state around the plan (pauses, budgets, claims) that the log line records."""
    around = line.get("around", {})
    view.full = line.get("full", ())
    view.probe = around.get("probe", "")
    view.paused_queues, view.grants = paused_queues_of(line), grants_of(line)
    view.claims = claims_of(line) or FileClaims()
    view.standing = standing_of(line)
    view.short_of_memory = "memory" in around


def standing_of(line: Line) -> StandingCommand | None:
    """Return the bulk command that applied to the plan at the decision; None if there was none."""
    for what, *said in line["in"]:
        if what in ("order", "held"):
            standing = said if what == "order" else said[1:]
            break
    else:
        standing = line.get("around", {}).get("standing", ())
    return StandingCommand(*standing) if standing else None


def grants_of(line: Line) -> dict[str, Grant]:
    """Return the part of each day budget that was left at the decision."""
    told = [said[1] for said in line["in"] if said[0] == "grants"]
    grants = told[0] if told else line.get("around", {}).get("grants", {})
    return {scope: Grant(*grant) for scope, grant in grants.items()}


def paused_queues_of(line: Line) -> dict[str, StandingCommand]:
    """Return the pause of each queue that kept steps of the plan back."""
    until = line.get("around", {}).get("paused_until", {})
    return {
        queue: StandingCommand("pause", f"queue:{queue}", "", "", "", until.get(queue, 0))
        for queue in line.get("paused_queues", ())
    }


def claims_of(line: Line) -> FileClaims | None:
    """Return the claims on the repository's files; None if the decision did not read claims."""
    told = line.get("around", {}).get("claims")
    return None if told is None else FileClaims.read(told)


def leases_of(view: Snapshot, line: Line) -> dict[str, Lease]:
    """Return a lease for every attempt in flight; it has run out only if the line records that.

    An attempt that ended because its lease was gone gets none.
    """
    told = line.get("around", {}).get("leases", {})
    leases = {step: Lease(*told[step]) for step in view.active if step in told}
    expired, unclaimed = ({said[1] for said in line["in"] if said[0] == what} for what in ("expired", "unclaimed"))
    handed_back = {said[1]: said[3:] for said in line["in"] if said[0] == "handed back"}
    for step, attempt in view.active.items():
        if step not in leases and step not in expired:  # an attempt that expired without a lease had none
            renewed = 0 if step in unclaimed else view.now
            controller, claimed = handed_back.get(step, ("", renewed))
            leases[step] = Lease(attempt.attempt, claimed, renewed, controller)
    return leases


def clocks_of(line: Line) -> Clocks:
    """Return the clocks of the sweep that made the decision of the line."""
    return Clocks(*line.get("around", {}).get("clocks", ()))
