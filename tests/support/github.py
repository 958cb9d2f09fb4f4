"""Runs the steps of GitHub Actions jobs on this machine, as far as docs/ci.md needs a runner."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXPRESSION = re.compile(r"\$\{\{ *([a-z_.-]+) *\}\}", re.IGNORECASE)
PROGRAMS = ("bash", "git", "jq")  # that a machine of GitHub has

# Stands for uv and pipx: what they would install is this repository.
TOOL = f"""#!/bin/sh
case "$*" in
"run pytest "*) shift; exec {sys.executable} -m "$@" ;;
"tool install planner-worker" | "install planner-worker") mv "$(dirname "$0")/later" "$(dirname "$0")/planner" ;;
*) echo "not expected: $0 $*" >&2; exit 99 ;;
esac
"""
PLANNER = f"""#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} -c 'from worker.start import planner; planner()' "$@"
"""


@dataclass
class Runner:
    """A machine that runs jobs, one after the other, on a clone of a repository; `known` are values of expressions."""

    home: Path
    checkout: Path
    known: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict)  # other variables of the runner, such as tokens
    log: dict[str, str] = field(default_factory=dict)  # what each step printed, by its name

    def __post_init__(self) -> None:
        for name in ("bin", "temp", "artifacts"):
            (self.home / name).mkdir()
        for name, text in (("uv", TOOL), ("pipx", TOOL), ("later", PLANNER)):
            (self.home / "bin" / name).write_text(text)
            (self.home / "bin" / name).chmod(0o755)

    @property
    def summary(self) -> str:
        """The text that the steps added to the summary of the job."""
        return (self.home / "temp" / "summary").read_text()

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs that the steps set."""
        lines = (self.home / "temp" / "output").read_text().splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def play(self, steps: list[dict[str, Any]]) -> int:
        """Play the steps of a job; returns the first exit code but 0, after which only `if: failure()` holds."""
        failed = 0
        for step in steps:
            if bool(failed) is (step.get("if") == "failure()"):
                code = self._run(step) if "run" in step else self._use(step)
                failed = failed or code
        return failed

    def _run(self, step: Mapping[str, Any]) -> int:
        assert "${{" not in step["run"], "the value of an expression would be run as code"
        own = {
            name: EXPRESSION.sub(lambda found: self.known[found[1]], text) for name, text in step.get("env", {}).items()
        }
        path = ":".join(dict.fromkeys(str(Path(found).parent) for each in PROGRAMS if (found := shutil.which(each))))
        temp = self.home / "temp"
        environment = {
            "PATH": f"{self.home / 'bin'}:{path}", "HOME": str(self.home), "CI": "true", "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.checkout), "GITHUB_REPOSITORY": "acme/shop", "GITHUB_EVENT_NAME": "push",
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main",
            "GITHUB_SHA": self.known["github.sha"], "GITHUB_OUTPUT": str(temp / "output"), "RUNNER_TEMP": str(temp),
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
        }  # fmt: skip
        command = ["bash", "-e", "-c", step["run"]]
        said = subprocess.run(
            command,
            cwd=self.checkout,
            env=environment | dict(self.own) | own,
            capture_output=True,
            text=True,
            timeout=90,
        )
        self.log[step["name"]] = said.stdout + said.stderr
        return said.returncode

    def _use(self, step: Mapping[str, Any]) -> int:
        """Do the work of a third-party action, as far as later steps can see it."""
        action, given = step["uses"].partition("@")[0], step.get("with", {})
        if action == "actions/checkout":
            subprocess.run(["git", "clean", "-fdxq"], cwd=self.checkout, check=True)
        elif action == "actions/upload-artifact":
            shutil.copy(self.checkout / given["path"], self.home / "artifacts" / given["path"])
        elif action == "actions/download-artifact":
            shutil.copytree(self.home / "artifacts", self.checkout, dirs_exist_ok=True)
        else:
            assert action == "astral-sh/setup-uv"
        return 0
