"""Finds the purpose of files by their names: sources, tests, documents, manifests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

from tasks.text.patterns import matcher
from tasks.toolchain.language import Language
from tasks.toolchain.languages import MANIFESTS, TOOLCHAINS

_REQUIREMENTS = re.compile(r"requirements[\w.-]*\.(?:txt|in)")
_INSTALLING = re.compile(  # in addition to manifests: lock files, and files that choose registries and versions
    r".*[.-]lock(?:\.\w+)?|.*\.sum|bun\.lockb|pnpm-workspace\.yaml|npm-shrinkwrap\.json|constraints[\w.-]*\.txt"
    r"|\.(?:npmrc|yarnrc(?:\.yml)?|nvmrc|(?:python|node|ruby)-version)"
)
_SURELY_TESTS = frozenset({"tests", "__tests__", "testdata"})
_TEST_FOLDERS = frozenset({*_SURELY_TESTS, "test", "spec", "specs"})
_BESIDE_SOURCES = frozenset({"__snapshots__", "__mocks__"})  # snapshots and mocks, also in folders of sources
SNAPSHOTS = (".snap", ".ambr", ".snapshot", ".golden", ".approved.txt")
_BESIDE_TESTS = frozenset({"conftest.py"})  # of tests, and without any
_RUN_WHOLE = re.compile(r"(?:.*/)?(?:__tests__/.+|tests/[^/]+\.rs)")  # runners run these files with any name
_TEST_NAMES = (r".*[._-](?:test|tests|spec)\.\w+", r".*Tests?\.\w+", *(each.test_names for each in TOOLCHAINS))
_TEST_NAME = re.compile("|".join(filter(None, _TEST_NAMES)))
_OF_TESTS = re.compile(r"^tests?_|[_-]?(?:tests?|spec)$")
_DOCUMENT = re.compile(r".*\.(?:md|rst|txt|adoc)|(?:README|CHANGELOG|CONTRIBUTING|LICENSE|NOTICE|AUTHORS)", re.I)

_CONFIGURATION = (  # for any language
    *("Makefile", "GNUmakefile", ".gitattributes", ".gitmodules", ".pre-commit-config.yaml"),
    *(".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", ".buildkite/**"),
    *(".travis.yml", "appveyor.yml", "bitbucket-pipelines.yml", "azure-pipelines*", "Jenkinsfile*", ".drone.yml"),
)
_FOLDED = tuple(
    each.casefold() for each in (*_CONFIGURATION, *(name for one in TOOLCHAINS for name in one.configuration))
)
# Files that agents of a repository read as instructions, settings, hooks and servers.
_FOR_AGENTS = matcher(
    tuple(
        f"**/{each}"
        for each in ("agents.md", "agents.*.md", "claude.md", "claude.*.md", ".mcp.json", ".claude/**", ".codex/**")
    )
)
_IS_NAME = matcher(tuple(each for each in _FOLDED if "/" not in each))
_IS_BELOW = matcher(tuple(f"**/{each}" for each in _FOLDED if "/" in each))


class Role(StrEnum):
    """The purpose of a file."""

    SOURCE = "source"
    TEST = "test"
    DOCUMENT = "document"
    MANIFEST = "manifest"


def name_of(path: str) -> str:
    """Return the last component of a path."""
    return path.rpartition("/")[2]


def stem_of(path: str) -> str:
    """Return the name of a file without its suffixes, in lower case."""
    return name_of(path).partition(".")[0].casefold()


def subject_of(test: str) -> str:
    """Return the subject of a file of tests, by its name in lower case: `cart` of test_cart.py and cart.spec.ts."""
    return _OF_TESTS.sub("", stem_of(test))


def is_for_tests(folder: str) -> bool:
    """Return whether a folder has a name for tests."""
    return folder in _TEST_FOLDERS or _OF_TESTS.search(folder) is not None


@lru_cache(maxsize=16384)
def role_of(path: str) -> Role:
    """Return the purpose of a file by its path alone."""
    *folders, name = path.split("/")
    if name in MANIFESTS or _REQUIREMENTS.fullmatch(name):
        return Role.MANIFEST
    if _DOCUMENT.fullmatch(name):
        return Role.DOCUMENT
    if _TEST_NAME.fullmatch(name) or not _TEST_FOLDERS.isdisjoint(folders):
        return Role.TEST
    return Role.SOURCE


def decides_installation(path: str) -> bool:
    """Return whether a file is a manifest or a lock file, which the setup of a project reads."""
    return role_of(path) is Role.MANIFEST or _INSTALLING.fullmatch(name_of(path)) is not None


def is_named_as_test(path: str) -> bool:
    """Return whether test runners collect a file because of its name; false for helpers next to tests: conftest.py."""
    name = name_of(path)
    is_named = _TEST_NAME.fullmatch(name) is not None and name not in _BESIDE_TESTS
    return is_named or _RUN_WHOLE.fullmatch(path) is not None


@lru_cache(maxsize=16384)
def configures_verification(path: str) -> bool:
    """Return whether a file configures a verification, in any folder and in any case of its letters.

    A step may change such a file only if its own name is in the allowlist.
    """
    folded = path.casefold()
    return _IS_NAME(name_of(folded)) or _IS_BELOW(folded)


@lru_cache(maxsize=16384)
def instructs_agents(path: str) -> bool:
    """Return whether agents read a file as instructions or settings, in any folder and any case."""
    return _FOR_AGENTS(path.casefold())


def is_allowed_by_name_alone(path: str) -> bool:
    """Return whether an allowlist must name this file, because it configures verifications or instructs agents.

    No pattern matches such a file.
    """
    return configures_verification(path) or instructs_agents(path)


def may_be_of_tests(path: str) -> bool:
    """Return whether a file belongs to tests, or configures a verification, in at least one possible tree of files."""
    *folders, name = path.split("/")
    is_beside = not (_TEST_FOLDERS | _BESIDE_SOURCES).isdisjoint(folders)
    return is_beside or _is_by_name(name) or configures_verification(path)


def tests_in(paths: Iterable[str]) -> Callable[[str], bool]:
    """Return a function: does a file belong to tests, or configure a verification, in a tree with these `paths`?

    Files in a folder `tests` belong to tests, and so do snapshots and mocks. Folders named `test`, `spec` or `specs`
    may contain sources. They belong to tests if a file below them is named as a test. A folder `test` also belongs to
    tests if it is at the root or next to a manifest.
    """
    known = tuple(paths)
    roots = {"", *(path.rpartition("/")[0] for path in known if name_of(path) in MANIFESTS)}
    named = {folder for path in known if _TEST_NAME.fullmatch(name_of(path)) for folder in _folders_above(path)}

    def is_folder_of_tests(folder: str) -> bool:
        above, _, name = folder.rpartition("/")
        return (
            name in _SURELY_TESTS
            or name in _BESIDE_SOURCES
            or (name in _TEST_FOLDERS and (folder in named or (name == "test" and above in roots)))
        )

    def is_of_tests(path: str) -> bool:
        if _is_by_name(name_of(path)) or configures_verification(path):
            return True
        return any(map(is_folder_of_tests, _folders_above(path)))

    return is_of_tests


def _is_by_name(name: str) -> bool:
    return _TEST_NAME.fullmatch(name) is not None or name.endswith(SNAPSHOTS)


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def configuration_of(language: Language | None) -> tuple[str, ...]:
    """Return the patterns of files that configure a verification of this language; of all languages if it is None."""
    toolchains = [one for one in TOOLCHAINS if language is None or language in one.languages]
    names = dict.fromkeys((*_CONFIGURATION, *(name for one in toolchains for name in one.configuration)))
    return tuple(f"**/{name}" for name in names)


def files_of(files: Iterable[str], *roles: Role) -> tuple[str, ...]:
    """Return the files with these roles, in order."""
    return tuple(path for path in files if role_of(path) in roles)


def chunks(files: Sequence[str], size: int) -> tuple[tuple[str, ...], ...]:
    """Split `files` into groups of at most `size`; into one group if all fit.

    Documents, sources (with manifests) and tests are in separate groups. Tests come last, because they verify all
    groups before them.
    """
    if len(files) <= size:
        return (tuple(files),) if files else ()
    apart = (
        files_of(files, Role.DOCUMENT),
        files_of(files, Role.MANIFEST, Role.SOURCE),
        files_of(files, Role.TEST),
    )
    return tuple(part[i : i + size] for part in apart for i in range(0, len(part), size))
