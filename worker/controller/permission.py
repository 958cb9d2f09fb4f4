"""What a step may change, asked of each file that it did change: the planner's words, and rules that no plan alters.

Named files may be changed whatever they are. What patterns mean may be changed unless it is excluded, forbidden or
configures a verification; that it is not there yet does not matter. How risky a file is, is asked of all of them.
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
BROKEN = "\ufffd"  # what is no UTF-8 in a name, which patterns mean nothing of


@dataclass(frozen=True)
class Permission:
    """What one step may change."""

    named: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()  # files of the tests that the step is to make pass
    max_risk: RiskLevel | None = None
    patches: bool = True
    is_strict: bool = False  # what may not be changed is a violation, and is never put back
    forbidden: Forbidden = FORBIDDEN  # names that no pattern means

    @classmethod
    def of(cls, spec: Spec, *, is_strict: bool = False) -> Permission:
        """Read it from a spec: a step that does not patch may change nothing."""
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
        """Keep what may not be changed at any level of risk."""
        return tuple(path for path in paths if not self.allows(path) and not self._is_beyond_its_level(path))

    def allows(self, path: str) -> bool:
        """Return whether a file may be changed, as far as its risk allows that."""
        return path in self.named or (self._may_mean(path) and not self._is_excluded(path))

    def too_risky(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Keep what is riskier than the step: never what it names, which its level was found by."""
        return tuple(path for path in paths if self._is_risky(path))

    def puts_back(self, path: str) -> bool:
        """Return whether a change of a plain file is undone and held against nobody, as far as it is not allowed.

        In a step that does not patch that is any file. In others it is neither forbidden nor configures a verification,
        nor does its risk alone keep it from being changed, and of what is excluded it is a test that is to pass again.
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
        """Whether its risk alone keeps a file from being changed, which is excluded for that, too."""
        return self._is_risky(path) and self._may_mean(path)

    def _is_risky(self, path: str) -> bool:
        return path not in self.named and is_riskier(path, self.max_risk)


def _is_harmless(path: str, forbidden: Forbidden) -> bool:
    """Whether a path is text, is not forbidden, and configures no verification."""
    return BROKEN not in path and fault(path, forbidden) is None and not configures_verification(path)


def is_riskier(path: str, level: RiskLevel | None) -> bool:
    """Return whether a file is riskier than `level` by its path; of no level nothing is."""
    return level is not None and is_below(level, assess((path,)).level)


def violation(permission: Permission, limits: ChangeLimits, changes: Changes) -> AttemptFailure | None:
    """Return which rule of the step `changes` break, beside how many files they may be of."""
    if changes.escaping:
        return path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, changes.escaping)
    if outside := permission.outside(changes.touched):
        return path_failure(FailureCategory.ALLOWLIST_VIOLATION, "changed but not allowed", outside)
    if changes.unfit:
        return advice(changes.unfit)
    if risky := permission.too_risky(changes.touched):
        told = f"changed, and riskier than {permission.max_risk}, which is what this step may change"
        return path_failure(FailureCategory.RISK_EXCEEDED, told, risky)
    most = limits.max_diff_lines
    if most is not None and changes.diff_lines > most and not too_many_files(limits, changes):
        return advice(f"the change has {changes.diff_lines} lines, allowed are {most}: make a smaller one")
    return None


def too_many_files(limits: ChangeLimits, changes: Changes) -> AttemptFailure | None:
    """Say that `changes` are of more files than the step may change, which breaks no rule of safety."""
    count, most = len(changes.touched), limits.max_files
    if most is None or count <= most:
        return None
    return path_failure(
        FailureCategory.TOO_MANY_FILES, f"changed are {count} files, allowed are {most}", changes.touched
    )
