"""The kinds of findings in a change, each with the family that a policy decides about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from schemas.integrity import IntegrityFamily as Family

OWN = "own_"  # prefix of the kind of a suppression in code that the change itself wrote


_KINDS: Mapping[Family, tuple[str, ...]] = {
    Family.WEAKENS_TESTS: (
        *("test_removed", "test_skipped", "test_emptied", "cases_removed", "assertion_removed", "assertion_weakened"),
        *("snapshot_rewritten", "tests_deselected", "outcome_overridden", "tests_detected", "always_equal"),
        "code_replaced",
    ),
    Family.ALTERS_TESTS: (
        *("test_renamed", "test_replaced", "failing_test_changed", "skipped_on_windows", "support_changed"),
    ),
    Family.SUPPRESSES: (
        *("noqa", "type_ignore", "pylint_disable", "no_cover", "nosec", "eslint_disable", "ts_ignore"),
        *("ts_expect_error", "nolint", "allow", "lint_disable", "as_any", "used_for_nothing"),
    ),
    Family.LOOSENS: ("threshold_loosened", "ignored_more", "strictness_loosened", "check_disabled"),
    Family.EVADES: ("process_ended", "exit_hooked", "modules_read", "tests_named"),
    Family.SPECIAL_CASES: ("special_case",),
    Family.TESTS_DIVERGE: ("tests_diverge",),
    Family.UNNOTICED: ("mutant_survives",),
}
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {kind: family for family, kinds in _KINDS.items() for kind in kinds}
    | {OWN + kind: Family.SUPPRESSES_OWN for kind in _KINDS[Family.SUPPRESSES]}
)
TELLS: Mapping[str, str] = MappingProxyType(  # a sentence for each kind, in words of the planner that a prompt may have
    {
        "test_removed": "a test was removed",
        "test_renamed": "a test was renamed",
        "failing_test_changed": "the failing test itself was changed",
        "test_replaced": "a test was replaced by another one",
        "skipped_on_windows": "a test is skipped on Windows now",
        "support_changed": "code that tests share was changed",
        "test_skipped": "a test is skipped now, or expected to fail",
        "test_emptied": "a test checks nothing any more",
        "cases_removed": "a test runs fewer cases",
        "assertion_removed": "a test has fewer assertions",
        "assertion_weakened": "an assertion was weakened",
        "snapshot_rewritten": "a snapshot was rewritten",
        "tests_deselected": "tests are not run any more",
        "outcome_overridden": "the outcome of tests is overridden",
        "tests_detected": "the code finds out whether tests run it",
        "always_equal": "an object is equal to everything",
        "process_ended": "the code ends its process",
        "exit_hooked": "the code runs something at the end of its process",
        "modules_read": "the code reads sys.modules",
        "tests_named": "the code names a test runner or files of tests",
        "code_replaced": "tests replace the code that the failing test is about",
        "threshold_loosened": "a threshold was loosened",
        "ignored_more": "more is ignored",
        "strictness_loosened": "a check is less strict",
        "check_disabled": "a check is disabled",
        "special_case": "a condition compares with an input of the failing test",
        "mutant_survives": "these tests would not notice a mistake there",
        "tests_diverge": "the tests pass in the version of the change alone",
        **{kind: f"a finding is suppressed ({kind})" for kind in _KINDS[Family.SUPPRESSES]},
        **{OWN + kind: f"new code suppresses a finding ({kind})" for kind in _KINDS[Family.SUPPRESSES]},
    }
)


class Finding(NamedTuple):
    """A place in a change that weakens a test or check: `what` briefly quotes the code, `name` is the test's name."""

    kind: str
    path: str
    line: int
    what: str
    name: str = ""


class TextChange(NamedTuple):
    """The texts of a file before and after a change; None if the file does not exist then."""

    path: str
    before: str | None
    after: str | None


class Test(NamedTuple):
    """A test as it was read. Assertions that cannot fail are not counted; `strong` counts comparisons of two values."""

    name: str
    line: int
    assertions: int = 0
    strong: int = 0
    skipped: str = ""  # the words that skip it
    cases: int = 1
    body: str = ""  # its text, which identifies it under another name
    compared: int = 0  # assertions; each element of a compared list counts
    exact: int = 0  # assertions that one value alone passes
    marks: str = ""  # its decorators
    exact_parts: int = 0  # like `exact`; each element of a compared list counts
