"""The reference controller's verification: what it proves, and what it tells besides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from worker.controller.programs import ToolRun, environment, verify
from worker.controller.reports import Reporting
from worker.controller.wire import Tool
from worker.sandbox import process
from worker.sandbox.process import Job

PRINTS = "print('src/a.py:3: error: Incompatible return value type  [return-value]'); raise SystemExit({})"


def in_folder(folder: Path) -> ToolRun:
    """ToolRun what is to be verified in `folder`, as a controller does."""
    return lambda how, seconds, place: process.run(
        Job(
            how.argv,
            folder / place,
            seconds,
            lambda: True,
            merge=True,
            env=how.added_to(environment(how.argv, folder / place)),
        )
    )


@pytest.mark.parametrize(("code", "found"), [(0, False), (1, True)])
def test_an_exit_code_that_passes_and_is_not_zero_tells_what_was_found(code: int, found: bool, tmp_path: Path) -> None:
    argv = (sys.executable, "-c", PRINTS.format(code))

    tool = Tool(tool="mypy", argv=argv, timeout_s=30, pass_codes=(0, 1))
    done = verify([tool], in_folder(tmp_path))

    assert done.passed
    assert (done.finding is not None) is found
    assert done.finding is None or "Incompatible return value" in (done.finding.evidence.stack_trace_head or "")


@pytest.mark.parametrize("word", ["@conf/args.py", "@conf/args.py::x", "@"])
def test_a_word_that_is_read_as_a_file_of_options_fails_before_anything_runs(word: str) -> None:
    """The planner makes none; a controller takes specs of whatever fills its queue."""
    ran: list[object] = []
    tools = [
        Tool(tool="mypy", argv=("mypy", "src"), timeout_s=9),
        Tool(tool="pytest", argv=("pytest", word), timeout_s=9),
    ]

    def run(argv: object, _: float, __: str) -> process.JobResult:
        ran.append(argv)
        return process.JobResult(0, "", "", "sha256:0")

    done = verify(tools, run)

    assert len(ran) == len(done.receipts) == 1
    assert done.passed is False
    assert done.failure is not None
    assert word in done.failure.message


def test_a_verification_is_not_steered_by_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    steering = (
        "PYTEST_ADDOPTS",
        "MAKEFLAGS",
        "GOFLAGS",
        "RUFF_OUTPUT_FILE",
        "TOXENV",
        "NODE_OPTIONS",
        "NPM_CONFIG_YES",
    )
    for name in steering:
        monkeypatch.setenv(name, "-n")
    monkeypatch.setenv("CARGO_HOME", "/opt/cargo")

    told = environment(["cargo", "test"], Path("/clone"))

    assert not told.keys() & {*steering}
    assert (told["CARGO_HOME"], told["npm_config_yes"]) == ("/opt/cargo", "false")


@pytest.mark.parametrize("place", [".", "src"])
@pytest.mark.parametrize("words", [("pytest", "-q"), (sys.executable, "-m", "unittest", "discover", "-s", "tests")])
def test_tests_are_of_the_modules_that_lie_there_and_not_of_an_installed_checkout(
    place: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = "import unittest, prices\n\nclass TestIt(unittest.TestCase):\n    def test_it(self): assert prices.RIGHT\n"
    files = {f"clone/{place}/prices.py": "RIGHT = True", "clone/tests/test_it.py": test}
    for name, text in {**files, "checkout/prices.py": "RIGHT = False"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))

    assert verify([Tool(tool="tests", argv=words, timeout_s=30)], in_folder(tmp_path / "clone")).passed


def test_what_imports_nothing_has_our_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")

    assert environment(["mypy", "src/pytest.py", "src"], Path("/clone"))["PYTHONPATH"] == "/ours"


def test_package_managers_install_nothing_in_a_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_CONFIG_YES", "true")

    found = environment(["pnpm", "test"], Path("/clone"))

    assert "NPM_CONFIG_YES" not in found
    assert (found["npm_config_yes"], found["pnpm_config_verify_deps_before_run"]) == ("false", "false")


@pytest.mark.parametrize("variable", ["MAKEFLAGS", "GNUMAKEFLAGS"])
def test_make_really_runs_what_it_was_asked_for(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that was itself started by `make -n` would otherwise see every check pass."""
    (tmp_path / "Makefile").write_text("test:\n\t@exit 3\n")
    monkeypatch.setenv(variable, "-n")
    tool = Tool(tool="make-test", argv=("make", "test"), timeout_s=30)

    assert verify([tool], in_folder(tmp_path)).passed is False


def test_names_of_failing_tests_are_the_same_in_every_clone(tmp_path: Path) -> None:
    where = f"location: '{tmp_path}/t/a.test.mjs:2:1'"
    told = f"not ok 1 - adds\n  ---\n  {where}\n  failureType: 'testCodeFailure'\n  ...\n# fail 1\n# cancelled 0"
    argv = (sys.executable, "-c", f"print({told!r}); raise SystemExit(1)")

    done = verify([Tool(tool="node-test", argv=argv, timeout_s=30)], in_folder(tmp_path), str(tmp_path))

    assert (done.failing.names, done.failing.complete) == (("t/a.test.mjs > adds",), True)


@pytest.mark.parametrize("file", ["test/cart.js", "helpers.js"], ids=["its own", "that of a helper which makes it"])
@pytest.mark.parametrize("word", ["passed", "failed"])
def test_a_file_named_from_the_root_means_the_tests_of_a_run_below_it(file: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "packages" / "shop" / "test").mkdir(parents=True)
    argv, named = ("node", "--test", "--", "test/cart.js"), "packages/shop/test/cart.js"

    def run(how: Reporting, *_: object) -> process.JobResult:
        assert how.folder
        lines = [["test", f"{file} > adds", word], ["end", how.token]]
        (how.folder / "report").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return process.JobResult(int(word != "passed"), "", "", "sha256:0")

    tool = Tool(tool="node-test", argv=argv, timeout_s=30, cwd="packages/shop")
    (receipt,) = verify([tool], run, str(tmp_path), named=[named]).receipts

    assert receipt.tests
    assert receipt.tests.named == {named: word}
