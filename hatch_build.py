"""Puts the commit that a wheel or an sdist is built from into it; `planner --version` prints it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "worker/host/commit.txt"
DESCRIBE = ("git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")


class CommitHook(BuildHookInterface[Any]):
    """Adds a file, which an sdist hands on to its wheel; a checkout needs none, it has git."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the commit by the variable SOURCE_COMMIT, else by git, else not at all."""
        file = Path(self.root) / PLACE  # of an sdist
        if commit := os.environ.get("SOURCE_COMMIT") or self._described():
            self._folder = TemporaryDirectory()
            file = Path(self._folder.name) / file.name
            file.write_text(f"{commit}\n")
        if file.exists() and version != "editable":
            build_data["force_include"][str(file)] = PLACE

    def finalize(self, *_: object) -> None:
        """Remove the temporary file."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _described(self) -> str:
        if not (Path(self.root) / ".git").exists():  # of a folder above it nothing is meant
            return ""
        try:
            done = subprocess.run(DESCRIBE, cwd=self.root, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words)
        except OSError:  # no git
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""
