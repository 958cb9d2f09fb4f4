"""A policy of operators in its file (TOML): defaults for goals that set no value, and bounds for all goals.

It widens nothing: a default is for a goal without a value, and everything else only restricts.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from schemas import goal as wire
from schemas.base import Duplicates, FailureCategory, GoalKind, Overlap, RiskLevel
from schemas.integrity import MOST_MUTANTS, IntegrityAction, IntegrityFamily

# The type of a goal in the rows about integrity: the type of a task, or the kind of another goal.
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
FORMAT = 1  # the format of this version
MOST_RETRIES = 3

Owner = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(wire.Limits):
    """Limits of plans; here an unknown name is an error, and so is a number in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GoalTable(_Table):
    """Rules for some goals: defaults of limits, bounds of limits, and approvals.

    `overlap` and `duplicates` are defaults, too, like the limits of `defaults`.
    """

    defaults: Limits = Limits()
    most: Limits = Limits()
    approvals: tuple[RiskLevel, ...] = ()
    overlap: Overlap | None = None
    duplicates: Duplicates | None = None
    integrity: dict[GoalType, dict[IntegrityFamily, IntegrityAction]] = Field(default_factory=dict)


class RiskTable(_Table):
    """Rules for attempts at steps of one risk."""

    retries: Annotated[int, Field(strict=True, ge=0, le=MOST_RETRIES)] | None = None
    max_diff_lines: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    tokens: Annotated[int, Field(strict=True, ge=1000, le=10**9)] | None = None
    mutants: Annotated[int, Field(strict=True, ge=0, le=MOST_MUTANTS)] | None = None


class PolicyFile(GoalTable):
    """The whole file; its own limits and approvals apply to every goal."""

    format: Literal[1] = 1
    kind: dict[GoalKind, GoalTable] = Field(default_factory=dict)
    tenant: dict[Owner, GoalTable] = Field(default_factory=dict)
    repository: dict[Owner, GoalTable] = Field(default_factory=dict)
    risk: dict[RiskLevel, RiskTable] = Field(default_factory=dict)
    retries: dict[FailureCategory, Annotated[int, Field(strict=True, ge=0, le=MOST_RETRIES)]] = Field(
        default_factory=dict
    )
