"""The checkout that a drafter works in, of real repositories."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

import pytest

from tests.support.controlling import Repo
from worker.drafters.checkout import check_out

COMMIT = ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet")


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    """Make a repository of two commits."""
    repo = Repo(tmp_path / "shop")
    repo.git(*COMMIT, "--allow-empty", "-m", "Later")
    return repo


def history(tree: Path) -> list[str]:
    return Repo.at(tree).git("log", "--format=%s").splitlines()


def test_a_checkout_of_a_shallow_clone_has_the_history_that_the_clone_has(shop: Repo, tmp_path: Path) -> None:
    shop.git(*COMMIT, "--allow-empty", "-m", "Last")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=2", f"file://{shop.path}", str(clone)], check=True)

    tree = check_out(clone, Repo.at(clone).git("rev-parse", "HEAD"), tmp_path / "tree")

    assert tree == tmp_path / "tree"
    assert history(tree) == history(clone) == ["Last", "Later"]


def test_a_checkout_has_the_object_format_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    shop = Repo.at(tmp_path / "shop")
    shop.git("init", "--quiet", "--object-format=sha256")
    shop.git(*COMMIT, "--allow-empty", "-m", "Begin")

    tree = check_out(shop.path, shop.git("rev-parse", "HEAD"), tmp_path / "tree")

    assert tree == tmp_path / "tree"
    assert history(tree) == ["Begin"]


def test_a_commit_may_be_written_in_capitals(shop: Repo, tmp_path: Path) -> None:
    tree = check_out(shop.path, shop.git("rev-parse", "HEAD~1").upper(), tmp_path / "tree")

    assert tree == tmp_path / "tree"
    assert history(tree) == ["Begin"]


@pytest.mark.parametrize(("base", "logged"), [("main", 1), ("HEAD~1", 1), ("0" * 40, 1), ("--all", 1), (None, 0)])
def test_each_draft_that_is_not_at_its_base_is_logged(
    base: str | None, logged: int, shop: Repo, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "planner.drafters"):
        assert check_out(shop.path, base, tmp_path / "tree") == shop.path

    assert [record.message for record in caplog.records] == ["draft not at its base"] * logged
