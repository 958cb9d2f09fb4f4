"""JUnit reports of real tools, and of people who mean harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from worker.sources import junit
from worker.sources.junit import UnreadableReport, read

TESTS = {
    "tests/test_auth.py": """
import pytest


@pytest.fixture
def broken():
    raise RuntimeError("no database")


def test_login():
    assert 500 == 201


class TestSession:
    class TestInner:
        @pytest.mark.parametrize("word", ["a b", "c.d/e"])
        def test_ends(self, word):
            raise ValueError(word)


def test_needs(broken):
    pass


def test_passes():
    pass


@pytest.mark.skip
def test_skipped():
    pass
""",
    "tests/unit/test_broken.py": "import no_such_module\n",
}
PANIC = "thread 'test_add' panicked at tests/cart.rs:3:15"
NODE_IDS = {
    "tests/test_auth.py::test_login",
    "tests/test_auth.py::TestSession::TestInner::test_ends[a b]",
    "tests/test_auth.py::TestSession::TestInner::test_ends[c.d/e]",
    "tests/test_auth.py::test_needs",
    "tests/unit/test_broken.py",
}


@pytest.fixture(scope="module", params=["xunit1", "xunit2"])
def pytest_report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A report of the real pytest, in both of its families."""
    here = tmp_path_factory.mktemp("project")
    for name, text in {"pytest.ini": "[pytest]\n", **TESTS}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    options = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--junitxml=report.xml"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--disable-plugin-autoload",
        *options,
        "-o",
        f"junit_family={request.param}",
    ]
    subprocess.run(command, cwd=here, env=environment, capture_output=True, timeout=120, check=False)
    return (here / "report.xml").read_bytes()


def suite(cases: str, name: str = "any", properties: str = "") -> bytes:
    return f'<testsuites><testsuite name="{name}">{properties}{cases}</testsuite></testsuites>'.encode()


def failed(owner: str, name: str, file: str = "", trace: str = "t") -> str:
    where = f' file="{file}"' if file else ""
    return f'<testcase classname="{owner}" name="{name}"{where}><failure message="m">{trace}</failure></testcase>'


def test_a_pytest_report_names_tests_as_pytest_does(pytest_report: bytes) -> None:
    report = read(pytest_report)
    assert set(report.names) == NODE_IDS
    assert report.language == "python"


def test_the_log_holds_what_pytest_printed_of_each_failure(pytest_report: bytes) -> None:
    log = read(pytest_report).log
    assert "assert 500 == 201" in log
    assert "RuntimeError: no database" in log
    assert "No module named 'no_such_module'" in log


@pytest.mark.parametrize(
    ("report", "name", "language"),
    [
        (suite(failed("example.com/shop/auth", "TestLogin")), "TestLogin", "go"),
        (suite(failed("shop", "TestLogin/empty_name", "auth_test.go")), "TestLogin", "go"),
        (
            suite(failed("auth", "TestLogin"), properties='<properties><property name="go.version"/></properties>'),
            "TestLogin",
            "go",
        ),
        (
            suite(failed("Auth logs in", "Auth logs in", "src/auth.test.js")),
            "src/auth.test.js::Auth logs in",
            "javascript",
        ),
        (suite(failed("src/auth.test.ts", "auth &gt; logs in")), "src/auth.test.ts::auth > logs in", "typescript"),
        (suite(failed("Auth logs in", "Auth logs in")), "Auth logs in", None),
        (suite(failed("Node.js", "sums"), name="Node.js"), "Node.js sums", None),  # a title, and no file
        (
            suite(failed("basket", "sums", "app/[id]/page.test.tsx")),
            "app/[id]/page.test.tsx::basket > sums",
            "typescript",
        ),
        (suite(failed("adds", "Cart adds", "a.js")), "a.js::Cart adds", "javascript"),  # mocha-junit-reporter
        (suite(failed("Cart adds", "adds", "a.js")), "a.js::Cart adds", "javascript"),  # its names are switched
        (suite(failed("Cart", "overadds", "a.js")), "a.js::Cart > overadds", "javascript"),
        (suite(failed("adds", "overadds", "a.js")), "a.js::adds > overadds", "javascript"),
        (suite(failed("test", "sums", "test/a.js")), "test/a.js::sums", "javascript"),  # as node names a test
        (suite(failed("test", "test/a.js", "test/a.js")), "test/a.js", "javascript"),  # it could not be loaded
        (suite(failed("src/a.test.ts", "src/a.test.ts")), "src/a.test.ts", "typescript"),
        (suite(failed("Test suite failed to run", "a", "src/a.test.js")), "src/a.test.js", "javascript"),
        (suite(failed("cart", "&quot;before each&quot; hook for &quot;adds&quot;", "a.js")), "a.js", "javascript"),
        (suite(failed("cart", "adds&#10; one", "a.js")), "a.js::cart > adds one", "javascript"),
        (suite(failed("cart", "adds " * 100, "a.js")), "a.js::cart > " + " ".join(["adds"] * 58), "javascript"),
        (suite(failed("shop::cart", "test_add", trace=PANIC), name="shop::cart"), "shop test_add", "rust"),
        (suite(failed("shop-core", "tests::adds", trace=PANIC), name="shop-core"), "shop-core tests::adds", "rust"),
        (suite(failed("Tests.test_basket", "test_sum")), "Tests/test_basket.py::test_sum", "python"),
        (suite(failed("com.acme.AuthTest", "logsIn")), "com.acme.AuthTest logsIn", None),
        (suite(failed("tests.test_auth.TestX", "test_y")), "tests/test_auth.py::TestX::test_y", "python"),
        (suite(failed("TestCart", "test_adds", "test/test_cart.rb")), "TestCart test_adds", None),  # Minitest
        (suite(failed("TestCart", "test_adds")), "TestCart test_adds", None),
        (suite(failed("cart", "test_0001_sums the items")), "cart test_0001_sums the items", None),
        (suite(failed("", ""), name=""), "unnamed test", None),
    ],
)
def test_tests_are_named_as_their_own_tool_names_them(report: bytes, name: str, language: str | None) -> None:
    assert read(report).names == (name,)
    assert read(report).language == language


