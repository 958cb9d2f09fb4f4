"""Files that no iteration may touch, however they are written."""

from __future__ import annotations

import time

import pytest

from tasks.strategies.gap_report.constraints import Protection
from tasks.strategies.gap_report.places import PROTECTED
from tasks.text.patterns import MAX_GLOB_WORK
from tests.support.kinds.gap_report import a_gap, a_goal, answered, codes, planned, targets

SEED = Protection.of(PROTECTED)


@pytest.mark.parametrize(
    "path",
    [
        *("seed.py", "./seed.py", "SEED.PY", "a/../seed.py", "//seed.py", " seed.py", "\uff53eed.py", ".\\seed.py"),
        *("VISION.md", "vision.md", "kernel", "kernel/", "kernel/x.py", "Kernel/a/b.py", "a/../kernel/x", "./kernel/x"),
        *("roadmap/v0.1.md", "roadmap", "../kernel/x.py"),
    ],
)
def test_the_seeds_files_are_protected_in_every_spelling(path: str) -> None:
    assert SEED.covers(path)


@pytest.mark.parametrize(
    "path", ["src/seed.py", "seed.pyi", "kernels/x.py", "src/kernel/x.py", "ROADMAP.md", "docs/VISION.md", "a", ""]
)
def test_others_are_free(path: str) -> None:
    assert not SEED.covers(path)


@pytest.mark.parametrize(
    ("protected", "path", "covered"),
    [
        ("infra", "infra/main.tf", True),
        ("infra/", "infra", True),
        ("./infra/", "Infra/x", True),
        ("src/**/*.lock", "src/a/b.lock", True),
        ("src/*.lock", "src/a/b.lock", False),
        ("app/[id]/*.ts", "app/[id]/page.ts", True),
        ("infra", "infrared/x", False),
        ("secrets*", "secrets-of-prod/x.py", True),
        ("src/*/generated", "src/a/generated/x.py", True),
        ("src/*/generated", "src/a/b/generated/x.py", False),
        ("src/**", "src", True),
        ("**/generated", "src/a/b/generated/x/y.py", True),
        ("**/generated", "src/a/b/generate/x/y.py", False),
        (".", "anything", False),
        ("", "anything", False),
    ],
)
def test_a_goal_can_protect_more(protected: str, path: str, *, covered: bool) -> None:
    assert Protection.of([protected]).covers(path) is covered


@pytest.mark.parametrize(
    "description",
    [
        "Create seed.py",
        "Implement kernel/loop.py",
        "Rewrite ./VISION.md",
        "Create roadmap/v0.2.md",
        "Change kernel/Makefile",
    ],
)
def test_an_action_on_a_protected_file_is_removed(description: str) -> None:
    allowed = ["seed.py", "kernel/loop.py", "VISION.md", "roadmap/v0.2.md", "src/a.py"]
    made = answered(a_goal(a_gap(description), allowed=allowed))

    assert getattr(made, "reason", None) == "all_protected"


def test_the_whole_action_goes_if_one_of_its_files_is_protected() -> None:
    evidence = "src/a.py:1:1: F401 x\nseed.py:1:1: F401 x\n"
    gaps = a_gap("Quality check failed: ruff", "quality", evidence=evidence), a_gap("Create src/b.py")

    assert planned(a_goal(*gaps, allowed=["src/a.py", "src/b.py", "seed.py"])).gap.description == "Create src/b.py"


def test_of_several_actions_the_free_ones_stay() -> None:
    goal = a_goal(
        a_gap("Implement src/a.py and src/b.py"),
        allowed=["src/a.py", "src/b.py"],
        files=["src/a.py"],
        protected_paths=["src/a.py"],
    )

    assert targets(goal) == [("create", ("src/b.py",))]


def test_a_gap_without_files_keeps_off_the_protected_ones() -> None:
    goal = a_goal(a_gap("Make it nicer"), allowed=["seed.py", "src/a.py"])

    assert planned(goal).actions[0].target_files == ()
    assert getattr(answered(a_goal(a_gap("Make it nicer"), allowed=["seed.py"])), "reason", None) == "all_protected"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the paths that somebody asks about."""
    told: list[str] = []
    covers = Protection.covers

    def listening(self: Protection, path: str) -> bool:
        told.append(path)
        return covers(self, path)

    monkeypatch.setattr(Protection, "covers", listening)
    return told


def test_what_is_protected_is_looked_for_once_however_many_gaps_are_passed_over(asked: list[str]) -> None:
    files = [f"src/m{number}.py" for number in range(50)]
    nameless = [a_gap(f"Make it nicer, {number}") for number in range(20)]

    made = answered(a_goal(*nameless, allowed=files, protected_paths=["src/m*.py"]))

    assert getattr(made, "reason", None) == "all_protected"
    assert len(asked) == len(files)


def test_gaps_that_name_their_files_do_not_ask_what_else_is_free(asked: list[str]) -> None:
    made = answered(a_goal(*(a_gap(f"Create kernel/m{number}.py") for number in range(20)), allowed=["src/a.py"]))

    assert getattr(made, "reason", None) == "all_protected"
    assert "src/a.py" not in asked


def test_too_many_globs_for_so_many_files_are_refused_before_anything_is_planned() -> None:
    globs = [f"src/x{number}/*" for number in range(500)]
    files = [f"src/m{number}.py" for number in range(MAX_GLOB_WORK // 500)]
    gap = a_gap("Change src/m0.py")

    assert codes(answered(a_goal(gap, allowed=files, protected_paths=globs))) == [
        ("/gap_report/protected_paths", "too_many_globs")
    ]
    assert targets(a_goal(gap, allowed=files[:-1], protected_paths=globs)) == [("modify", ("src/m0.py",))]


def test_too_many_globs_for_what_gaps_name_are_refused_and_fewer_are_read_once() -> None:
    globs = [f"src/x{number}/*" for number in range(1000)]
    gaps = [a_gap(f"Change other/m{number}.py", evidence="see other/m0.py") for number in range(MAX_GLOB_WORK // 1000)]
    began = time.process_time()

    assert codes(answered(a_goal(*gaps, a_gap("Change other/n.py"), allowed=globs, files=["src/a.py"]))) == [
        ("/allowed_files", "too_many_globs")
    ]
    assert codes(answered(a_goal(*gaps, allowed=globs, files=["src/a.py"]))) == [("/allowed_files", "no_allowed_files")]
    assert time.process_time() - began < 5
