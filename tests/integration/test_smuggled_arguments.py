"""What real tools make of a word of data: that the holes are real, and that what the catalogue hands out is closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.step import VerifyTool
from tasks.toolchain.catalogue import CATALOGUE

WRONG = "import os\n\nx: int = 'a'\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("tests", "@odd", "conf"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_a() -> None:\n    raise AssertionError\n")
    (tmp_path / "@odd/test_b.py").write_text("def test_b() -> None:\n    raise AssertionError\n")
    (tmp_path / "@odd/a.py").write_text(WRONG)
    return tmp_path


def run(argv: tuple[str, ...], cwd: Path) -> int:
    words = argv[2:] if argv[:2] == ("python", "-m") else argv
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they take longer to load than the tests to run
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("--collect-only", ("pytest", "tests", "@conf/args.py")),
        ("--collect-only", ("pytest", "--", "tests", "@conf/args.py")),
        ("--exit-zero", ("ruff", "check", "./@odd/a.py", "@conf/args.py")),
        ("--version", ("mypy", "./@odd/a.py", "@conf/args.py")),
    ],
)
def test_a_tool_that_reads_words_from_a_file_passes_without_looking(
    line: str, argv: tuple[str, ...], repository: Path
) -> None:
    """The reason for the rule; no contract reads these."""
    assert run(argv[:-1], repository) == 1

    (repository / "conf/args.py").write_text(f"{line}\n")

    assert run(argv, repository) == 0
    assert not any(contract.read(argv) for contract in CATALOGUE.contracts.values())


@pytest.mark.parametrize("recipe", ["ruff", "mypy", "pytest"])
def test_a_file_with_such_a_name_is_judged_by_what_is_in_it(recipe: str, repository: Path) -> None:
    aimed: dict[str, VerifyTool] = {
        "ruff": CATALOGUE.aim(("ruff", "check"), ("@odd/a.py",)),
        "mypy": CATALOGUE.aim(("mypy",), ("@odd/a.py",)),
        "pytest": CATALOGUE.aim(("pytest", "-q"), ("@odd/test_b.py",)),
    }

    assert run(aimed[recipe].argv, repository) == 1


def test_what_stands_behind_the_end_of_options_is_still_run(repository: Path) -> None:
    narrowed = CATALOGUE.narrow(CATALOGUE.match("pytest -q"), ("@conf/args.py::x", "tests/test_a.py::test_a"))

    assert narrowed is not None
    assert narrowed.argv == ("pytest", "-q", "--", "tests/test_a.py::test_a")
    assert run(narrowed.argv, repository) == 1
