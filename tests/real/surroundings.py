"""What the tests of a fix are run with: an environment of its own, set up as its project says, and its test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.real import cargo_report
from tests.real.fix import CannotPlay, Fix
from worker.sandbox import process

SETUP_S, TESTS_S = 900.0, 900.0
SHOWN = 30  # lines of what a command printed last
NO_VERSION = "999.0"  # for projects that take theirs from tags, which a copy of a history may lack
VERSIONS = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION")
PACKAGED = ("pyproject.toml", "setup.py", "setup.cfg")
REPORTING = {
    "python": 'python -m pytest -q -p no:cacheprovider --junit-xml="$REPORT"',
    "javascript": "npx jest --ci --reporters=jest-junit",
    "typescript": "npx jest --ci --reporters=jest-junit",
    "rust": f'{sys.executable} -I {cargo_report.__file__} "$REPORT"',
    "go": 'gotestsum --junitfile "$REPORT" ./...',
}


@dataclass(frozen=True, slots=True)
class Suite:
    """How a run of tests ended: how many there were, and which failed."""

    count: int
    reasons: Mapping[str, str]  # the last line of what each test that failed says

    @property
    def failed(self) -> frozenset[str]:
        """The tests that failed."""
        return frozenset(self.reasons)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A checkout with the environment that its programs see."""

    checkout: Path
    variables: Mapping[str, str]
    test: str

    def run_tests(self, report: Path) -> Suite:
        """Run the tests, which write `report`; raises CannotPlay where they come to no report."""
        report.unlink(missing_ok=True)
        variables = {
            "REPORT": str(report),
            "JEST_JUNIT_OUTPUT": str(report),  # of jest-junit before 7
            "JEST_JUNIT_OUTPUT_FILE": str(report),
            "JEST_JUNIT_ADD_FILE_ATTRIBUTE": "true",
        }
        printed = run_shell(self.test, self.checkout, {**self.variables, **variables}, TESTS_S)
        try:
            root = ElementTree.parse(report).getroot()
        except (OSError, ElementTree.ParseError) as error:
            raise CannotPlay(f"`{self.test}` wrote no report ({error}). It printed:\n{printed}") from error
        cases = list(root.iter("testcase"))
        if not cases:
            raise CannotPlay(f"`{self.test}` ran no test. It printed:\n{printed}")
        return Suite(len(cases), {_name(case): why for case in cases if (why := _reason(case))})


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"


def _reason(case: ElementTree.Element) -> str:
    """Say why a test failed; nothing of one that did not."""
    found = [*case.findall("failure"), *case.findall("error")]
    lines = [
        line for each in found for line in f"{each.get('message', '')}\n{each.text or ''}".splitlines() if line.strip()
    ]
    return lines[-1].strip() if lines else "failed" if found else ""


def prepare(fix: Fix, checkout: Path, home: Path) -> Surroundings:
    """Make the environment of a fix and set its project up; raises CannotPlay with what a command printed last.

    A setup that is empty leaves all as it is: the programs on PATH are those of the project.
    """
    variables = process.basic_environment()
    variables |= dict.fromkeys(VERSIONS, NO_VERSION) | {"PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    setup = fix.setup
    if fix.language == "python" and setup != "":
        variables["PATH"] = f"{_make_venv(home / 'venv', fix.python)}{os.pathsep}{variables['PATH']}"
        variables["VIRTUAL_ENV"] = str(home / "venv")
        is_package = any((checkout / name).exists() for name in PACKAGED)
        setup = setup or f"python -m pip install --quiet pytest {'--editable .' if is_package else ''}"
    if not (test := fix.test or REPORTING.get(fix.language)):
        raise CannotPlay(f"How are tests of {fix.language} run? Name a command that writes its report to $REPORT.")
    if setup:
        run_shell(setup, checkout, variables, SETUP_S, must_pass=True)
    return Surroundings(checkout, variables, test)


def _make_venv(folder: Path, python: str) -> Path:
    """Make an environment with pip; returns the folder of its programs."""
    uv = shutil.which("uv")
    words = [uv, "venv", "--quiet", "--seed", "--python", python] if uv else [python, "-m", "venv"]
    made = subprocess.run([*words, str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        raise CannotPlay(f"An environment could not be made: {made.stderr.strip()}")
    return folder / "bin"


def run_shell(line: str, folder: Path, variables: Mapping[str, str], seconds: float, *, must_pass: bool = False) -> str:
    """Run a line of a shell; returns the end of what it printed. Raises CannotPlay if its time is over."""
    words = ["sh", "-c", line]
    done = process.run(process.Job(words, folder, seconds, lambda: True, merge=True, env=variables))
    end = "\n".join(done.stdout.splitlines()[-SHOWN:])
    if done.timed_out:
        raise CannotPlay(f"`{line}` takes more than {seconds:.0f} s. It printed:\n{end}")
    if must_pass and done.exit_code:
        raise CannotPlay(f"`{line}` ended with {done.exit_code}:\n{end}")
    return end
