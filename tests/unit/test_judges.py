"""What is concluded from a verification by the tests of the base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas import outcome
from schemas.integrity import Integrity
from schemas.outcome import BaseJudgement, CannotVerify, ReportKind, VerifyReceipt
from worker.controller import wire
from worker.controller.changes import FileChange
from worker.controller.failing_tests import FailingTests
from worker.controller.judges import Judges, judge_by_base
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


def empty(report: ReportKind, tool: str = "pytest", code: int = 5) -> VerificationResult:
    """A run that ended with an exit code that does not pass, and of which no test is told."""
    figures = outcome.TestFigures() if report is ReportKind.WHOLE else None
    return red(receipts=(VerifyReceipt(tool=tool, exit_code=code, report=report, tests=figures),))


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

    said, found = judge_by_base({file.path.decode(): file for file in files}, there, tools, own, verify)
    assert (said is BaseJudgement.DIVERGES) == (found is not None)
    return found, ran


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


def test_tests_of_the_base_that_cannot_be_built_diverge() -> None:
    """Go has a whole report without a test then, and cargo none; names of Rust's tests are those of any file."""
    in_rust = {"src/lib.rs", "tests/api.rs"}

    assert judged(*[empty(ReportKind.WHOLE, "go-test", 1)] * 2, there={"a.go", "a_test.go"})[0]
    assert judged(*[empty(ReportKind.NONE, "cargo-test", 101)] * 2, there=in_rust)[0]
    assert judged(empty(ReportKind.NONE, "cargo-test", 101), there={"src/lib.rs"})[0] is None


def test_whether_the_tests_of_the_base_ran_is_told() -> None:
    """A base without tests says the same of every change."""

    def said(result: VerificationResult, files: Sequence[FileChange] = (CHANGED,), **more: Any) -> BaseJudgement:
        there, tools = more.get("there", THERE), more.get("tools", (SUITE,))
        return judge_by_base({each.path.decode(): each for each in files}, there, tools, PASSED, lambda *_: result)[0]

    aimed = SUITE.model_copy(update={"argv": ("pytest", "tests/new")})
    assert said(PASSED) == said(LOST, files=()) == said(empty(ReportKind.NONE), there={"src/a.py"}) == "same"
    assert said(LOST) == said(empty(ReportKind.WHOLE)) == said(PASSED, (NEW,), tools=(aimed,)) == "not_run"
    assert said(red("t")) == "diverges"


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


class Clone:
    """A clone whose setup makes it anew, as one does of which nothing is kept any more."""

    def __init__(self, trouble: OSError | None = None) -> None:
        self.files: dict[bytes, Any] = {}
        self.trouble = trouble

    def make_anew(self) -> None:
        self.files = {}

    def lay_out(self, files: Any) -> None:
        if self.trouble:
            raise self.trouble
        self.files |= files


def judges_in(clone: Clone, verify: Callable[[Any], VerificationResult]) -> Judges:
    spec: Any = SimpleNamespace(judged_by=None)
    return Judges(spec, cast("Any", clone), None, clone.make_anew, verify)


def test_the_files_that_judge_are_there_whatever_the_setup_does() -> None:
    clone, seen = Clone(), []

    def verify(_: Any) -> VerificationResult:
        seen.append(clone.files)
        return PASSED

    judges_in(clone, verify).verify_with({b"tests/test_a.py": None}, ())

    assert seen == [{b"tests/test_a.py": None}]


def test_files_that_cannot_be_laid_out_hand_the_step_back_without_their_names() -> None:
    full = Clone(OSError(28, "No space left on device", "tests/test_unseen.py"))

    with pytest.raises(NotVerifiable, match=r"cannot be laid out: No space left on device$"):
        judges_in(full, lambda _: PASSED).verify_with({b"tests/test_unseen.py": None}, ())
