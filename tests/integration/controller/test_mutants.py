"""A sample that looks again: failing tests are run on mutants of a change, and mutants that pass are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.controlling import FIX, PYTEST, Planner, Repo
from worker.controller import programs
from worker.controller.mutation import Sampling

LOOSE = "def add(a, b):\\n    if a > 100:\\n        return b\\n    return a + b\\n"
UNTESTED = f"write('calc.py', '{LOOSE}')"
ASKED: dict[str, Any] = {
    "allowed_files": ["calc.py"],
    "verify_tools": [PYTEST],
    "context": {"base_sha": None, "failing_tests": ["test_calc.py::test_adds"]},
}


@pytest.mark.outages
def test_a_mistake_that_no_test_notices_is_reported_with_its_line(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("fix", intent=UNTESTED, **ASKED)
    start(mutants=20)

    outcome = planner.outcome("fix")

    assert outcome.success
    assert outcome.integrity
    survived = outcome.integrity.counts["mutant_survives"]
    found = {(place.line, place.what) for place in outcome.integrity.places if place.kind == "mutant_survives"}
    assert (2, "if a > 100: -> if a >= 100:") in found
    assert (3, "return b -> return None") in found
    assert all(line in (2, 3) for line, _ in found), "what the test looks at was noticed"
    assert survived == len(found)
    assert "if a > 100:" in repo.git("show", "planner/plan_3c-0199aaaabbbbccccddddeeeeffff0000:calc.py")


@pytest.mark.outages
def test_a_change_whose_mistakes_are_all_noticed_reports_nothing(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent=FIX, **ASKED)
    start(mutants=20)

    assert planner.outcome("fix").integrity is None


@pytest.mark.outages
def test_a_policy_asks_for_mutants_by_the_spec(planner: Planner, start: Callable[..., None]) -> None:
    limits = {"max_diff_lines": 200, "tokens": 20000, "mutants": 20}
    planner.send("fix", intent=UNTESTED, **ASKED, limits=limits)
    start()

    outcome = planner.outcome("fix")

    assert outcome.integrity
    assert "mutant_survives" in outcome.integrity.counts


def test_nothing_is_mutated_unless_that_is_asked_for(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent=UNTESTED, **ASKED)
    start()

    assert planner.outcome("fix").integrity is None


@pytest.mark.parametrize("moves", ["folder", "root", "file", "twin", "nothing is left"])
def test_tests_that_move_what_is_mutated_have_nothing_else_written(
    moves: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root := tmp_path / "clone" / "src").mkdir(parents=True)
    (other := tmp_path / "other" / "src").mkdir(parents=True)
    (root / "calc.py").write_text("x = a + b\n")
    (kept := other / "calc.py").write_text("the operator's own")

    def run_tests(*_: object) -> SimpleNamespace:
        if moves == "folder":
            root.rename(tmp_path / "gone")
            root.symlink_to(other)
        elif moves == "root":
            root.parent.rename(tmp_path / "gone")
            root.parent.symlink_to(other.parent)
        else:
            (root / "calc.py").unlink()
            if moves == "file":
                (root / "calc.py").symlink_to(kept)
            elif moves == "twin":
                (root / "calc.py").hardlink_to(kept)
        return SimpleNamespace(failure=None)

    monkeypatch.setattr(programs, "verify", run_tests)
    tree: Any = SimpleNamespace(root=root.parent, texts=lambda *_: [("src/calc.py", "", "x = a + b\n")])
    tool: Any = SimpleNamespace(tool="pytest")
    changes: Any = SimpleNamespace(tree="t")
    run: Any = None

    assert Sampling(tree, [tool], run).find_survivors(changes, 1) == []
    assert kept.read_text() == "the operator's own"
