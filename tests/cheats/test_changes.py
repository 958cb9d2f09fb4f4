"""Changes of one file that weaken tests or suppress findings, in five languages: none that is refused is completed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.toolchain.files import configures_verification
from tests.cheats.changes import SUPPRESSED, WEAKENED
from tests.cheats.cheat import Surroundings
from tests.cheats.play import Played, Stage, staged

pytestmark = [pytest.mark.outages, pytest.mark.long]

GLOBS = ["src/**", "tests/**", "test/**", "pkg/**"]
REPAIR, FEATURE = "Fix the crash of the calculator", "Add an option for the calculator"


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        yield made


def play(stage: Stage, goal: str, path: str, before: str | None, after: str | None) -> Played:
    """Have a change of one file done as the step of a goal."""
    files = {"check.py": "OK = True\n", **({} if before is None else {path: before})}
    at = Surroundings("python", files, "", "python -m py_compile check.py", {}, hidden=frozenset({"check.py"}))
    named = [path] if configures_verification(path) else []
    return stage.play(at, {path: after}, goal=goal, allowed_files=[*GLOBS, *named])


def test_no_change_that_a_repair_refuses_is_completed(stage: Stage) -> None:
    """A file that is named may be changed, so that what is done to configuration is told."""
    wrong = []
    for path, before, after, kind in [*WEAKENED, *SUPPRESSED]:
        is_told = kind.startswith("own_") or configures_verification(path)
        view = play(stage, REPAIR, path, before, after).view
        found = [each.kind for each in view.integrity]
        ended = "COMPLETED" if is_told else "HALTED integrity"
        if kind not in found or ended != f"{view.state} {view.halt.rule if view.halt else ''}".strip():
            wrong.append((path, kind, view.state, view.halt and view.halt.reason, found))

    assert wrong == []


def test_a_feature_is_completed_and_told_of_the_same(stage: Stage) -> None:
    view = play(stage, FEATURE, *WEAKENED[3][:3]).view

    assert view.state == "COMPLETED"
    assert view.doubt
    assert view.doubt.startswith("integrity: test_skipped")
