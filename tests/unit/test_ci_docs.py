"""What docs/ci.md shows is a workflow, a pipeline and an action by the schemas that the platforms publish."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tests.support.documented import DOCS
from worker.cli.commands.app import app

PAGE = (DOCS / "ci.md").read_text()
ACTION = DOCS / "examples" / "planner-action" / "action.yml"
GITHUB, STEP, GITLAB, AUDIT = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("github-workflows", GITHUB),
        (
            "github-workflows",
            "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n" + re.sub("^", "      ", STEP, flags=re.M),
        ),
        ("gitlab-ci", GITLAB),
        ("github-workflows", AUDIT),
        ("github-actions", ACTION.read_text()),
    ],
    ids=["workflow", "step", "pipeline", "audit", "action"],
)
def test_what_the_page_shows_is_valid_where_it_is_used(tmp_path: Path, schema: str, text: str) -> None:
    (tmp_path / "shown.yml").write_text(text)
    transform = ["--data-transform", "gitlab-ci"] if schema == "gitlab-ci" else []
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *transform]
    checked = subprocess.run([*command, "shown.yml"], cwd=tmp_path, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout


def test_every_command_of_the_page_has_options_that_are_there() -> None:
    commands = re.findall(r"planner (submit --[^\n`]*)", PAGE)
    known = {name for each in get_command(app).commands["submit"].params for name in each.opts}  # type: ignore[attr-defined]
    used = {word for command in commands for word in shlex.split(command) if word.startswith("--")}

    assert len(commands) >= 3
    assert used <= known


def test_the_action_is_given_what_it_needs_on_the_page() -> None:
    required = re.findall(
        r"^  ([a-z-]+):\n(?:    (?!required).*\n)*    required: true", ACTION.read_text(), re.MULTILINE
    )

    assert required == ["files"]
    assert all(f"{name}:" in STEP for name in ("url", *required))
