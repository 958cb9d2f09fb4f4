"""The strict mode of a type checker: the controller's configuration, its receipt, and what the plan makes of that."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.step import VerifyTool
from schemas.stored.step import store_step, unpack_step
from tasks.features.unverified import Planned, is_strict, tools_of
from tasks.policy.quick_checks import checks_of_files
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.plans import PYTEST, Running, a_report, a_step
from tests.support.programs import NODE_MODULES, needs
from worker.controller.programs import VerificationResult, verify
from worker.controller.prompt import command
from worker.controller.reports import Reporting
from worker.controller.strict_mode import configuration
from worker.controller.wire import Tool
from worker.sandbox.process import JobResult

STRICT = VerifyTool(tool="pyright", argv=("pyright", "src/a.py"), timeout_s=60, strict=True)
PLAIN = STRICT.model_copy(update={"strict": False})
UNTYPED = "def twice(x):\n    return x * 2\n"
LOOSE = '{\n  // rules of this project\n  "typeCheckingMode": "off", "reportUnknownParameterType": false,\n'
DIGEST = "sha256:0"


def ran(root: Path, tool: VerifyTool) -> tuple[VerificationResult, Sequence[str], dict[str, Any]]:
    """Verify with a program that passes; also return its command, and the configuration that this names."""
    seen: list[tuple[Sequence[str], dict[str, Any]]] = []

    def run(how: Reporting, timeout_s: float, folder: str) -> JobResult:
        named = [word for word in how.argv if word.endswith("pyrightconfig.json")]
        seen.append((how.argv, json.loads(Path(named[0]).read_text()) if named else {}))
        return JobResult(0, "", "", DIGEST)

    result = verify([Tool.model_validate(tool.model_dump())], run, str(root))
    return result, *seen[0]


def test_a_strict_run_has_a_configuration_outside_of_the_clone_and_its_receipt_tells_that(tmp_path: Path) -> None:
    result, argv, known = ran(tmp_path, STRICT)

    assert [each.strict for each in result.receipts] == [True]
    at = argv.index("--project")
    assert not Path(argv[at + 1]).is_relative_to(tmp_path)
    assert not Path(argv[at + 1]).exists()  # after the run
    assert argv[at + 2 :] == ["src/a.py"]
    assert known["typeCheckingMode"] == "strict"
    assert str(tmp_path) in known["extraPaths"]


@pytest.mark.parametrize("tool", [PLAIN, STRICT.model_copy(update={"tool": "ruff-check", "argv": ("ruff", "check")})])
def test_a_plain_run_and_a_tool_without_such_a_mode_have_none(tool: VerifyTool, tmp_path: Path) -> None:
    result, argv, _ = ran(tmp_path, tool)

    assert [each.strict for each in result.receipts] == [None]
    assert "--project" not in argv


@pytest.mark.parametrize(
    ("argv", "after"),
    [
        (("uv", "run", "pyright", "a.py"), "pyright a.py"),
        (("python", "-m", "pyright", "--warnings", "a.py"), "pyright --warnings a.py"),
    ],
)
def test_the_option_follows_the_words_that_call_the_program(argv: tuple[str, ...], after: str, tmp_path: Path) -> None:
    _, words, _ = ran(tmp_path, STRICT.model_copy(update={"argv": argv}))

    at = words.index("--project")
    assert " ".join((words[at - 1], *words[at + 2 :])) == after


def test_a_project_gives_its_environment_and_none_of_its_rules(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "pyrightconfig.json").write_text(
        f'{LOOSE} "pythonVersion": "3.12", "extraPaths": ["lib",], "ignore": ["src"],\n'
        '  "executionEnvironments": [{"root": "web", "reportMissingImports": false}] /* one */ }'
    )

    known = configuration(tmp_path, "web")

    assert known == {
        "pythonVersion": "3.12",
        "stubPath": f"{tmp_path}/typings",
        "extraPaths": [f"{tmp_path}/lib", f"{tmp_path}", f"{tmp_path}/src"],
        "executionEnvironments": [
            {"root": f"{tmp_path}/web", "extraPaths": [f"{tmp_path}/lib", f"{tmp_path}"]},
        ],
        "typeCheckingMode": "strict",
    }


def test_the_nearest_configuration_counts_and_a_manifest_is_one(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.pyright]\npythonVersion = "3.11"\nextraPaths = 3\n')
    (tmp_path / "web" / "pyproject.toml").write_text('[tool.pyright]\nstubPath = "stubs"\n')

    assert configuration(tmp_path, ".")["pythonVersion"] == "3.11"
    assert configuration(tmp_path, "web")["stubPath"] == f"{tmp_path}/web/stubs"
    assert configuration(tmp_path, "web")["extraPaths"][-1] == str(tmp_path)


@pytest.mark.outages
@needs("node", "npm:pyright")
def test_a_configuration_of_the_repository_loosens_no_strict_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(NODE_MODULES / ".bin"), prepend=os.pathsep)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(UNTYPED)
    (tmp_path / "src" / "b.py").write_text("import src.c\n\nprint(src.c.ONE)\n")
    (tmp_path / "src" / "c.py").write_text("ONE = 1\n")
    (tmp_path / "pyrightconfig.json").write_text(f"{LOOSE}}}")

    def run(how: Reporting, timeout_s: float, folder: str) -> JobResult:
        done = subprocess.run(how.argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=timeout_s)
        return JobResult(done.returncode, done.stdout, done.stderr, DIGEST, stdout_bytes=len(done.stdout))

    def code(tool: VerifyTool) -> int:
        return verify([Tool.model_validate(tool.model_dump())], run, str(tmp_path)).receipts[0].exit_code

    assert code(PLAIN) == 0
    assert code(STRICT) == 1
    assert code(STRICT.model_copy(update={"argv": ("pyright", "src/b.py")})) == 0  # its import is found


def planned(plan: Running) -> list[Planned]:
    return [Planned(plan.facts["a"], plan.states["a"], None, is_strict(plan.steps["a"]))]


@pytest.mark.parametrize(
    ("said", "is_known"),
    [
        ({"verify": [{"tool": "pyright", "exit_code": 0, "strict": True}]}, True),
        ({"verify": [{"tool": "pyright", "exit_code": 0}]}, False),
        ({"verify": [{"tool": "pyright", "exit_code": 0, "strict": False}]}, False),
        ({"verify": [{"tool": "pyright", "exit_code": 0, "strict": "yes!"}]}, False),
        ({"verify": [{"tool": "pyright", "exit_code": 0, "strict": True}, {"tool": "pyright", "exit_code": 0}]}, False),
        ({"tests_passed": True}, False),
    ],
)
def test_a_success_counts_and_its_strict_mode_only_by_its_receipt(said: dict[str, Any], is_known: bool) -> None:
    plan = Running(a_step("a", tools=(STRICT,)))

    plan.report(a_report("a", 1, plan.active["a"].lease, **said))

    assert plan.states["a"] == "DONE"
    assert is_strict(plan.steps["a"]) is is_known
    assert [bool(tool.get("strict")) for tool in tools_of(planned(plan))[0].tools] == [is_known]


def test_a_step_that_asks_for_no_strict_mode_needs_no_word_of_it() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)))

    plan.report(a_report("a", 1, plan.active["a"].lease, verify=[{"tool": "pytest", "exit_code": 0}]))

    assert is_strict(plan.steps["a"])


@pytest.mark.parametrize("folder", [".", "backend"])
def test_a_stored_step_keeps_the_mode_and_the_folder_of_its_tools(folder: str) -> None:
    tools = (STRICT.model_copy(update={"cwd": folder}), PLAIN)
    step = a_step("a", tools=tools)

    kept = unpack_step(store_step(step))["verify_tools"]

    assert [VerifyTool.model_validate(each) for each in kept] == list(tools)
    assert "strict" not in kept[1]


def test_a_check_of_other_files_keeps_the_mode() -> None:
    step = a_step("a", files=("src/b.py",), tools=(STRICT,))

    found = [tool for tool in checks_of_files(step, (STRICT, PLAIN), CATALOGUE) if tool.tool == "pyright"]

    assert [(tool.argv[-1], tool.strict) for tool in found] == [("src/b.py", True), ("src/b.py", False)]


def test_an_agent_reads_that_a_check_is_strict() -> None:
    lines = [command(Tool.model_validate(each.model_dump())) for each in (STRICT, PLAIN)]

    assert lines == ["pyright src/a.py  # in its strict mode", "pyright src/a.py"]
