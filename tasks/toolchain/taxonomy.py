"""The failure taxonomy as data: families, what halts at once, and the other words controllers use (seed 001)."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from schemas.base import FailureCategory as Category


class Family(StrEnum):
    """The branches of the taxonomy tree (seed 001, "Failure Taxonomy")."""

    TEST = "TEST"
    COMPILE = "COMPILE"
    SANDBOX = "SANDBOX"
    BUDGET = "BUDGET"


TREE = MappingProxyType(
    {
        Family.TEST: (Category.TEST_REGRESSION, Category.TEST_TIMEOUT, Category.FLAKY_TEST),
        Family.COMPILE: (
            Category.COMPILATION_ERROR,
            Category.TYPE_ERROR,
            Category.LINT_ERROR,
            Category.IMPORT_ERROR,
        ),
        Family.SANDBOX: (
            Category.SANDBOX_VIOLATION,
            Category.HYGIENE_VIOLATION,
            Category.ALLOWLIST_VIOLATION,
        ),
        Family.BUDGET: (Category.BUDGET_EXCEEDED,),
    }
)

# UNKNOWN and the planner's own stand outside the tree: no controller saw what went wrong.
FAMILY = MappingProxyType({category: family for family, members in TREE.items() for category in members})

HALTS_AT_ONCE = frozenset(TREE[Family.SANDBOX] + TREE[Family.BUDGET])

OWN = frozenset({Category.LEASE_EXPIRED, Category.OUTPUT_REFUSED})  # only the planner can know of these
FROM_OUTSIDE = frozenset(Category) - OWN

# Words of the seed's older vocabularies (spec/task.md 1.1) and of common tools that mean one of ours beyond doubt.
# RUNTIME_ERROR, PERMISSION_DENIED, RESOURCE_EXHAUSTED and the like do not: their text decides.
ALIASES = MappingProxyType(
    {
        "TIMEOUT": Category.TEST_TIMEOUT,
        "TIMED_OUT": Category.TEST_TIMEOUT,
        "TEST_FAILURE": Category.TEST_REGRESSION,
        "TEST_FAILED": Category.TEST_REGRESSION,
        "REGRESSION": Category.TEST_REGRESSION,
        "LOGIC_REGRESSION": Category.TEST_REGRESSION,
        "FLAKY": Category.FLAKY_TEST,
        "BUILD_ERROR": Category.COMPILATION_ERROR,
        "COMPILE_ERROR": Category.COMPILATION_ERROR,
        "SYNTAX_ERROR": Category.COMPILATION_ERROR,
        "TYPE_CHECK_ERROR": Category.TYPE_ERROR,
        "LINT": Category.LINT_ERROR,
        "DEPENDENCY_CONFLICT": Category.IMPORT_ERROR,
        "MISSING_DEPENDENCY": Category.IMPORT_ERROR,
        "MODULE_NOT_FOUND": Category.IMPORT_ERROR,
        "BUDGET_EXHAUSTED": Category.BUDGET_EXCEEDED,
    }
)


def category_named(word: str | None) -> Category | None:
    """Read a controller's own word, in any case and with spaces or hyphens; None where it means none of ours."""
    name = "_".join((word or "").upper().replace("-", " ").replace("_", " ").split())
    category = ALIASES.get(name) or Category.__members__.get(name)
    return category if category in FROM_OUTSIDE else None
