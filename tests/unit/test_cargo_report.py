"""The JUnit report that `tests.real` makes of what cargo prints."""

from __future__ import annotations

from pathlib import Path

from tests.real.cargo_report import report

OUTPUTS = Path(__file__).parents[1] / "fixtures/outputs"


def test_each_test_of_a_binary_is_a_case_and_what_failed_says_why() -> None:
    root = report((OUTPUTS / "cargo-test-regression.txt").read_text()).getroot()
    assert root is not None
    cases = {case.get("name"): case.find("failure") for case in root.iter("testcase")}

    assert [suite.get("name") for suite in root.iter("testsuite")] == ["shop"]
    assert cases.keys() == {"tests::error_e0308_is_a_name", "tests::login_answers", "tests::unwraps"}
    assert cases["tests::error_e0308_is_a_name"] is None
    failure = cases["tests::login_answers"]
    assert failure is not None
    assert "right: 201" in str(failure.text)
    assert "unwrap" not in str(failure.text)


def test_what_cannot_be_compiled_is_the_one_failure() -> None:
    root = report((OUTPUTS / "cargo-test-types.txt").read_text()).getroot()
    assert root is not None
    (case,) = root.iter("testcase")

    assert (case.get("classname"), case.get("name")) == ("cargo", "build")
    assert "mismatched types" in str(case.findtext("error"))
