"""What is concluded from a verification with held-out tests put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from schemas.outcome import CannotVerify
from worker.controller import wire
from worker.controller.failing_tests import FailingTests
from worker.controller.judge_by_holdout import Layout, judge_by_holdout, reach
from worker.controller.programs import VerificationResult
from worker.controller.readiness import NotVerifiable
from worker.controller.wire import Tool

PASSED = VerificationResult()
SUITE = Tool(tool="pytest", argv=("pytest", "-q"), timeout_s=9)
LOST = VerificationResult(
    failure=wire.advice("gone"), cannot_verify=CannotVerify(tool="pytest", cwd=None, reason="gone")
)
GO = "package shop\n\nfunc TestAdds(t *testing.T) {\n\tt.Fatal()\n}\n\nfunc TestMore(t *testing.T) {\n\tt.Fatal()\n}\n"


def red(*names: str, complete: bool = True) -> VerificationResult:
    return VerificationResult(failure=wire.advice("red"), failing=FailingTests(names, complete=complete))


def held(
    *results: VerificationResult,
    files: Sequence[str] | Mapping[str, str] = ("tests/test_unseen.py",),
    own: VerificationResult = PASSED,
    beside: Mapping[bytes, Any] | None = None,
    base: VerificationResult = PASSED,
) -> str | None:
    """Judge with runs that come to these results, all of which are needed; return the category of the failure."""
    runs = iter(results)
    texts = files if isinstance(files, Mapping) else dict.fromkeys(files, "")
    kept = {path.encode(): (b"100644", text.encode()) for path, text in texts.items()}
    layouts = [Layout({**beside, **kept}, (SUITE,))] if beside else []
    layouts.append(Layout(kept, (SUITE,)))
    failure = judge_by_holdout(f"sha256:{0:064x}", kept, layouts, own, lambda *_: next(runs), lambda: base.left_out)
    assert next(runs, None) is None
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


def test_held_out_tests_that_are_skipped_or_deselected_are_no_pass() -> None:
    """The change may have them skipped that it breaks; those that their own file skips are no matter."""
    one, other = "tests/test_unseen.py::test_one", "tests/test_unseen.py::test_other"
    text = "import pytest\n\ndef test_one():\n    assert 1\n\n{}def test_other():\n    assert 1\n"
    found = VerificationResult(ran=frozenset({one}), left_out=frozenset({other}))
    mark = "@pytest.mark.skip\n"

    assert held(found, files={"tests/test_unseen.py": text.format("")}) == "NO_PROOF"
    assert held(found, files={"tests/test_unseen.py": text.format(mark)}) is None
    assert held(VerificationResult(ran=frozenset({one}), left_out=frozenset({"tests/test_a.py::test_b"}))) is None


def test_a_case_that_is_skipped_at_the_base_as_well_is_no_matter() -> None:
    """Only some parameters bear the mark, which the text of a test does not say of all its cases."""
    one, other = "tests/test_unseen.py::test_it[1]", "tests/test_unseen.py::test_it[2]"
    text = "import pytest\n\n@pytest.mark.parametrize('n', CASES)\ndef test_it(n):\n    assert n\n"
    found = VerificationResult(ran=frozenset({one}), left_out=frozenset({other}))
    both = VerificationResult(left_out=frozenset({one, other}))

    assert held(found, files={"tests/test_unseen.py": text}, base=found) is None
    assert held(found, files={"tests/test_unseen.py": text}) == "NO_PROOF"
    assert held(both, files={"tests/test_unseen.py": text}, base=found) == "NO_PROOF"


@pytest.mark.parametrize(
    ("argv", "held_out", "more"),
    [
        ("pytest -q tests/test_a.py", "tests/test_unseen.py", "pytest -q -- tests/test_unseen.py"),
        ("pytest -q tests/test_a.py::test_it", "tests/test_a.py", "pytest -q -- tests/test_a.py"),
        ("go test ./shop", "cart/unseen_test.go", "go test ./cart/..."),
        ("pytest -q", "tests/test_unseen.py", None),
        ("pytest -q ./tests/", "tests/test_unseen.py", None),
        ("go test ./...", "cart/unseen_test.go", None),
        ("ruff check src", "tests/test_unseen.py", None),
    ],
)
def test_a_verification_that_is_aimed_elsewhere_is_run_once_more_for_held_out_tests(
    argv: str, held_out: str, more: str | None
) -> None:
    tool = Tool(tool="any", argv=tuple(argv.split()), timeout_s=9)

    found = [" ".join(each.argv) for each in reach([tool], {held_out.encode(): (b"100644", b"")})]

    assert found == [argv, *([more] if more else [])]


def test_tests_without_a_file_are_known_by_their_names_in_the_held_out_text() -> None:
    """The repository may have tests of the same names, which held-out ones replace."""
    file, both = {"shop/a_test.go": GO}, ran("example.com/shop.TestAdds", "example.com/shop.TestMore/one")
    elsewhere = ran("example.com/other.TestAdds", "example.com/shop.TestMore")
    rust = {"tests/api.rs": "#[test]\nfn adds() {\n    assert_eq!(1, 2);\n}\n"}

    assert held(both, files=file, own=both) is None
    assert held(elsewhere, files=file) == "NO_PROOF"
    assert held(ran("adds"), files=rust, own=ran("adds")) is None
    assert held(ran("other"), files=rust) == "NO_PROOF"


def test_held_out_tests_are_judged_beside_the_tests_of_the_base_where_these_can_run() -> None:
    """An agent may write helpers that lie; what else of the base fails is no matter of held-out tests."""
    beside = {b"tests/helper.py": (b"100644", b"")}
    unseen, old = "tests/test_unseen.py::test_it", "tests/test_old.py::test_it"
    others = VerificationResult(
        failure=wire.advice("red"), failing=FailingTests((old,), complete=True), ran=frozenset({unseen, old})
    )

    assert held(red(unseen), red(unseen), beside=beside) == "TEST_REGRESSION"
    assert held(others, others, beside=beside) is None
    assert held(*[red(complete=False)] * 2, UNSEEN, beside=beside) is None
    assert held(*[red(complete=False)] * 4, beside=beside) == "TEST_REGRESSION"
