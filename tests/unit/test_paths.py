"""Paths of an allowlist: what is refused, what is not, and how globs are expanded."""

from __future__ import annotations

import pytest

from tasks.planning.paths import MAX_GLOB_WORK, clean, expand_globs, fault

LISTING = (
    "src/a.py",
    "src/deep/b.py",
    "src/deep/er/c.py",
    "src/.env",
    "tests/test_a.py",
    "README.md",
    "pages/[id].tsx",
)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("controller.py", "forbidden_path"),
        ("src/Controller.PY", "forbidden_path"),
        ("src/controller_adapter.py", "forbidden_path"),
        ("sandbox.py", "forbidden_path"),
        ("safety.py", "forbidden_path"),
        ("governance/rules.py", "forbidden_path"),
        ("./.env", "forbidden_path"),
        (".ENV", "forbidden_path"),
        (".env.production", "forbidden_path"),
        ("a/secrets/b.txt", "forbidden_path"),
        ("Secrets. /b.txt", "forbidden_path"),
        ("secrets./b.txt", "forbidden_path"),
        ("credentials.json", "forbidden_path"),
        (".git/config", "forbidden_path"),
        (".git", "forbidden_path"),
        (".git::$INDEX_ALLOCATION/config", "forbidden_path"),
        ("GIT~1/config", "forbidden_path"),
        (".ssh/config", "forbidden_path"),
        ("keys/id_rsa", "forbidden_path"),
        ("keys/id_rsa.pub", "forbidden_path"),
        ("a/__pycache__/b.pyc", "forbidden_path"),
        ("\uff53ecrets/a", "forbidden_path"),  # full-width s
        ("src\uff0fsecrets\uff0fa", "forbidden_path"),  # full-width slashes
        ("../a.py", "path_traversal"),
        ("src/../../a.py", "path_traversal"),
        ("src/.. /a.py", "path_traversal"),
        ("\uff0e\uff0e/a.py", "path_traversal"),
        ("..\\a.py", "path_traversal"),
        ("src\\a.py", "backslash"),
        ("/etc/passwd", "absolute_path"),
        ("\\\\server\\share", "absolute_path"),
        ("C:/a.py", "absolute_path"),
        ("c:a.py", "absolute_path"),
        ("~/a.py", "absolute_path"),
        ("a\x00.py", "control_character"),
        ("a\n.py", "control_character"),
        ("a\u202epy.txt", "control_character"),  # right-to-left override
        (".g\u200bit/config", "control_character"),  # zero-width space
        ("src/", "directory"),
        (".", "directory"),
        ("src/*", "wildcard"),
    ],
)
def test_a_path_is_refused(path: str, code: str) -> None:
    found = fault(path)

    assert found is not None
    assert found.code == code
    assert found.message.endswith(".")


@pytest.mark.parametrize(
    "path",
    [
        "my_controller.py",
        "docs/safety.md",
        "docs/governance.md",
        "src/environment.py",
        "secretsanta.py",
        ".github/ci.yml",
        ".gitignore",
        "a b.py",
        "pages/[id].tsx",
        "src/é.py",
        "...a/b",
        "src/envs/x.py",
        "sandbox/x.py",
    ],
)
def test_a_path_is_fine(path: str) -> None:
    assert fault(path) is None


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("./src//a.py", "src/a.py"), ("src/./a.py", "src/a.py"), ("/a", "/a"), ("//a", "/a"), ("a.", "a.")],
)
def test_a_path_is_cleaned_of_what_means_nothing(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("src/*.py", ("src/a.py",)),
        ("src/**", ("src/a.py", "src/deep/b.py", "src/deep/er/c.py")),
        ("src/**/*.py", ("src/a.py", "src/deep/b.py", "src/deep/er/c.py")),
        ("**/c.py", ("src/deep/er/c.py",)),
        ("src/**/er/*", ("src/deep/er/c.py",)),
        ("*.md", ("README.md",)),
        ("./tests/test_?.py", ("tests/test_a.py",)),
        ("pages/[id].*", ("pages/[id].tsx",)),
        ("nothing/**", ()),
    ],
)
def test_a_glob_is_expanded_against_the_listing(glob: str, files: tuple[str, ...]) -> None:
    assert expand_globs([glob], LISTING) == expand_globs(files, ())


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("*", "root_wide_glob"),
        ("**", "root_wide_glob"),
        ("**/*", "root_wide_glob"),
        ("./**", "root_wide_glob"),
        ("*/*", "root_wide_glob"),
        ("/", "absolute_path"),
        ("/**", "root_wide_glob"),
        ("/etc/*", "absolute_path"),
        ("../*", "path_traversal"),
        (".git/*", "forbidden_path"),
        ("secrets/**", "forbidden_path"),
    ],
)
def test_a_pattern_is_refused_with_its_place(pattern: str, code: str) -> None:
    expanded = expand_globs(["src/a.py", pattern], LISTING)

    assert expanded.files == ("src/a.py",)
    assert [(error.pointer, error.code) for error in expanded.errors] == [("/allowed_files/1", code)]


def test_a_glob_without_a_listing_is_refused() -> None:
    (error,) = expand_globs(["src/*.py"], ()).errors

    assert error.code == "glob_without_listing"
    assert "context.files" in error.message


def test_globs_that_would_take_too_long_are_refused() -> None:
    (error,) = expand_globs(["src/*"], ["a"] * (MAX_GLOB_WORK + 1)).errors

    assert error.code == "too_many_globs"


def test_the_same_file_is_allowed_once() -> None:
    assert expand_globs(["src/a.py", "./src/a.py", "src/*.py"], LISTING).files == ("src/a.py",)
