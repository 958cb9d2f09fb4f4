"""The claimant of an attempt that is handed back: read from the lease, not from the outcome."""

from __future__ import annotations

from typing import Any

from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.plan.snapshot import Lease, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import HandedBack
from tasks.text.fields import as_written, fit

MAX_NAME, MAX_REASON = 80, 200


def claimed_by(unit: UnitOfWork, step: Step, attempt: Attempt, reason: str) -> HandedBack:
    """Return the claimant of an attempt that is handed back for `reason`, and the time of the claim."""
    lease = unit.snapshot.leases.get(step.step_id)
    if lease is None or lease.attempt != attempt.attempt or not lease.claimed:
        # No controller has claimed it; a claim before this commit makes the decision run again.
        unit.change.guards[step.step_id] = lease.renewed if lease else 0
        lease = Lease(attempt.attempt, 0, 0)
    since = lease.claimed if attempt.at <= lease.claimed <= unit.snapshot.now else attempt.at
    name = fit(lease.controller, MAX_NAME) if lease.claimed else ""
    unit.inputs.append(["handed back", step.step_id, attempt.attempt, name, lease.claimed])
    return HandedBack(fit(reason, MAX_REASON, as_written), name, since)


def describe_release(step_id: str, attempt: int, controller: str, reason: str, at: int) -> dict[str, Any]:
    """Return one release as an entry of the evidence of a halt."""
    return {"at": rfc3339(at), "step_id": step_id, "attempt": attempt, "controller": controller, "reason": reason}
