"""What is concluded from a verification by the tests of the base, and from one by held-out tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from schemas import outcome
from schemas.integrity import Integrity
from schemas.outcome import CannotVerify, ReportKind, VerifyReceipt
from worker.controller import wire
from worker.controller.changes import FileChange
from worker.controller.failing_tests import FailingTests
from worker.controller.judges import judge_by_base, judge_by_holdout
from worker.controller.programs import VerificationResult
from worker.controller.readiness import NotVerifiable
from worker.controller.wire import Tool

PASSED = VerificationResult()
SUITE = Tool(tool="pytest", argv=("pytest", "-q"), timeout_s=9)
CHANGED = FileChange(b"tests/expected.py", (b"100644", b"SUM = 4\n"), (b"100644", b"SUM = 0\n"))
NEW = FileChange(b"tests/new/test_new.py", None, (b"100644", b"def test_new():\n    pass\n"))
THERE = frozenset({"src/a.py", "tests/expected.py", "tests/test_a.py"})
LOST = VerificationResult(
    failure=wire.advice("gone"), cannot_verify=CannotVerify(tool="pytest", cwd=None, reason="gone")
)


def red(*names: str, **more: Any) -> VerificationResult:
    return VerificationResult(failure=wire.advice("red"), failing=FailingTests(names, complete=True), **more)


def empty(report: ReportKind, tool: str = "pytest") -> VerificationResult:
    """A run that ended with an exit code that does not pass, and of which no test is told."""
    figures = outcome.TestFigures() if report is ReportKind.WHOLE else None
    return red(receipts=(VerifyReceipt(tool=tool, exit_code=5, report=report, tests=figures),))


def judged(
    *results: VerificationResult,
    own: VerificationResult = PASSED,
    files: Sequence[FileChange] = (CHANGED,),
    tools: Sequence[Tool] = (SUITE,),
    there: Collection[str] = THERE,
) -> tuple[Integrity | None, list[Any]]:
    """Judge with runs that come to these results; return what diverges, and the commands of each run."""
    ran: list[Any] = []

    def verify(_: Any, tools: Sequence[Tool]) -> VerificationResult:
        ran.append([tool.argv for tool in tools])
        return results[len(ran) - 1]

    return judge_by_base({file.path.decode(): file for file in files}, there, tools, own, verify), ran


def test_what_fails_once_and_passes_again_does_not_diverge() -> None:
    found, ran = judged(red("tests/test_a.py::test_it"), PASSED)

    assert (found, len(ran)) == (None, 2)


def test_what_was_red_before_does_not_diverge_and_what_is_red_beside_is_named() -> None:
    old, new = "tests/test_a.py::test_old", "tests/test_a.py::test_new"

    same, _ = judged(red(old), own=red(old))
    more, _ = judged(red(old, new), red(old, new), own=red(old))

    assert same is None
    assert more
    assert [each.what for each in more.places] == [f"fails: {new}", "-SUM = 4 +SUM = 0"]


def test_a_verification_is_aimed_at_what_the_base_has_and_left_out_only_if_it_has_nothing_of_it() -> None:
    both = SUITE.model_copy(update={"argv": ("pytest", "tests/test_a.py", "tests/new/test_new.py::test_new")})
    folder = SUITE.model_copy(update={"argv": ("pytest", "tests/new")})
    below = Tool(tool="pytest", argv=("pytest", "new/test_new.py"), timeout_s=9, cwd="tests")

    assert judged(PASSED, files=(NEW,), tools=(both, folder, below)) == (None, [[("pytest", "tests/test_a.py")]])
    assert judged(files=(NEW,), tools=(folder, below)) == (None, [])
    assert judged(files=(NEW,), tools=(SUITE.model_copy(update={"cwd": "tests/new"}),)) == (None, [])
    assert judged(PASSED, files=(NEW,)) == (None, [[SUITE.argv]])


def test_a_base_without_tests_judges_nothing() -> None:
    """A runner that finds none ends with a failure, with a whole report or with none."""
    untested = {"src/a.py"}

    assert judged(empty(ReportKind.WHOLE), files=(NEW,), there=untested)[0] is None
    assert judged(empty(ReportKind.NONE), files=(NEW,), there=untested)[0] is None
    assert judged(empty(ReportKind.WHOLE), files=(NEW,))[0] is None
    assert judged(*[empty(ReportKind.NONE)] * 2)[0]
    assert judged(*[empty(ReportKind.NONE, "mypy")] * 2, there=untested)[0]


def test_a_tool_that_could_not_run_judges_nothing() -> None:
    assert judged(LOST)[0] is None


def test_files_that_are_hard_to_compare_are_shown_by_lines_that_one_has_more_often() -> None:
    alike = b"a\nb\n" * 50_000
    moved = FileChange(b"tests/data.json", (b"100644", alike), (b"100644", b"b\na\n" * 50_000))
    longer = FileChange(b"tests/more.json", (b"100644", alike), (b"100644", alike + b"c\n"))

    found, _ = judged(red("t"), red("t"), files=(moved, longer))

    assert found
    assert [(each.path, each.line, each.what) for each in found.places[1:]] == [
        ("tests/data.json", 0, "differs"),
        ("tests/more.json", 100_001, "+c"),
    ]


def held(
    *results: VerificationResult, files: Sequence[str] = ("tests/test_unseen.py",), own: VerificationResult = PASSED
) -> str | None:
    runs = iter(results)
    kept = {path.encode(): (b"100644", b"") for path in files}
    failure = judge_by_holdout(f"sha256:{0:064x}", kept, (SUITE,), own, lambda *_: next(runs))
    return failure.evidence.category if failure else None


def ran(*names: str) -> VerificationResult:
    return VerificationResult(ran=frozenset(names))


UNSEEN = ran("tests/test_unseen.py::test_it")


def test_held_out_tests_that_fail_are_run_once_more() -> None:
    assert held(red("x"), UNSEEN) is None
    assert held(red("x"), red("x")) == "TEST_REGRESSION"


def test_held_out_tests_that_did_not_run_are_no_pass() -> None:
    """A tool that is aimed elsewhere, or told to ignore them, ends with 0 as well."""
    assert held(UNSEEN) is None
    assert held(PASSED) == "NO_PROOF"
    assert held(ran("tests/test_a.py::test_it")) == "NO_PROOF"
    assert held(UNSEEN, files=("tests/test_unseen.py", "tests/test_other.py")) == "NO_PROOF"
    assert held(UNSEEN, files=("tests/test_unseen.py", "tests/conftest.py")) is None


def test_where_names_of_tests_have_no_file_another_one_has_to_run_for_each() -> None:
    old, new = "shop/TestAdds", "shop/TestUnseen"

    assert held(ran("tests.test_unseen.Sums.test_it")) is None
    assert held(ran(old, new), own=ran(old), files=("shop/unseen_test.go",)) is None
    assert held(ran(old), own=ran(old), files=("shop/unseen_test.go",)) == "NO_PROOF"
    assert held(ran(old, new), own=ran(old), files=("shop/a_test.go", "shop/b_test.go")) == "NO_PROOF"


def test_held_out_tests_that_could_not_run_hand_the_step_back() -> None:
    with pytest.raises(NotVerifiable, match="pytest could not run with held-out tests"):
        held(LOST)
