"""The identity and surroundings of a new plan: everything at its creation except goal and draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.base import UnknownFields
from schemas.stored import LogHead
from tasks.base.policy import BUILT_IN, Policy
from tasks.base.policy_version import POLICY_VERSION
from tasks.plan.file_claims import FileClaims
from tasks.plan.snapshot import Grant, StandingCommand

NOTHING_UNKNOWN = UnknownFields()


@dataclass(frozen=True, slots=True)
class PlanSeed:
    """The identity and surroundings of a new plan.

    The caller supplies ids, time and the seed of the plan's leases, so that decisions stay pure.
    """

    plan_id: str
    goal_id: str
    now: int
    seed: str
    reply_to: str
    lease_prefix: str
    version: int = 0  # the version stored under this id: 0, or that of an interrupted creation
    down: int = 0  # as in Clocks
    standing: StandingCommand | None = None
    paused_queues: Mapping[str, StandingCommand] = field(default_factory=dict)
    grants: Mapping[str, Grant] = field(default_factory=dict)
    full: frozenset[str] = frozenset()  # queues without capacity
    created: int = 0  # when the plan was first written, in ms; 0 for now
    policy_version: int = field(default_factory=lambda: POLICY_VERSION)  # of the plan's rules
    unknown: UnknownFields = NOTHING_UNKNOWN  # of the goal as it arrived
    traceparent: str | None = None  # of the trace that the plan belongs to
    policy: Policy = BUILT_IN  # of its creation and all later decisions
    log_head: LogHead | None = None  # of a creation that was interrupted, or waited for a drafter
    code: str = ""  # as in Snapshot
    switches: Mapping[str, int] = field(default_factory=dict)  # limits that features take from the operator's settings
    recalled: Mapping[str, Any] = field(default_factory=dict)  # by RECALLS: data from earlier plans of its repository
    claims: FileClaims | None = None  # on files of its first steps that were read; others are free
    same: tuple[str, ...] = ()  # as in Snapshot
    learned: Mapping[str, int] = field(default_factory=dict)  # tokens of an attempt by mode and queue
