"""The languages we can verify: how they are recognised, and which recipes of the catalogue check them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from schemas.goal import GoalContext
from tasks.toolchain.files import MANIFESTS, name_of


@dataclass(frozen=True, slots=True)
class Language:
    """One language; `quick`, `build` and `test` are recipes of the catalogue, from cheap to thorough."""

    name: str
    aliases: tuple[str, ...]
    suffixes: tuple[str, ...]
    quick: str
    build: str
    test: str


_TABLE = (
    Language(
        name="python",
        aliases=("py", "python3"),
        suffixes=(".py", ".pyi"),
        quick="python-syntax",
        build="python-syntax",
        test="python-test-only",
    ),
    Language(
        name="typescript",
        aliases=("ts", "tsx"),
        suffixes=(".ts", ".tsx", ".mts", ".cts"),
        quick="node-types",
        build="node-types",
        test="node-test-only",
    ),
    Language(
        name="javascript",
        aliases=("js", "jsx", "node", "nodejs"),
        suffixes=(".js", ".mjs", ".cjs", ".jsx"),
        quick="node-syntax",
        build="node-syntax",
        test="node-test-only",
    ),
    Language(
        name="go",
        aliases=("golang",),
        suffixes=(".go",),
        quick="go-syntax",
        build="go-build",
        test="go-test-only",
    ),
    Language(
        name="rust",
        aliases=("rs",),
        suffixes=(".rs",),
        quick="rust-check",
        build="rust-check",
        test="rust-test-only",
    ),
    Language(
        name="cpp",
        aliases=("c++", "cc", "cxx", "c"),
        suffixes=(".cpp", ".cc", ".cxx", ".c", ".hpp", ".hh", ".hxx", ".h"),
        quick="cpp-build",
        build="cpp-build",
        test="cpp-full",
    ),
)

LANGUAGES: Mapping[str, Language] = MappingProxyType({each.name: each for each in _TABLE})
_BY_WORD = {word: each for each in _TABLE for word in (each.name, *each.aliases)}
_BY_SUFFIX = {suffix: each for each in _TABLE for suffix in each.suffixes}


def language_of(context: GoalContext, files: Iterable[str], tested: Sequence[str] = ()) -> Language | None:
    """Find the language of a goal: as told, else by its test command, its files, its manifests, its repository.

    `tested` are the languages of the contract that its test command matched.
    """
    if context.language and context.language.strip():
        return _BY_WORD.get(context.language.strip().casefold())
    return (
        _of_tool(tested)
        or _most_common(map(_of_suffix, files))
        or _most_common(_of_manifest(path) for path in (*context.manifests, *context.files))
        or _most_common(map(_of_suffix, context.files))
    )


def _of_tool(tested: Sequence[str]) -> Language | None:
    return LANGUAGES.get(tested[0]) if len(tested) == 1 else None


def _of_suffix(path: str) -> Language | None:
    dot = path.rfind(".")
    return _BY_SUFFIX.get(path[dot:].lower()) if dot >= 0 else None


def _of_manifest(path: str) -> Language | None:
    return LANGUAGES.get(MANIFESTS.get(name_of(path), ""))


def _most_common(found: Iterable[Language | None]) -> Language | None:
    """Take the most frequent one; of equals the one that the table names first."""
    counts = Counter(each for each in found if each)
    return max(_TABLE, key=lambda each: counts[each]) if counts else None
