"""What a step may do at each risk level, and what an attempt of it is expected to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.base import Mode, RiskLevel
from schemas.step import StepEstimate


@dataclass(frozen=True, slots=True)
class RiskLimits:
    """One row of the risk table."""

    max_files: int
    max_diff_lines: int
    tests_required: bool
    two_phase: bool  # scaffold, then fill
    rollback_hint: bool
    retries: int


RISK: Mapping[RiskLevel, RiskLimits] = MappingProxyType(
    {
        RiskLevel.LOW: RiskLimits(10, 200, tests_required=False, two_phase=False, rollback_hint=False, retries=3),
        RiskLevel.MED: RiskLimits(5, 100, tests_required=True, two_phase=False, rollback_hint=True, retries=2),
        RiskLevel.HIGH: RiskLimits(2, 50, tests_required=True, two_phase=True, rollback_hint=True, retries=1),
    }
)

ROLLBACK = "Restore the files of this step from the commit that the attempt started from."

_ORDER = tuple(RISK)

_ESTIMATES: Mapping[Mode, StepEstimate] = MappingProxyType(
    {
        Mode.PATCH: StepEstimate(tokens=10_000, patch_cycles=1),
        Mode.READ_ONLY: StepEstimate(tokens=5_000, patch_cycles=0),
        Mode.TEST: StepEstimate(tokens=500, patch_cycles=0),
    }
)


def estimate(mode: Mode) -> StepEstimate:
    """Say what an attempt in this mode reserves where nobody estimated it."""
    return _ESTIMATES[mode]


def below(level: RiskLevel, other: RiskLevel) -> bool:
    """Tell whether `level` is a lower risk than `other`."""
    return _ORDER.index(level) < _ORDER.index(other)
