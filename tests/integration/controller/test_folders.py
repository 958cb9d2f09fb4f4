"""Verifications that run below the root: where they run, what their receipts tell, and folders that are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.controlling import Planner, Repo, evidence

FILES = {
    "backend/shop/__init__.py": "",
    "backend/shop/basket.py": "def total(prices):\n    return sum(prices) - 1\n",
    "backend/tests/test_basket.py": (
        "from pathlib import Path\n\nfrom shop.basket import total\n\n\n"
        "def test_sum():\n    assert total([1, 2]) == 3\n\n\n"
        "def test_reads_the_rest():\n    assert (Path(__file__).parents[2] / 'calc.py').read_text()\n"
    ),
    "other/test_other.py": "def test_other():\n    assert True\n",
}
FIX = "write('backend/shop/basket.py', 'def total(prices):\\n    return sum(prices)\\n')"
THERE = {
    "tool": "pytest", "argv": ["pytest", "-q", "--disable-plugin-autoload", "tests/test_basket.py"],
    "timeout_s": 60, "pass_codes": [0], "cwd": "backend",
}  # fmt: skip
BESIDE = {**THERE, "argv": [*THERE["argv"][:3], "test_other.py"], "cwd": "other"}  # type: ignore[index]


@pytest.fixture
def below(repo: Repo) -> Repo:
    """The repository with two projects below its root."""
    for name, text in FILES.items():
        (repo.path / name).parent.mkdir(parents=True, exist_ok=True)
        (repo.path / name).write_text(text)
    repo.git("add", ".")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Add projects")
    return repo


def test_each_tool_runs_in_its_folder_and_its_receipt_tells_that(
    planner: Planner, below: Repo, start: Callable[..., None]
) -> None:
    planner.send(
        "fix",
        intent=FIX,
        requires=["cwd"],
        allowed_files=["backend/shop/basket.py"],
        verify_tools=[THERE, BESIDE],
    )
    start()

    outcome = planner.outcome("fix")

    assert outcome.success, outcome.failure_evidence
    assert [(each.tool, each.exit_code, each.cwd) for each in outcome.verify or ()] == [
        ("pytest", 0, "backend"),
        ("pytest", 0, "other"),
    ]
    assert below.landed() == ["backend/shop/basket.py"]


def test_failing_tests_are_named_from_the_root(planner: Planner, below: Repo, start: Callable[..., None]) -> None:
    planner.send("check", mode="test", requires=["cwd"], verify_tools=[THERE])
    start()

    outcome = planner.outcome("check")

    assert not outcome.success
    assert outcome.failing_tests == ("backend/tests/test_basket.py::test_sum",)
    assert outcome.failing_tests_complete
    assert evidence(outcome).top_failing_tests == ("backend/tests/test_basket.py::test_sum",)
    assert "backend/tests/test_basket.py" in evidence(outcome).affected_files


@pytest.mark.parametrize("target", ["/", "../.."])
def test_a_folder_that_leads_out_of_the_clone_is_refused(
    target: str, planner: Planner, below: Repo, start: Callable[..., None]
) -> None:
    (below.path / "away").symlink_to(target)
    below.git("add", ".")
    below.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Link")
    planner.send("check", mode="test", requires=["cwd"], verify_tools=[{**THERE, "cwd": "away"}])
    start()

    outcome = planner.outcome("check")

    assert not outcome.success
    assert not outcome.verify
    assert evidence(outcome).category == "SANDBOX_VIOLATION"


@pytest.mark.parametrize("folder", ["..", "backend/../..", "/", "gone"])
def test_a_folder_that_is_none_of_the_repository_runs_nothing(
    folder: str, planner: Planner, below: Repo, start: Callable[..., None]
) -> None:
    """Planners send none of these; whoever fills the queue may."""
    planner.send("check", mode="test", requires=["cwd"], verify_tools=[{**THERE, "cwd": folder}])
    start()

    outcome = planner.outcome("check")

    assert not outcome.success
    assert not outcome.verify


def test_an_agent_that_puts_a_link_in_the_place_of_the_folder_gains_nothing(
    planner: Planner, below: Repo, start: Callable[..., None]
) -> None:
    moved = "import shutil; shutil.rmtree('backend'); os.symlink('/tmp', 'backend')"
    planner.send("fix", intent=moved, requires=["cwd"], allowed_files=["backend/shop/basket.py"], verify_tools=[THERE])
    start()

    outcome = planner.outcome("fix")

    assert not outcome.success
    assert not outcome.verify
    assert below.landed() == []
