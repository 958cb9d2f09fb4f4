"""How risky an iteration is (seed 000, step 5), and what that means for a step.

Where the seed's first implementation read it differently, the document holds: a gap that ever failed is high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from schemas.base import RiskLevel
from schemas.gap import ActionType, EstimatedRisk, PlannedAction
from tasks.toolchain.files import Role, role_of

LOW, MEDIUM, HIGH = EstimatedRisk
DOMAIN = "domain"
LEVEL: Mapping[EstimatedRisk, RiskLevel] = MappingProxyType(dict(zip(EstimatedRisk, RiskLevel, strict=True)))


def of_plan(actions: Iterable[PlannedAction], allowed: Iterable[str], *, failed: bool) -> EstimatedRisk:
    """Estimate an iteration by its riskiest file; an action that names none may touch whatever is `allowed`."""
    found = [HIGH if failed else LOW]
    for action in actions:
        if not action.target_files:
            found += [MEDIUM, *(of_file(path, ActionType.MODIFY) for path in allowed)]
        found += [of_file(path, action.action_type) for path in action.target_files]
    return max(found, key=tuple(EstimatedRisk).index)


def of_file(path: str, action: ActionType) -> EstimatedRisk:
    """Estimate one file: the domain is high, existing sources are medium, new files and tests are low."""
    is_test = role_of(f"{path}x" if path.endswith("/") else path) is Role.TEST
    if _in_domain(path) and (not is_test or path.startswith(f"{DOMAIN}/")):
        return HIGH
    if action is ActionType.CREATE or (is_test and action is ActionType.MODIFY):
        return LOW
    return MEDIUM


def level_of(path: str, action: ActionType, *, failed: bool) -> RiskLevel:
    """Say the level of a step that touches `path`; documentation cannot break anything."""
    risk = HIGH if failed else of_file(path, action)
    return RiskLevel.LOW if risk is MEDIUM and role_of(path) is Role.DOCUMENT else LEVEL[risk]


def _in_domain(path: str) -> bool:
    return DOMAIN in path.casefold().split("/")[:-1]
