"""What a goal of a webhook is told about the files of its commit."""

from __future__ import annotations

from typing import Any

from schemas import codec
from worker.sources.goal_files import MAX_FILES
from worker.webhooks.listing import with_files

GOAL: dict[str, Any] = {"goal": "Fix it", "allowed_files": ["src/**"], "context": {"repo": "acme/shop"}}
FILES = ["README.md", "src/cart.py", "tests/test_cart.py"]


def test_a_listing_that_has_every_file_of_the_commit_is_whole() -> None:
    context = with_files(GOAL, FILES, are_all=True)["context"]

    assert set(context["files"]) == set(FILES)
    assert context["files_complete"] is True


def test_a_listing_that_is_cut_or_from_elsewhere_is_not_whole() -> None:
    many = [*FILES, *(f"docs/{number}-{'x' * 200}.md" for number in range(2000))]

    assert "files_complete" not in with_files(GOAL, many, are_all=True)["context"]
    assert "files_complete" not in with_files(GOAL, FILES)["context"]


def test_a_goal_whose_globs_mean_more_than_it_can_list_has_those_that_it_names_and_as_many_as_fit() -> None:
    meant = [f"src/{number}-{'x' * 200}.py" for number in range(2000)]
    goal = {**GOAL, "goal": "Fix src/last.py", "allowed_files": ["src/**", "tests/test_cart.py"]}

    context = with_files(goal, [*FILES, *meant, "src/last.py"], are_all=True)["context"]

    assert context["files"][:4] == ["tests/test_cart.py", "src/last.py", "src/cart.py", meant[0]]
    assert MAX_FILES * 0.95 < len(codec.dumps(context["files"])) <= MAX_FILES
    assert "files_complete" not in context
