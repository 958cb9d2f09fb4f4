"""A controller of one repository sets its clone up: by its operator's command, and by no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.base import FailureCategory
from tests.support.controlling import FIX, Planner, Repo
from worker.controller.places import propose
from worker.controller.repository import Repository
from worker.controller.setup import Setup, tops_of

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
LINT = {"tool": "lint", "argv": ["lint"], "timeout_s": 60}
MAKING = """set -e
mkdir -p .venv/bin
printf '#!/bin/sh\\nexec python3 -c "import version; assert version.NUMBER == 1"\\n' > .venv/bin/lint
chmod +x .venv/bin/lint
echo "NUMBER = $(cat requirements.txt 2>/dev/null || echo 1)" > version.py
if grep -q broken requirements.txt 2>/dev/null; then echo 'ERROR: No matching distribution found' >&2; exit 1; fi
env >> {folder}/ran
"""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Make a command that installs a program, and writes a version that git does not know."""
    (tmp_path / "setup.sh").write_text(MAKING.replace("{folder}", str(tmp_path / "told")))
    (tmp_path / "told").mkdir()
    return Setup(("sh", str(tmp_path / "setup.sh")))


def test_what_git_does_not_know_is_made_in_each_clone_and_its_programs_are_found(
    planner: Planner, repo: Repo, setup: Setup, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_COLOUR", "red")
    poison = "write('version.py', 'NUMBER = 2'); write('.venv/bin/lint', ''); write('.venv/new', '')"
    planner.send("poison", intent=f"{poison}; {FIX}", allowed_files=["calc.py"], verify_tools=[LINT])
    planner.send(
        "look", mode="read_only", intent="report(output=[os.path.exists('.venv/new'), open('version.py').read()])"
    )
    start(setup=setup)

    fix = planner.outcome("poison")
    assert (fix.success, fix.touched_files) == (True, ("calc.py",))
    assert planner.outcome("look").output == [False, "NUMBER = 1\n"]
    told = (tmp_path / "told/ran").read_text()
    assert told.count("\nPATH=") + told.startswith("PATH=") == 1  # it ran once
    assert "SHOP_COLOUR" not in told
    assert repo.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("fields", "written", "success"),
    [
        ({}, "1", True),
        ({"setup": True, "requires": ["setup"]}, "1", True),
        ({}, "2", True),  # nobody asked, so that what the base says is installed
        ({"setup": True}, "2", False),
        ({"setup": True}, "broken", False),
    ],
)
def test_what_an_attempt_makes_of_a_manifest_is_installed_where_the_step_asks_for_it(
    fields: dict[str, Any], written: str, success: bool, planner: Planner, setup: Setup, start: Start
) -> None:
    intent = f"write('requirements.txt', '{written}\\n'); write('.venv/bin/lint', '')"
    planner.send("upgrade", intent=intent, allowed_files=["requirements.txt"], verify_tools=[LINT], **fields)
    start(setup=setup)

    outcome = planner.outcome("upgrade")

    assert (outcome.success, outcome.touched_files) == (success, ("requirements.txt",))
    if written == "broken":
        assert outcome.failure_evidence
        assert outcome.failure_evidence.category == FailureCategory.IMPORT_ERROR
        assert "No matching distribution found" in (outcome.error_message or "")
    if success:
        planner.send("check", mode="test", verify_tools=[LINT])
        assert planner.outcome("check").success is (written == "1")


def test_a_lock_file_speaks_for_a_setup_that_is_told_and_not_run(
    planner: Planner, repo: Repo, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    assert propose(Repository(repo.path)) == ""
    (repo.path / "uv.lock").write_text("version = 1\n")
    repo.git("add", "uv.lock")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Lock")
    planner.send("check", mode="test", verify_tools=[LINT], context={"base_sha": None})
    start()

    cannot = planner.outcome("check").cannot_verify

    assert cannot
    assert cannot.reason.endswith('lint is missing here; it may help to start the controller with --setup "uv sync"')
    assert any(getattr(record, "proposed", "") == '--setup "uv sync"' for record in caplog.records)


def test_what_a_setup_makes_lies_in_the_topmost_folders_that_are_new() -> None:
    made = [b".venv/bin/python", b".venv/lib/a.py", b"src/shop/_version.py", b"src/shop.egg-info/PKG-INFO", b"made"]

    found = tops_of(made, [b"src/shop/cart.py", b"setup.py"])

    assert found == (b".venv", b"src/shop/_version.py", b"src/shop.egg-info", b"made")
    assert os.fsencode("src") not in found
