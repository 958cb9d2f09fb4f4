"""Commits in a repository of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def commit(folder: Path, files: Mapping[str, str | None]) -> str:
    """Commit texts of files, None for one that goes; return the commit."""
    for path, text in files.items():
        place = folder / path
        if text is None:
            place.unlink()
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "t")
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return its output."""
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()
