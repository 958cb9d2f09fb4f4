"""What a pattern means, and how soon it is known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from tasks.rules.permission import Allowlist, is_meant_by_patterns
from tasks.text.forbidden_paths import JUDGED
from tasks.text.patterns import MAX_BYTES, are_apart, literal_folder, matches, pattern_fault
from tasks.toolchain.files import configures_verification, instructs_agents

CASES: list[dict[str, Any]] = codec.loads((Path(__file__).parents[2] / "docs/schemas/patterns.json").read_bytes())
DEEP = "d/" * 130  # longer patterns are matched in another way
LONG_PART = "a" * 2048
HOSTILE = [
    ("*a" * 2047 + "b", "a" * MAX_BYTES),
    (f"*{'a' * 2000}b*", "a" * MAX_BYTES),
    (f"*{'?' * 2000}b*", "a" * MAX_BYTES),
    ("**/" + "*a/" * 1000 + "b", "a/" * 2047 + "a"),
    ("**/*a/" * 600 + "**/b", "a/" * 2047 + "a"),
    ("**/" + "/".join([f"*{'a' * 30}b*"] * 110), "/".join(["a" * 63] * 64)),
    ("**/*a*a*b/" * 20 + "x", "/".join(["a" * 63] * 64)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['pattern']}-{case['path']}")
@pytest.mark.parametrize("folder", ["", DEEP], ids=["short", "long"])
def test_a_pattern_means_what_its_published_case_says(case: dict[str, Any], folder: str) -> None:
    assert matches(folder + case["pattern"], folder + case["path"]) is case["matches"]


def test_other_languages_get_at_least_thirty_cases() -> None:
    assert len({(case["pattern"], case["path"]) for case in CASES}) >= 30
    assert all(case["why"] for case in CASES)


@pytest.mark.parametrize(("pattern", "path"), HOSTILE)
def test_a_hostile_pattern_of_4_kb_takes_milliseconds(pattern: str, path: str) -> None:
    assert matches(pattern, "x") is False  # what is kept of a pattern is made once
    took = []
    for _ in range(3):
        began = time.perf_counter()
        assert matches(pattern, path) is False
        took.append(time.perf_counter() - began)
    assert min(took) < 0.05


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [
        ("src/auth.py", "src"),
        ("src/**", "src"),
        ("src/a*.py", "src"),
        ("src/api/?/x", "src/api"),
        ("app/[id]/**", "app/[id]"),
        ("**/*.po", ""),
        ("*.md", ""),
        ("README.md", ""),
        ("./src/**", "src"),
    ],
)
def test_the_literal_folder_of_a_pattern_is_before_its_first_wildcard(pattern: str, folder: str) -> None:
    assert literal_folder(pattern) == folder


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [("src", "tests", True), ("src", "src2", True), ("src", "src/api", False), ("src", "src", False), ("", "a", False)],
)
def test_folders_are_apart_if_no_path_lies_in_both(first: str, second: str, apart: bool) -> None:
    assert are_apart(first, second) is apart
    assert are_apart(second, first) is apart


@pytest.mark.parametrize("pattern", ["src/auth.py", "src/**", "app/[id]/*.tsx", "**/*.po", "a" * 255 + "/**"])
def test_nothing_is_wrong_with_a_pattern_that_names_a_folder_or_a_kind(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("src/", "directory"),
        ("src/*/", "directory"),
        ("**", "root_wide_glob"),
        ("*/**/?", "root_wide_glob"),
        ("/src/**", "absolute_path"),
        ("src/../**", "path_traversal"),
        ("secrets/**", "forbidden_path"),
        ("a*/" * 1366, "pattern_too_long"),
        ("ä" * 2049, "pattern_too_long"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_named(pattern: str, code: str) -> None:
    found = pattern_fault(pattern)
    assert found is not None
    assert found.code == code


def test_a_folder_is_told_how_it_is_written() -> None:
    found = pattern_fault("src/")
    assert found is not None
    assert "src/**" in found.message


@pytest.mark.parametrize(
    "path",
    [
        *("conftest.py", "tests/unit/conftest.py", "pytest.ini", "setup.cfg", "tox.ini", "noxfile.py", ".coveragerc"),
        *("setup.py", "requirements.txt", "api/requirements-dev.txt", "Pipfile"),
        *("src/evil.pth", "sitecustomize.py", "lib/sitecustomize.py", "pyproject.toml", "uv.lock"),
        *("jest.config.ts", "vitest.config.mts", "babel.config.js", "web/eslint.config.mjs", ".mocharc.yml"),
        *("tsconfig.json", "tsconfig.build.json", "package.json", "web/package-lock.json", "yarn.lock"),
        *("build.rs", "crates/a/build.rs", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml", "Cargo.lock"),
        *("go.mod", "go.sum", "Makefile", "docs/Makefile", "makefile", ".gitattributes", ".gitmodules"),
        *(".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml", "CMakeLists.txt"),
        *("src/Conftest.PY",),
    ],
)
def test_files_that_configure_a_verification_are_known(path: str) -> None:
    assert configures_verification(path)


@pytest.mark.parametrize(
    ("path", "is_theirs"),
    [
        *((each, True) for each in ("AGENTS.md", "web/claude.md", "CLAUDE.local.md", ".claude/settings.json")),
        *((each, True) for each in (".mcp.json", "web/.codex/config.toml")),
        *((each, False) for each in ("docs/agents.md.txt", "MYAGENTS.md", "src/claude/api.py", "mcp.json")),
    ],
)
def test_no_pattern_means_what_instructs_agents(path: str, is_theirs: bool) -> None:
    assert instructs_agents(path) is is_theirs
    assert is_meant_by_patterns(path) is not is_theirs
    assert (path in Allowlist.of(["**"], JUDGED)) is not is_theirs
    assert path in Allowlist.of([path], JUDGED)


@pytest.mark.parametrize(
    "path",
    [
        *("src/auth.py", "tests/test_conftest.py", "src/conftest/helpers.py", "docs/pytest.ini.md", "src/config.ts"),
        *("src/requirements.py", "docs/requirements.md", "src/setup_cart.py"),
        *("src/build_rs.rs", "cargo/config.toml", "src/package.json.py", ".github/ISSUE_TEMPLATE.md", "locale/de.po"),
    ],
)
def test_other_files_do_not(path: str) -> None:
    assert not configures_verification(path)
