"""The limit of an attempt's tool calls, which is kept with its lease: beyond it the heartbeat answers `cancel`."""

from __future__ import annotations

from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import SPEC_FIELDS, Feature, always


def keep_limit(unit: UnitOfWork, step: Step) -> None:
    """Store a starting step's limit of tool calls for its lease, because its spec has no field for this limit."""
    unit.change.call_limits[step.step_id] = step.facts["tool_calls"]


FEATURE = Feature(
    "tool_calls",
    (SPEC_FIELDS.row(keep_limit, fact="tool_calls"),),
    is_idle=always,
    start_fields=("tool_calls",),
)
