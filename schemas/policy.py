"""A policy of operators as it stands in its file (TOML): what goals get that say nothing, and what none may have.

Nothing in it widens anything: a default is for a goal that says nothing, everything else only takes away.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from schemas import goal as wire
from schemas.base import FailureCategory, GoalKind, Overlap, RiskLevel
from schemas.integrity import MOST_MUTANTS, IntegrityAction, IntegrityFamily

# What a goal is, in the rows about integrity: the type of a task, or the kind of another goal.
GoalType = Literal[
    "repair",
    "feature",
    "refactor",
    "build",
    "dependency",
    "observation",
    "generic",
    "gap_report",
    "campaign",
    "reviewed_plan",
    "evolution",
]
FORMAT = 1  # that this version reads
MOST_RETRIES = 3

Owner = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(wire.Limits):
    """Limits of plans; here an unknown name is a mistake, and a number in quotes too."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GoalTable(_Table):
    """What holds for some goals: limits of those that say nothing, limits that none exceeds, who is asked.

    `overlap` is for goals that say nothing of it, as the limits of `defaults` are.
    """

    defaults: Limits = Limits()
    most: Limits = Limits()
    approvals: tuple[RiskLevel, ...] = ()
    overlap: Overlap | None = None
    integrity: dict[GoalType, dict[IntegrityFamily, IntegrityAction]] = Field(default_factory=dict)


class RiskTable(_Table):
    """Rules for attempts at steps of one risk."""

    retries: Annotated[int, Field(strict=True, ge=0, le=MOST_RETRIES)] | None = None
    max_diff_lines: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    tokens: Annotated[int, Field(strict=True, ge=1000, le=10**9)] | None = None
    mutants: Annotated[int, Field(strict=True, ge=0, le=MOST_MUTANTS)] | None = None


class PolicyFile(GoalTable):
    """The whole file; its own limits and approvals are for every goal."""

    format: Literal[1] = 1
    kind: dict[GoalKind, GoalTable] = Field(default_factory=dict)
    tenant: dict[Owner, GoalTable] = Field(default_factory=dict)
    repository: dict[Owner, GoalTable] = Field(default_factory=dict)
    risk: dict[RiskLevel, RiskTable] = Field(default_factory=dict)
    retries: dict[FailureCategory, Annotated[int, Field(strict=True, ge=0, le=MOST_RETRIES)]] = Field(
        default_factory=dict
    )
