"""The rules that decide about plans, as data: limits, retries, waits and revisions, in one frozen object.

The planner's own rules are `BUILT_IN`. A policy of operators adds defaults for goals that set no value. It can only
lower the limits that a goal may set and those of the built-in rules. It does not select changed rules: those follow
from the plan's policy version (`policy_version.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from schemas.base import Duplicates, GoalKind, Overlap, RiskLevel
from schemas.base import FailureCategory as C
from schemas.goal import USUAL_LIMITS
from schemas.integrity import IntegrityAction as A
from schemas.integrity import IntegrityFamily as F

HANDED_BACK = "handed back"  # a key next to the categories of failures, but not a failure
HANDED_BACK_MS = 2000  # minimum

Row = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GoalRules:
    """Rules for the goals of one kind, tenant or repository, or for all goals.

    `defaults`, `overlap` and `duplicates` apply to a goal that does not set these values. `most` bounds the limits that
    a goal sets. A person approves each step with a risk in `approvals`, even if the goal does not ask for it.
    """

    kind: str | None = None
    tenant: str | None = None
    repository: str | None = None
    defaults: Mapping[str, int | None] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    approvals: tuple[RiskLevel, ...] = ()
    overlap: Overlap | None = None
    duplicates: Duplicates | None = None
    integrity: Mapping[str, Mapping[F, A]] = field(default_factory=dict)  # by the type of a goal, then the family

    def cover(self, kind: str, tenant: str, repository: str | None) -> bool:
        """Return whether these rules apply to a goal of this kind, tenant and repository."""
        return (
            self.kind in (None, kind)
            and self.tenant in (None, tenant)
            and (self.repository is None or self.repository == repository)
        )


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """Rules for attempts at steps of one risk.

    Without `tokens` an attempt may reserve the estimate of its step. Controllers test each change with at least
    `mutants` mutants.
    """

    retries: int
    max_diff_lines: int
    tokens: int | None = None
    mutants: int = 0


GOALS = (
    GoalRules(defaults=USUAL_LIMITS),
    # Kinds that need more than a `task`.
    GoalRules(
        kind=GoalKind.REVIEWED_PLAN,
        defaults=MappingProxyType(
            {
                "max_steps": 300,
                "patch_cycles": 200,
                "tokens": 8_000_000,
                "wall_clock_s": 86_400,
            }
        ),
    ),
    GoalRules(
        kind=GoalKind.CAMPAIGN,
        defaults=MappingProxyType(
            {
                "max_steps": 60,
                "patch_cycles": 60,
                "tokens": 2_000_000,
                "wall_clock_s": 14_400,
            }
        ),
    ),
    GoalRules(kind=GoalKind.EVOLUTION, defaults=MappingProxyType({"wall_clock_s": 7200})),
)

ATTEMPTS: Mapping[RiskLevel, AttemptRules] = MappingProxyType(
    {
        RiskLevel.LOW: AttemptRules(retries=3, max_diff_lines=200),
        RiskLevel.MED: AttemptRules(retries=2, max_diff_lines=100),
        RiskLevel.HIGH: AttemptRules(retries=1, max_diff_lines=50),
    }
)

RETRIES: Mapping[str, int] = MappingProxyType({C.UNKNOWN: 1})  # the cause of such a failure is not known

# Waiting does not correct a wrong change, but surroundings may recover. In ms, doubled with every failure.
BACKOFF_MS: Mapping[str, int] = MappingProxyType(
    {
        C.LEASE_EXPIRED.value: 2000,
        C.TEST_TIMEOUT.value: 1000,
        C.FLAKY_TEST.value: 1000,
        HANDED_BACK: HANDED_BACK_MS,
    }
)

# Changes before the second, the third and any later attempt, by their names in tasks/policy/revision.py.
REVISIONS: Mapping[str, Row] = MappingProxyType(
    {
        C.TEST_REGRESSION: (("add_context",), ("narrow_verification", "narrow_files", "narrow_focus"), ("isolate",)),
        C.TEST_TIMEOUT: (("narrow_verification", "double_time"), ("add_context",), ()),
        C.FLAKY_TEST: (("narrow_verification",), ("add_context",), ()),
        C.COMPILATION_ERROR: (("syntax-check", "narrow_files"), ("add_context", "narrow_focus"), ("narrow_files",)),
        C.TYPE_ERROR: (("type-check",), ("add_context",), ("narrow_files",)),
        C.LINT_ERROR: (("auto-fix",), ("add_context",), ("narrow_files",)),
        C.IMPORT_ERROR: (("dependencies",), ("add_context",), ("narrow_files",)),
        C.NO_CHANGE: (("add_context",), ("add_context",), ("add_context",)),
        C.NO_PROOF: (("add_context",), (), ()),
        # And it is retried only once.
        C.UNKNOWN: (("add_context", "narrow_verification", "narrow_files", "narrow_focus"), (), ()),
    }
)

# The action for each finding about tests and checks, by the type of a `task` or the kind of another goal. A finding
# without a row here is reported.
_STRICT: Mapping[F, A] = MappingProxyType(
    {F.WEAKENS_TESTS: A.REFUSE, F.SUPPRESSES: A.REFUSE, F.TESTS_DIVERGE: A.REFUSE}
)
OF_OTHERS: Mapping[F, A] = MappingProxyType({F.ALTERS_TESTS: A.PASS, F.SUPPRESSES_OWN: A.PASS})
INTEGRITY: Mapping[str, Mapping[F, A]] = MappingProxyType(
    {
        "repair": _STRICT,
        "build": _STRICT,
        GoalKind.GAP_REPORT: MappingProxyType(
            {**_STRICT, F.SUPPRESSES_OWN: A.REFUSE, F.LOOSENS: A.REFUSE}  # a finding that is suppressed is not closed
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules of a plan that are data.

    `digest` is the digest of the policy's text, and empty for the built-in rules. A later row of `goals` takes
    precedence over an earlier one.
    """

    digest: str = ""
    goals: tuple[GoalRules, ...] = GOALS
    attempts: Mapping[RiskLevel, AttemptRules] = field(default_factory=lambda: ATTEMPTS)
    retries: Mapping[str, int] = field(default_factory=lambda: RETRIES)  # by the category of the failure
    backoff_ms: Mapping[str, int] = field(default_factory=lambda: BACKOFF_MS)
    revisions: Mapping[str, Row] = field(default_factory=lambda: REVISIONS)

    def __deepcopy__(self, _: object) -> Policy:
        return self  # nothing in it can change, and its tables cannot be copied

    def rules_of(self, kind: str, tenant: str, repository: str | None) -> Iterator[GoalRules]:
        """Yield the goal rules that apply to a goal, in their order; later ones take precedence."""
        return (each for each in self.goals if each.cover(kind, tenant, repository))

    def integrity(self, goal_type: str, kind: str, tenant: str, repository: str | None) -> Mapping[F, A]:
        """Return the action for each family of findings in the changes of such a goal; later rows of the policy win."""
        rows = dict(INTEGRITY.get(goal_type, OF_OTHERS))
        for each in self.rules_of(kind, tenant, repository):
            rows.update(each.integrity.get(goal_type, {}))
        return rows

    def most_retries(self, level: str, category: str) -> int:
        """Return the maximal number of retries of a step of this risk after a failure of this category."""
        most = self.attempts[RiskLevel(level)].retries
        return min(most, self.retries.get(category, most))


BUILT_IN = Policy()
