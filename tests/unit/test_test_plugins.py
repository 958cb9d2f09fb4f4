"""The plugins of these tests, in a pytest of their own: what a test leaves behind, and what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.left_behind import is_alive

ROOT = Path(__file__).parents[2]
SLEEP = "[sys.executable, '-c', 'import time; time.sleep(600)']"
START = f"pathlib.Path('pid').write_text(str(subprocess.Popen({SLEEP}).pid))"
ORPHAN = f"subprocess.run([sys.executable, '-c', \"import pathlib, subprocess, sys; {START}\"], check=True)"
IMPORTS = "import pathlib, pytest, subprocess, sys\nfrom tests.support.programs import needs\n"
OF_THE_MODULE = f"""
@pytest.fixture(scope="module")
def helper():
    process = subprocess.Popen({SLEEP})
    yield process
    process.kill()
    process.wait()

def test_one(helper): assert helper.poll() is None
def test_two(helper): assert helper.poll() is None
"""
LEFT_BY_THE_MODULE = OF_THE_MODULE.replace(
    "process.kill()\n    process.wait()", "pathlib.Path('pid').write_text(str(process.pid))"
)
SKIPS = """
@needs("sh", "no-such-program")
def test_a(): raise AssertionError
@needs("npm:no-such-package")
def test_b(): raise AssertionError
@needs("sh")
def test_c(): pass
"""


def pytest_of(tmp_path: Path, source: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugins on a module of this source."""
    (tmp_path / "test_it.py").write_text(IMPORTS + source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    programs: what it runs\n")
    plugins = ["-p", "tests.support.left_behind", "-p", "tests.support.programs", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--basetemp", "base", *words]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (f"def test_it():\n    {START}", "1 passed, 1 error"),
        pytest.param(f"def test_it():\n    {ORPHAN}", "1 passed, 1 error", marks=pytest.mark.outages),
        (f"def test_it():\n    {START}\n    raise AssertionError", "1 failed in"),
        pytest.param(LEFT_BY_THE_MODULE, "2 passed, 1 error", marks=pytest.mark.outages),
    ],
    ids=["child", "child of a child that has ended", "failed test", "fixture of a module"],
)
def test_what_a_test_leaves_behind_is_killed_and_fails_a_test_that_had_passed(
    tmp_path: Path, source: str, told: str
) -> None:
    done = pytest_of(tmp_path, source)

    assert told in done.stdout.splitlines()[-1], done.stdout
    assert ("left behind: " in done.stdout) is ("error" in told)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_fixture_of_a_module_keeps_its_processes_until_it_ends(tmp_path: Path) -> None:
    assert pytest_of(tmp_path, OF_THE_MODULE).returncode == 0


def test_a_program_that_is_missing_skips_a_test_and_the_reasons_are_counted(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, SKIPS)

    assert done.returncode == 0, done.stdout
    _, table = done.stdout.split("2 skipped =", 1)
    assert "\n    1  no-such-program is not installed\n" in table
    assert "\n    1  no-such-package is not in PLANNER_TEST_NODE_MODULES\n" in table


def test_more_skips_than_are_allowed_fail_the_run(tmp_path: Path) -> None:
    assert pytest_of(tmp_path, SKIPS, "--most-skips", "2").returncode == 0

    done = pytest_of(tmp_path, SKIPS, "--most-skips", "1")

    assert done.returncode == 1
    assert "2 tests were skipped; --most-skips allows 1." in done.stdout


def test_where_every_program_is_required_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, SKIPS, "-m", "programs", PLANNER_TEST_PROGRAMS="required")

    assert done.returncode == 1
    assert "no-such-program is not installed" in done.stdout
    assert "1 passed, 2 errors" in done.stdout
