"""Decides which files a step may change, by the files that it names and by its patterns: before it runs, and after.

A pattern also matches files that do not exist yet. It never matches a file that configures a verification or instructs
agents, nor a forbidden one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.base import RiskLevel
from schemas.step import PlannedStep
from tasks.rules.risk import RISK, assess, is_below
from tasks.text.forbidden_paths import FORBIDDEN, JUDGED, Forbidden, forbid
from tasks.text.paths import clean, fault, is_glob
from tasks.text.patterns import Expanded, expand_globs, matches
from tasks.toolchain.files import Role, is_allowed_by_name_alone, role_of

PATTERNS = "patterns"  # a capability of controllers: steps whose files only patterns name
SYNTAX = "syntax"  # the check after a change that needs no configuration in a project


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The files that a goal, or a step, may change: files by name, and files by pattern."""

    files: frozenset[str]
    patterns: Sequence[str] = ()
    forbidden: Forbidden = field(default=JUDGED, repr=False)

    @classmethod
    def of(cls, allowed: Iterable[str], forbidden: Forbidden) -> Allowlist:
        """Parse the allowlist of a goal."""
        cleaned = tuple(map(clean, allowed))
        files = frozenset(path for path in cleaned if not is_glob(path))
        return cls(files, tuple(dict.fromkeys(path for path in cleaned if is_glob(path))), forbidden)

    def __contains__(self, path: object) -> bool:
        """Return whether `path` may be changed."""
        return path in self.files or (
            isinstance(path, str)
            and any(matches(pattern, path) for pattern in self.patterns)
            and is_meant_by_patterns(path, self.forbidden)
        )


def expand_allowed(allowed: Sequence[str], listing: Sequence[str], forbidden: Forbidden) -> Expanded:
    """Return the files of `listing` that the allowlist of a goal matches, named files first."""
    found = expand_globs(allowed, listing, forbidden)
    named = frozenset(map(clean, allowed))
    return Expanded(
        tuple(path for path in found.files if path in named or not is_allowed_by_name_alone(path)), found.errors
    )


def is_meant_by_patterns(path: str, forbidden: Forbidden = JUDGED) -> bool:
    """Return whether a pattern that matches `path` also permits it."""
    return not is_allowed_by_name_alone(path) and fault(path, forbidden) is None


def is_permitted(facts: Mapping[str, Any], path: str) -> bool:
    """Return whether a step may change `path`, now or with a higher risk level.

    Test files that it excludes by name also count as permitted: a controller restores them, or the change counts as
    unverified.
    """
    if path in facts["allowed_files"]:
        return True
    patterns, excluded = facts.get("allowed_patterns", ()), facts.get("excluded_patterns", ())
    if not any(matches(pattern, path) for pattern in patterns):
        return False
    if not is_meant_by_patterns(path, forbidden_by(facts)):
        return False
    if path in excluded:
        return role_of(path) is Role.TEST or exceeds(facts, path)
    folded = path.casefold()
    return not any(matches(each.casefold(), folded) for each in excluded)


def forbidden_by(facts: Mapping[str, Any]) -> Forbidden:
    """Return the forbidden paths of a step's plan; the step's excluded patterns may not hold all of them."""
    return forbid(tuple(names)) if (names := facts.get("forbidden")) else FORBIDDEN


def names_to_keep(forbidden: Forbidden, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the forbidden names that a plan stores: if its goal has globs, and the list is not the default."""
    return forbidden.names if forbidden.pattern != FORBIDDEN.pattern and any(map(is_glob, allowed)) else ()


def under(forbidden: Sequence[str], steps: Iterable[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Store the forbidden names of their plan in the steps that have patterns."""
    names = tuple(forbidden)
    return tuple(
        step.model_copy(update={"forbidden": names}) if names and step.allowed_patterns else step for step in steps
    )


def exceeds(facts: Mapping[str, Any], path: str) -> bool:
    """Return whether a file that a step does not name is riskier than the step."""
    return path not in facts["allowed_files"] and is_below(RiskLevel(facts["risk_level"]), assess((path,)).level)


def limits_of_files(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of changed files for a step that may change more files than its risk allows at once."""
    level = RiskLevel(facts["risk_level"])
    most = RISK[level].max_files
    if facts.get("allowed_patterns") or len(facts["allowed_files"]) > most:
        return {"max_files": most, "max_risk": level}
    return {}
