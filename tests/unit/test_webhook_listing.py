"""What a goal of a webhook is told about the files of its commit."""

from __future__ import annotations

from typing import Any

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
