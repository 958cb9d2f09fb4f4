"""Paths of an allowlist: what is refused, what is not, and how globs are expanded."""

from __future__ import annotations

import pytest

from tasks.text.forbidden_paths import FORBIDDEN_NAMES, forbid, wrong_name
from tasks.text.paths import TABOO, clean, fault
from tasks.text.patterns import MAX_GLOB_WORK, Expanded, expand_globs

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
        (".npmrc", "forbidden_path"),
        ("packages/a/.NpmRc", "forbidden_path"),
        (".npmrc. ", "forbidden_path"),
        ("home/.netrc", "forbidden_path"),
        ("certs/server.key", "forbidden_path"),
        ("certs/server.PEM::$DATA", "forbidden_path"),
        (".kube/config", "forbidden_path"),
        (".SSH/authorized_keys", "forbidden_path"),
        (".Git/hooks/pre-commit", "forbidden_path"),
        (".aws/config", "forbidden_path"),
        ("worker/safety/rules.py", "forbidden_path"),
        (".envrc", "forbidden_path"),
        (".pypirc", "forbidden_path"),
        (".git-credentials", "forbidden_path"),
        ("home/.docker/config.json", "forbidden_path"),
        ("-rf", "forbidden_path"),
        ("src/-c.py", "forbidden_path"),
        ("\uff0drf", "forbidden_path"),  # full-width hyphen
        ("src/NUL", "forbidden_path"),
        ("com1", "forbidden_path"),
        ("aux.", "forbidden_path"),
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
        ("a\ufe0f.py", "control_character"),  # variation selector
        ("a\U000e0100.py", "control_character"),
        ("a\u034f.py", "control_character"),  # grapheme joiner
        ("\u3164.py", "control_character"),  # Hangul filler
        ("a\u115f.py", "control_character"),
        ("a\u2066b\u2069.py", "control_character"),  # isolates
        ("a\u180e.py", "control_character"),
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
        "safety",
        ".docker/Dockerfile",
        "docs/kube/config",
        "src/aux.c",
        "src/console.py",
        "src/keys.py",
        "pem.py",
        "a-b.py",
        "home/.kube",
    ],
)
def test_a_path_is_fine(path: str) -> None:
    assert fault(path) is None


OURS = forbid((*FORBIDDEN_NAMES, "*.tfvars", "infra/prod/", "deploy-?.sh"))


@pytest.mark.parametrize("path", ["a/x.TFVARS", "infra/prod/main.tf", "x/infra/prod/y", "deploy-1.sh", ".env"])
def test_an_operator_adds_names(path: str) -> None:
    assert fault(path, OURS) == TABOO


@pytest.mark.parametrize("path", ["x.tfvars.md", "infra/production/x", "prod/infra/x", "deploy-10.sh", "infra/prod"])
def test_an_added_name_forbids_nothing_else(path: str) -> None:
    assert fault(path, OURS) is None


def test_an_operator_replaces_the_names_but_version_control_stays_forbidden() -> None:
    only = forbid(("*.tfvars",))

    assert [fault(path, only) for path in (".npmrc", "tests/a.pem", ".env.example")] == [None] * 3
    assert fault("x.tfvars", only) == fault(".git/config", only) == fault("GIT~1/config", only) == TABOO
    assert fault("../x", only) != TABOO


@pytest.mark.parametrize(
    ("name", "fine"), [("*.tfvars", True), ("a/b/", True), ("/etc", False), ("", False), ("*", False)]
)
def test_a_name_that_could_not_be_meant_is_told(name: str, fine: bool) -> None:
    assert (wrong_name(name) is None) is fine


def test_a_glob_reaches_no_forbidden_file() -> None:
    listing = ("src/a.py", "src/b.pem", "src/.npmrc", "src/-x", "src/c\ufe0f.py")

    assert expand_globs(["src/*"], listing).files == ("src/a.py",)
    assert expand_globs(["src/*"], listing, forbidden=forbid(())).files == (
        "src/a.py",
        "src/b.pem",
        "src/.npmrc",
        "src/-x",
    )
    assert [error.code for error in expand_globs(["safety/**", "*.pem"], listing).errors] == ["forbidden_path"] * 2


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


def test_a_glob_needs_no_listing() -> None:
    assert expand_globs(["src/*.py"], ()) == Expanded((), ())


def test_globs_that_would_take_too_long_are_refused() -> None:
    (error,) = expand_globs(["src/*"], ["a"] * (MAX_GLOB_WORK + 1)).errors

    assert error.code == "too_many_globs"


def test_the_same_file_is_allowed_once() -> None:
    assert expand_globs(["src/a.py", "./src/a.py", "src/*.py"], LISTING).files == ("src/a.py",)