def test_a_go_test_and_its_subtests_are_one_test() -> None:
    cases = failed("a/b", "TestX") + failed("a/b", "TestX/one") + failed("a/b", "TestY")
    assert read(suite(cases)).names == ("TestX", "TestY")


def test_a_test_that_passed_when_it_was_run_again_is_flaky_and_not_failed() -> None:
    cases = failed("a/b", "TestX") + '<testcase classname="a/b" name="TestX"/>' + failed("a/b", "TestY")
    report = read(suite(cases))
    assert (report.names, report.flaky) == (("TestY",), ("TestX",))


def test_a_single_suite_may_be_the_root_and_suites_may_be_nested() -> None:
    inner = f'<testsuite name="pytest">{failed("tests.test_a", "test_b")}</testsuite>'.encode()
    assert read(inner).names == read(b"<testsuite>" + inner + b"</testsuite>").names == ("tests/test_a.py::test_b",)


def test_a_report_without_failures_names_none() -> None:
    report = read(suite('<testcase classname="a" name="test_b"/>'))
    assert report.names == ()
    assert (report.language, report.log) == (None, "")


def test_names_traces_and_their_number_are_cut() -> None:
    many = "".join(failed("tests.test_a", f"test_{number}" + "x" * 2000) for number in range(1100))
    report = read(suite(many, name="pytest"))
    assert len(report.names) == junit.MAX_TESTS
    assert max(map(len, report.names)) == junit.MAX_NAME
    assert len(report.log) == junit.MAX_LOG


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><testsuites><testsuite name="&c;"/></testsuites>"""
OUTSIDE = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuites>&e;</testsuites>'


@pytest.mark.parametrize("report", [LAUGHS, OUTSIDE, LAUGHS.decode().encode("utf-16")])
def test_a_document_type_is_refused_before_its_entities_are_used(report: bytes) -> None:
    with pytest.raises(UnreadableReport, match="document type"):
        read(report)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (b"", "no XML"),
        (b"{}", "no XML"),
        (b"<testsuites>", "no XML"),
        (b"<testsuites>&undefined;</testsuites>", "no XML"),
        (b"<testsuites>\xff</testsuites>", "no XML"),
        (b'<?xml version="1.0" encoding="no-such"?><testsuites/>', "no XML"),
        (b"<html/>", "begins with"),
        (b" " * (junit.MAX_REPORT_BYTES + 1), "limit"),
    ],
)
def test_what_is_no_report_is_refused_with_a_sentence(report: bytes, why: str) -> None:
    with pytest.raises(UnreadableReport, match=why):
        read(report)


def test_a_deeply_nested_report_is_read_to_its_end() -> None:
    deep = b"<testsuite>" * 20_000 + failed("tests.test_a", "test_b").encode() + b"</testsuite>" * 20_000
    assert read(deep).names == ("tests/test_a.py::test_b",)
