"""A fix to play: where its history is, what it is written in, and how its project is set up and tested."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tasks.toolchain.languages import LANGUAGES

WORDS = ("repository", "commit", "language")  # that every fix has


class CannotPlay(Exception):
    """This fix cannot be played, for a reason that is no fault of the planner's."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One fix. Commands are lines of a shell, run in the checkout; `test` writes its report to `$REPORT`.

    `files` are the globs of the goal. What `results` names is made by `setup` anew in each clone that has `lock_files`.
    """

    repository: Path
    commit: str
    language: str
    name: str = ""
    files: tuple[str, ...] = ()
    python: str = sys.executable  # of the environment of a project in Python, or a version that uv finds
    setup: str | None = None  # None: what is usual for the language
    test: str | None = None
    lock_files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise CannotPlay(f"{self.language} is no language of the planner: {', '.join(sorted(LANGUAGES))}.")

    @property
    def title(self) -> str:
        """Name the fix in a few words."""
        return self.name or f"{self.repository.resolve().name} {self.commit[:10]}"


def read_fixes(path: Path, clones: Path | None = None) -> tuple[Fix, ...]:
    """Read a list: TOML with a table `[[fix]]` for each; repositories lie in `clones`, else beside the list.

    Raises CannotPlay with a sentence for the first mistake.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("fix", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CannotPlay(f"{path} cannot be read: {error}.") from error
    if not tables:
        raise CannotPlay(f"{path} has no table [[fix]].")
    return tuple(_fix(table, f"{path}, fix {number}", clones or path.parent) for number, table in enumerate(tables, 1))


def _fix(table: dict[str, Any], where: str, clones: Path) -> Fix:
    known = {each.name for each in fields(Fix)}
    if missing := [name for name in WORDS if not table.get(name)]:
        raise CannotPlay(f"{where} lacks {', '.join(missing)}.")
    if unknown := sorted(table.keys() - known):
        raise CannotPlay(f"{where} has {', '.join(unknown)}, and the fields are {', '.join(sorted(known))}.")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    name = f"{table['repository']} {table['commit'][:10]}"
    return Fix(**{"name": name, **given, "repository": clones / table["repository"]})
