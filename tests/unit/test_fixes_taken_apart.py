"""How `tests.real` takes a fix apart: its tests fail without its sources, and its agent may change these alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.agent import matches
from tests.real.fix import CannotPlay, Fix, read_fixes
from tests.real.history import check_out_before, globs_of, take_apart
from tests.support.committing import commit, git

RUST = "pub fn half(n: u32) -> u32 {{\n    n / {0}\n}}\n\n#[cfg(test)]\nmod tests {{\n    {1}\n}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def test_the_state_before_has_the_tests_of_the_fix_and_the_sources_of_its_parent(project: Path, tmp_path: Path) -> None:
    commit(project, {"src/a.py": "old", "src/gone.py": "gone", "tests/test_a.py": "old", "CHANGES.md": "old"})
    after = {"src/a.py": "new", "src/b.py": "new", "src/gone.py": None, "tests/test_a.py": "new", "CHANGES.md": "new"}
    fix = Fix(project, commit(project, after), "python")

    parts = take_apart(fix)
    check_out_before(fix, parts, tmp_path / "before")

    assert set(parts.sources) == {"src/a.py", "src/b.py", "src/gone.py"}
    assert parts.sources["src/gone.py"].content is None
    assert set(parts.tests) == {"tests/test_a.py"}
    assert parts.others == ("CHANGES.md",)
    before = {path: (tmp_path / "before" / path).read_text() for path in ("src/a.py", "src/gone.py", "tests/test_a.py")}
    assert before == {"src/a.py": "old", "src/gone.py": "gone", "tests/test_a.py": "new"}
    assert not (tmp_path / "before/src/b.py").exists()
    assert git(tmp_path / "before", "status", "--porcelain") == ""


def test_tests_at_the_end_of_a_rust_source_are_in_the_state_before(project: Path, tmp_path: Path) -> None:
    commit(project, {"src/lib.rs": RUST.format(3, "// none")})
    fix = Fix(project, commit(project, {"src/lib.rs": RUST.format(2, "// halves")}), "rust")

    check_out_before(fix, take_apart(fix), tmp_path / "before")

    assert (tmp_path / "before/src/lib.rs").read_text() == RUST.format(3, "// halves")


@pytest.mark.parametrize(
    ("source", "test", "globs"),
    [
        ("src/shop/a.py", "tests/test_a.py", ("src/**", "tests/**")),
        ("shop/a.py", "shop/tests/test_a.py", ("shop/**",)),
        ("a.go", "a_test.go", ("*.go",)),
    ],
)
def test_the_folders_of_a_fix_are_the_globs_of_its_goal(
    project: Path, source: str, test: str, globs: tuple[str, ...]
) -> None:
    commit(project, {"README.md": ""})
    fix = Fix(project, commit(project, {source: "new", test: "new"}), "go" if source.endswith(".go") else "python")

    assert globs_of(take_apart(fix)) == globs


@pytest.mark.parametrize(
    ("files", "why"),
    [({"src/a.py": "new"}, "changes no test"), ({"tests/test_a.py": "new"}, "changes no source")],
)
def test_a_fix_without_sources_or_without_tests_cannot_be_played(
    project: Path, files: dict[str, str | None], why: str
) -> None:
    commit(project, {"README.md": ""})

    with pytest.raises(CannotPlay, match=why):
        take_apart(Fix(project, commit(project, files), "python"))


def test_the_first_commit_of_a_history_cannot_be_played(project: Path) -> None:
    first = commit(project, {"src/a.py": "", "tests/test_a.py": ""})

    with pytest.raises(CannotPlay, match="no state before"):
        take_apart(Fix(project, first, "python"))


@pytest.mark.parametrize(
    ("pattern", "path", "does"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/**/b.py", "src/b.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/?.py", "src/a.py", True),
        ("app/[id]/*.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/*.tsx", "app/i/page.tsx", False),
        ("src/**", "src/.hidden/a.py", True),
        ("SRC/**", "src/a.py", False),
    ],
)
def test_the_agent_reads_patterns_as_the_wire_has_them(pattern: str, path: str, does: bool) -> None:
    assert matches(pattern, path) is does


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table"),
        ("[[fix]]\nrepository = 'a/b'\n", "lacks commit, language"),
        ("[[fix]]\nrepository = 'a/b'\ncommit = 'c'\nlanguage = 'cobol'\n", "no language of the planner"),
        ("[[fix]]\nrepository = 'a/b'\ncommit = 'c'\nlanguage = 'go'\nsteup = ''\n", "has steup"),
        ("fix = [", "cannot be read"),
    ],
)
def test_the_first_mistake_of_a_list_is_said(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "fixes.toml").write_text(text)

    with pytest.raises(CannotPlay, match=why):
        read_fixes(tmp_path / "fixes.toml")


def test_the_fixes_of_the_list_name_a_repository_a_commit_and_globs() -> None:
    fixes = read_fixes(Path(__file__).parents[1] / "real/fixes.toml", Path("clones"))

    assert len({fix.title for fix in fixes}) == len(fixes) >= 10
    assert all(fix.files and len(fix.commit) >= 10 for fix in fixes)
