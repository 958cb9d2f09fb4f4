"""The facts of git in a pull request: files, labels, reviewers, and a title as the repository writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.controlling import Repo
from worker.controller.change_text import changed_files, describe_files, labels_of, owners_of, title_by_convention
from worker.host.git import Git

OWNERS = """\
* @acme/everyone
/src/ @alice  # the shop
*.md @bob docs@example.com
/src/vendor/* @carol
/src/free.py
"""


def commit(repo: Repo, path: str, text: str, message: str = "t") -> str:
    made = repo.commit_on("main", path, text, message)
    repo.git("update-ref", "refs/heads/main", made)
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "shop")


def test_files_have_their_lines_and_their_risk_with_its_reason(repo: Repo) -> None:
    begin = repo.git("rev-parse", "main")
    commit(repo, "calc.py", "def add(a, b):\n    return a + b\n")
    tip = commit(repo, ".github/workflows/ci.yml", "on: push\n")
    files = changed_files(Git(repo.path), begin, tip)

    text = describe_files(files)

    assert text.splitlines()[2:] == [
        "- `.github/workflows/ci.yml` +1 \u22120, risk HIGH: it configures CI",
        "- `calc.py` +1 \u22121",
    ]
    assert labels_of(files, ["integrity:skip"]) == ["planner", "risk:high", "integrity:skip"]


@pytest.mark.parametrize(
    ("subjects", "title", "written"),
    [
        (["feat(cart): add a coupon", "fix: round totals"], "Fix the total.", "fix: the total"),
        (["feat: Add a coupon", "Fix: Round totals"], "Add HTTP caching", "feat: Add HTTP caching"),
        (["feat: add a coupon", "chore: tidy"], "docs: say it", "docs: say it"),
        (["Add a coupon", "Round totals"], "Fix the total.", "Fix the total"),
        (["add a coupon", "round totals"], "Fix the total", "fix the total"),
        (["add a coupon", "round totals"], "HTTP caching", "HTTP caching"),
    ],
)
def test_a_title_is_written_as_the_last_commits_are(repo: Repo, subjects: list[str], title: str, written: str) -> None:
    begin = repo.git("rev-parse", "main")
    for number in range(3):
        for subject in subjects:
            commit(repo, "words.py", f"{number}{subject}\n", subject)
    tip = commit(repo, "calc.py", "1\n", subjects[0])

    assert title_by_convention(Git(repo.path), "main", title, changed_files(Git(repo.path), begin, tip)) == written


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("src/app.py", ["alice"]),
        ("src/deep/app.py", ["alice"]),
        ("src/README.md", ["bob"]),
        ("src/vendor/a.js", ["carol"]),
        ("src/vendor/deep/a.js", ["alice"]),
        ("src/free.py", []),
        ("Makefile", ["acme/everyone"]),
    ],
)
def test_the_last_pattern_of_codeowners_that_has_a_file_names_its_reviewers(
    repo: Repo, path: str, owners: list[str]
) -> None:
    begin = commit(repo, ".github/CODEOWNERS", OWNERS)
    tip = commit(repo, path, "1\n")
    git = Git(repo.path)

    assert owners_of(git, begin, changed_files(git, begin, tip)) == owners
