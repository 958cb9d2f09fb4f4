"""Connects a plan with the breaker of its repository: the plan reports failures, and may run the probe.

The breaker pauses a repository if many of its plans fail alike. From time to time it lets one plan start one step, the
probe. The record of the pause names this plan, and the plan stores whether it has used the probe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.base import StepState
from schemas.outcome import MAX_TRACE_CHARS
from schemas.stored.features import Probe
from tasks.base.series import series_name
from tasks.features.breakers.breaker import DONE, FAILED, STARTED, find_lifted, find_pause, find_probe
from tasks.plan.changeset import CountedFailure, ProbeNews
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import PAUSED, UnitOfWork
from tasks.policy.pipeline import AFTER_FAILURE, AT_CLOSE, HOLDS, LET_THROUGH, LIFT, STANDING, WHILE_STOPPED, Feature
from tasks.text.fields import fit, flatten

MAX_TOLD = 160  # characters of the description of a failure


def count_failure(unit: UnitOfWork, step: Step, failure: dict[str, Any], signature: str) -> None:
    """Report a failure to the breaker; a failure without a signature equals no other."""
    head = unit.plan.head
    if not head.repo:
        return
    said = failure["trace"] or failure["suggestion"] or ""
    told = fit(flatten(said[:MAX_TRACE_CHARS]), MAX_TOLD)
    about = (unit.snapshot.plan_id, step.step_id, step.status.attempt)
    found = CountedFailure(signature, bool(step.facts["verify_tools"]), *about, failure["category"], told)
    unit.change.failures.append((series_name(head.tenant, head.repo), found))


def _lets_through(unit: UnitOfWork) -> bool:
    """Return whether one step of this plan may start although the breaker has paused its repository."""
    snapshot, plan = unit.snapshot, unit.plan
    standing, token = snapshot.standing, snapshot.probe
    if not token or standing is None or standing.command_id != token.rpartition(".")[0]:
        return False
    if plan.paused or not plan.held.startswith(PAUSED) or snapshot.short_of_memory or any(hold(plan) for hold in HOLDS):
        return False
    is_used = plan.probe.token or plan.probe.ended == token
    return not is_used and not any(grant.exhausted and grant.left <= 0 for grant in snapshot.grants.values())


def _first_choice(steps: Iterable[Step]) -> list[Step]:
    """Sort steps for the choice of the probe: first those that failed, then those with a verification, then others."""
    known = [step for step in steps if step.spec is not None]
    return sorted(
        known, key=lambda step: (not step.status.signature, not step.facts["verify_tools"], step.status.index)
    )


def _find_unclaimed(unit: UnitOfWork) -> Step | None:
    """Return a queued step that may become the probe at once; during the pause no controller can claim its attempt.

    Returns None if a controller works on the plan, or if the plan's timer did not cause this decision.
    """
    if not unit.is_timer:
        return None
    snapshot = unit.snapshot
    leases = [snapshot.leases.get(step_id) for step_id in snapshot.active]
    if any(lease is None or lease.claimed for lease in leases):
        return None
    return next(iter(_first_choice([snapshot.steps[name] for name in snapshot.active if name in snapshot.steps])), None)


def choose(unit: UnitOfWork) -> Sequence[Step]:
    """Return the ready steps of a stopped plan, best first, if one may start as the probe; else nothing.

    An attempt that was queued before the pause becomes the probe at once, and a controller may claim it.
    """
    if not _lets_through(unit):
        return ()
    if step := _find_unclaimed(unit):
        unit.inputs.append(["let through", step.step_id, step.status.attempt])
        unit.around["leases"] = {name: [*lease] for name, lease in unit.snapshot.leases.items()}
        unit.change.actions[step.step_id] = "continue"
        _note_start(unit, step)
        return ()
    return _first_choice(unit.ready.values())


def _note_start(unit: UnitOfWork, step: Step) -> None:
    """Note that `step` is the probe."""
    probe = unit.plan.probe
    probe.token, probe.step_id, probe.attempt = unit.snapshot.probe, step.step_id, step.status.attempt
    unit.plan.dirty.add("live")
    _tell(unit, STARTED, verifies=False)


def close(unit: UnitOfWork) -> None:
    """Note the step that became the probe, pause or continue a probe in flight, or report the result of the probe."""
    probe = unit.plan.probe
    if unit.is_stopped and unit.change.dispatches:
        _note_start(unit, unit.snapshot.steps[unit.change.dispatches[0].step_id])
    elif probe.token and probe.step_id in unit.snapshot.active:
        _pause_probe(unit)
    elif probe.token:
        _note_end(unit)


def _pause_probe(unit: UnitOfWork) -> None:
    """Pause the probe in flight while a person has paused its plan, too; continue it afterwards."""
    probe, standing = unit.plan.probe, unit.snapshot.standing
    is_breakers = standing is not None and standing.command_id == probe.token.rpartition(".")[0]
    goes_on = not unit.is_paused or (is_breakers and not unit.plan.paused)
    unit.change.actions[probe.step_id] = "continue" if goes_on else "pause"


def _note_end(unit: UnitOfWork) -> None:
    """Report the result of the probe; anything but a success is a failure."""
    probe = unit.plan.probe
    unit.plan.dirty.add("live")
    step = unit.snapshot.steps.get(probe.step_id)
    is_done = step is not None and step.status.state == StepState.DONE
    verifies = bool(is_done and step and step.facts["verify_tools"])
    _tell(unit, DONE if is_done else FAILED, verifies=verifies)
    probe.end()


def _tell(unit: UnitOfWork, what: str, *, verifies: bool) -> None:
    head, probe = unit.plan.head, unit.plan.probe
    if head.repo:
        news = ProbeNews(probe.token, what, verifies, unit.snapshot.plan_id, probe.step_id, probe.attempt)
        unit.change.probe = series_name(head.tenant, head.repo), news


FEATURE = Feature(
    "breakers",
    (
        STANDING.row(find_pause),
        LET_THROUGH.row(find_probe),
        LIFT.row(find_lifted),
        AFTER_FAILURE.row(count_failure),
        WHILE_STOPPED.row(choose),
        AT_CLOSE.row(close),
    ),
    is_idle=lambda plan: not (plan.keeps(Probe) and plan.probe.token),
)
