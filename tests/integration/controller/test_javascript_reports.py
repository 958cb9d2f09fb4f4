"""Reports of jest, vitest, mocha and node --test, by the real runners.

jest, vitest and mocha run from PLANNER_TEST_NODE_MODULES, which has to be a folder that is named node_modules.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import NODE_MODULES, needs
from worker.controller import reports

GLOBALS = {
    "jest": "",
    "vitest": 'import {describe, it} from "vitest"\n',
    "mocha": "",
    "node-test": 'import {describe, it} from "node:test"\n',
}
FILES = {"jest": "sum.test.js", "vitest": "sum.test.mjs", "mocha": "sum.test.cjs", "node-test": "sum.test.mjs"}
COMMANDS = {
    "jest": ("npx", "jest"),
    "vitest": ("npx", "vitest", "run"),
    "mocha": ("npx", "mocha"),
    "node-test": ("node", "--test"),
}
TESTS = """
describe("sum", () => {
  it("adds", () => {})
  it("takes nothing", () => { throw new Error("wrong") })
  it.skip("takes letters", () => {})
})
"""
ENDS = 'process.on("exit", () => { process.exitCode = 0 })\nit("ends", () => process.reallyExit(0))\n'

RUNNERS = [
    *(pytest.param(name, marks=[pytest.mark.outages, pytest.mark.long, needs("npx", f"npm:{name}")]) for name in FILES),
]
RUNNERS[-1] = pytest.param("node-test", marks=[pytest.mark.outages, needs("node")])


def run(tool: str, text: str, root: Path) -> reports.TestReport:
    """Run the tests in `text` with our reporter, and return its report."""
    (root / FILES[tool]).write_text(GLOBALS[tool] + text)
    (root / "package.json").write_text('{"private": true}')
    if tool != "node-test":
        (root / "node_modules").symlink_to(NODE_MODULES)
    with reports.reporting(tool, [*COMMANDS[tool], FILES[tool]], root) as made:
        ended = subprocess.run(
            made.argv,
            cwd=root,
            env=made.added_to({**os.environ}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return made.read(ended.stdout + ended.stderr)[0]


@pytest.mark.parametrize("tool", RUNNERS)
def test_a_report_is_whole_and_has_each_test_by_its_name(tool: str, tmp_path: Path) -> None:
    report = run(tool, TESTS, tmp_path)

    assert report.kind == "whole"
    results = {
        name.rpartition("::")[2].rpartition(" > ")[2].removeprefix("sum "): word for name, word in report.words.items()
    }
    assert results == {"adds": "passed", "takes nothing": "failed", "takes letters": "skipped"}
    assert all(name.startswith(FILES[tool]) for name in report.words)


@pytest.mark.parametrize("tool", RUNNERS)
def test_a_test_that_ends_the_process_with_0_proves_no_test(tool: str, tmp_path: Path) -> None:
    report = run(tool, TESTS + ENDS, tmp_path)

    assert report.kind != "whole" or "passed" not in report.words.values()
