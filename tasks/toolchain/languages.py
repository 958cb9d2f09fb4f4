"""The table of languages, and its results: tools, recipes, and the language of a goal.

To add a language, write its module (`language.Toolchain` describes the contents) and add it to `TOOLCHAINS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from schemas.goal import GoalContext
from tasks.toolchain import cpp, go, node, python, rust
from tasks.toolchain.contract import Contract, Part, scripts
from tasks.toolchain.language import Language, Toolchain

TOOLCHAINS: tuple[Toolchain, ...] = (
    python.TOOLCHAIN,
    node.TOOLCHAIN,
    go.TOOLCHAIN,
    rust.TOOLCHAIN,
    cpp.TOOLCHAIN,
)
# Targets that a project of any language may have.
_MAKE = scripts("make", ("make",), cannot_run=("No rule to make target", "No targets specified"))

TOOLS: tuple[Contract, ...] = (
    *(tool for each in TOOLCHAINS for tool in each.tools),
    *(tool for each in TOOLCHAINS for tool in each.scripts),
    *_MAKE,
)
RECIPES: Mapping[str, tuple[Part, ...]] = MappingProxyType(
    dict(item for each in TOOLCHAINS for item in each.recipes.items())
    | dict(item for each in TOOLCHAINS for item in each.checks.items())
)
LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {language.name: language for each in TOOLCHAINS for language in each.languages}
)
MANIFESTS: Mapping[str, str] = MappingProxyType(
    {manifest: language.name for language in LANGUAGES.values() for manifest in language.manifests}
)
_BY_WORD = {word: each for each in LANGUAGES.values() for word in (each.name, *each.aliases)}
_OTHER = "another language"  # without known tools: its files are of no language in the table
_OTHER_SUFFIXES = (
    *(".rb", ".php", ".java", ".kt", ".kts", ".scala", ".groovy", ".clj", ".cs", ".fs", ".vb", ".swift", ".m", ".dart"),
    *(".ex", ".exs", ".erl", ".hs", ".ml", ".elm", ".lua", ".pl", ".pm", ".r", ".jl", ".zig", ".nim"),
)
_OTHER_MANIFESTS = (
    *("Gemfile", "Rakefile", "composer.json", "pom.xml", "build.gradle", "build.gradle.kts", "build.sbt", "mix.exs"),
    *("Package.swift", "pubspec.yaml", "project.clj", "stack.yaml", "rebar.config", "build.zig"),
)
_BY_SUFFIX = dict.fromkeys(_OTHER_SUFFIXES, _OTHER) | {
    suffix: each.name for each in LANGUAGES.values() for suffix in each.suffixes
}
_BY_MANIFEST = dict.fromkeys(_OTHER_MANIFESTS, _OTHER) | dict(MANIFESTS)


def language_of(context: GoalContext, files: Iterable[str], tested: Sequence[str] = ()) -> Language | None:
    """Return the language that a goal names, else the most frequent language of the goal's project.

    Signs of the project are read in this order: the languages of its test command (`tested`), then `files`, its
    manifests, and all of its files. The first sign that shows a language decides. None if this language has no tools.
    """
    if context.language and context.language.strip():
        return _BY_WORD.get(context.language.strip().casefold())
    if len(tested) == 1:
        return LANGUAGES.get(tested[0])
    manifests = (path.rpartition("/")[2] for path in (*context.manifests, *context.files))
    told = (map(_of_suffix, files), map(_BY_MANIFEST.get, manifests), map(_of_suffix, context.files))
    found = next(filter(None, map(_most_common, told)), _OTHER)
    return LANGUAGES.get(found)


def suffixes_of(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the suffixes of files in these languages; ("",), which fits every file, if no language is known."""
    return tuple(suffix for name in languages if name in LANGUAGES for suffix in LANGUAGES[name].suffixes) or ("",)


def _of_suffix(path: str) -> str | None:
    dot = path.rfind(".")
    return _BY_SUFFIX.get(path[dot:].lower()) if dot >= 0 else None


def _most_common(found: Iterable[str | None]) -> str | None:
    """Return the most frequent language; of equally frequent ones, the first in the table; None without any."""
    counts = Counter(each for each in found if each)
    return max((*LANGUAGES, _OTHER), key=lambda name: counts[name]) if counts else None
