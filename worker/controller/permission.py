"""Checks each changed file against the permission of its step: the planner's rules, and rules that no plan can change.

A file that is named may always be changed. A file that matches a pattern may be changed unless it is excluded,
forbidden or configures a verification; it need not exist yet. The risk is checked for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from schemas.base import FailureCategory, Mode, RiskLevel
from tasks.rules.risk import assess, is_below
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.text.paths import fault
from tasks.text.patterns import matcher
from tasks.toolchain.files import Role, configures_verification, instructs_agents, role_of
from worker.controller.changes import Changes
from worker.controller.wire import AttemptFailure, ChangeLimits, Spec, advice, path_failure

LINKS = "links lead out of the clone"
BROKEN = "\ufffd"  # replaces invalid UTF-8 in a name; such a name matches no pattern


@dataclass(frozen=True)
class Permission:
    """The files that one step may change."""

    named: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()  # files of the tests that the step should make pass
    max_risk: RiskLevel | None = None
    patches: bool = True
    is_strict: bool = False  # a forbidden change is a violation, and is never undone
    forbidden: Forbidden = FORBIDDEN  # names that no pattern matches

    @classmethod
    def of(cls, spec: Spec, *, is_strict: bool = False) -> Permission:
        """Return the permission of a spec: a step that does not patch may change nothing."""
        if spec.mode is not Mode.PATCH:
            return cls(patches=False, is_strict=is_strict)
        tests = frozenset(name.partition("::")[0] for name in spec.context.failing_tests)
        return cls(
            frozenset(spec.allowed_files),
            spec.allowed_patterns,
            spec.excluded_patterns,
            tests,
            spec.limits.max_risk,
            is_strict=is_strict,
        )

    @cached_property
    def _is_meant(self) -> Callable[[str], bool]:
        return matcher(self.patterns)

    @cached_property
    def _is_excluded(self) -> Callable[[str], bool]:
        return matcher(self.excluded)

    def outside(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that may not be changed at any level of risk."""
        return tuple(path for path in paths if not self.allows(path) and not self._is_beyond_its_level(path))

    def allows(self, path: str) -> bool:
        """Return whether the step may change a file, apart from the file's risk."""
        return path in self.named or (self._may_mean(path) and not self._is_excluded(path))

    def too_risky(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths whose risk is above the step's risk level.

        Files that the step names are never among them, because they define that level.
        """
        return tuple(path for path in paths if self._is_risky(path))

    def puts_back(self, path: str) -> bool:
        """Return whether a forbidden change of a plain file is undone, and not a failure.

        If the step does not patch, all changes are undone. Otherwise the file must not be forbidden and must not
        configure a verification. A file that only its risk forbids is not undone. Of excluded files, only a test that
        should pass again is undone.
        """
        if self._is_failing_test(path):
            return True
        if self.is_strict or self.allows(path):
            return False
        if not self.patches:
            return True
        return (
            _is_harmless(path, self.forbidden) and not self._is_excluded(path) and not self._is_beyond_its_level(path)
        )

    def _is_failing_test(self, path: str) -> bool:
        is_test = path in self.failing or role_of(path) is Role.TEST
        return path not in self.named and is_test and self._may_mean(path) and self._is_excluded(path)

    def _may_mean(self, path: str) -> bool:
        return self._is_meant(path) and _is_harmless(path, self.forbidden) and not instructs_agents(path)

    def _is_beyond_its_level(self, path: str) -> bool:
        """Return whether the step could change a file if its risk level were higher."""
        return self._is_risky(path) and self._may_mean(path)

    def _is_risky(self, path: str) -> bool:
        return path not in self.named and is_riskier(path, self.max_risk)


def _is_harmless(path: str, forbidden: Forbidden) -> bool:
    """Return whether a path is valid text, is not forbidden, and does not configure a verification."""
    return BROKEN not in path and fault(path, forbidden) is None and not configures_verification(path)


def is_riskier(path: str, level: RiskLevel | None) -> bool:
    """Return whether a file is riskier than `level` by its path; False without a level."""
    return level is not None and is_below(level, assess((path,)).level)


def violation(permission: Permission, limits: ChangeLimits, changes: Changes) -> AttemptFailure | None:
    """Return the failure for the first rule of the step that `changes` break; None if they break none.

    The limit on the number of files is not checked here.
    """
    if changes.escaping:
        return path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, changes.escaping)
    if outside := permission.outside(changes.touched):
        return path_failure(FailureCategory.ALLOWLIST_VIOLATION, "changed but not allowed", outside)
    if changes.unfit:
        return advice(changes.unfit)
    if risky := permission.too_risky(changes.touched):
        told = f"changed, and riskier than {permission.max_risk}, the most that this step may change"
        return path_failure(FailureCategory.RISK_EXCEEDED, told, risky)
    most = limits.max_diff_lines
    if most is not None and changes.diff_lines > most and not too_many_files(limits, changes):
        return advice(f"the change has {changes.diff_lines} lines, allowed are {most}: make a smaller one")
    return None


def too_many_files(limits: ChangeLimits, changes: Changes) -> AttemptFailure | None:
    """Return the failure if `changes` have more files than the step may change; this breaks no rule of safety."""
    count, most = len(changes.touched), limits.max_files
    if most is None or count <= most:
        return None
    return path_failure(
        FailureCategory.TOO_MANY_FILES, f"changed are {count} files, allowed are {most}", changes.touched
    )
