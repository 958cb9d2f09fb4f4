"""Decides which files a step may change, before and after it runs: by the files that it names and by its patterns.

A pattern also matches files that do not exist yet. It never permits a file that configures a verification, a file that
instructs agents, or a forbidden file.
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
        """Return whether the allowlist permits a change of `path`."""
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
    """Return whether patterns may permit `path`: it is not forbidden, and a goal need not name it literally."""
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
    """Return the forbidden paths that a step's plan stored, or else the worker's own."""
    return forbid(tuple(names)) if (names := facts.get("forbidden")) else FORBIDDEN


def names_to_keep(forbidden: Forbidden, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the forbidden names that a plan must store; empty without globs, or if the list is the default one."""
    return forbidden.names if forbidden.pattern != FORBIDDEN.pattern and any(map(is_glob, allowed)) else ()


def under(forbidden: Sequence[str], steps: Iterable[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Return the steps, with the plan's forbidden names stored in each step that has patterns."""
    names = tuple(forbidden)
    return tuple(
        step.model_copy(update={"forbidden": names}) if names and step.allowed_patterns else step for step in steps
    )


def exceeds(facts: Mapping[str, Any], path: str) -> bool:
    """Return whether a file is riskier than the step's level, and the step does not name it."""
    return path not in facts["allowed_files"] and is_below(RiskLevel(facts["risk_level"]), assess((path,)).level)


def limits_of_files(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits for changed files in an attempt, if the step permits more files than one attempt may change.

    Empty for all other steps. The limits are a number of files and the highest risk of a file that is not named.
    """
    level = RiskLevel(facts["risk_level"])
    most = RISK[level].max_files
    if facts.get("allowed_patterns") or len(facts["allowed_files"]) > most:
        return {"max_files": most, "max_risk": level}
    return {}
