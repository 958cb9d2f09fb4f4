"""The parts of a language: its tools, their output, and the recognition and checks of its files.

Each language is a module in this folder that defines one `Toolchain`, with one entry in `languages.TOOLCHAINS`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from schemas.base import FailureCategory as Category
from tasks.toolchain.contract import Contract, Part

REGRESSION, TIMEOUT, FLAKY = Category.TEST_REGRESSION, Category.TEST_TIMEOUT, Category.FLAKY_TEST
COMPILE, TYPE = Category.COMPILATION_ERROR, Category.TYPE_ERROR
LINT, IMPORT = Category.LINT_ERROR, Category.IMPORT_ERROR

FILE = r"(?P<file>[^\s:'\"()]{1,300})"
AT = r":(?P<line>\d{1,7})"
AT_COL = AT + r":\d{1,7}"
LINTING = r"lint(?:s|ers?|ing)?|style|warnings?|clean(?:up)?"  # words of a goal that request it
TYPING = r"typ(?:es?|ed|ings?)|type-?check(?:er|ing|s)?|annotat(?:e|ions?)"
SYNTAX = r"(?P<code>SyntaxError|IndentationError|TabError)"


@dataclass(frozen=True, slots=True, eq=False)  # rules compare by identity: parsers are keys of a cache
class OutputRule:
    """The form of one line of output and its meaning; a rule without a category only finds tests, files and lines.

    A pattern must match from the first character of a line, so words inside a test's name or a printed text do not
    match. Its groups are `test`, `file`, `line` and `code`. Repeats are bounded or cannot overlap, so matching is
    linear in the line. `needs` is the `name` of a rule that must have matched an earlier line. The shown part of the
    output (the trace) begins at the first `telling` line.
    """

    pattern: str
    category: Category | None = None
    needs: str = ""
    name: str = ""
    telling: bool = False
    line: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", re.compile(f"^(?:{self.pattern})", re.MULTILINE))


OutputParser = tuple[OutputRule, ...]  # the first rule that matches a line reads it

ARROW = OutputRule(rf" *--> {FILE}{AT_COL}$")  # rustc and ruff point in the same form


class Rank(IntEnum):
    """The precedence of lines if the tool that printed them is not known."""

    RUNNER = 0  # runs tests, and prints lines that no other tool prints
    TEST = 1  # runs tests, and prints lines that others print too
    CHECK = 2  # compiles, checks types or looks for lint
    INSTALLER = 3
    RUNTIME = 4


@dataclass(frozen=True, slots=True)
class QuickCheck:
    """A tool that checks single files, or else a project, and the signs that a project uses it.

    A project uses the tool if it has one of `files`, or a manifest named in `within` whose text matches `text`. With
    `both` it needs both signs. A goal requests the check if one of its words matches `about`, a regular expression.
    """

    name: str
    part: Part
    files: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    text: str = ""  # a regular expression
    both: bool = False
    about: str = LINTING

    def is_configured(self, manifests: Mapping[str, str]) -> bool:
        """Return whether a project with these manifests uses this tool; `manifests` maps paths to texts."""
        names = {path: path.rpartition("/")[2] for path in manifests}
        by_name = any(name in self.files for name in names.values())
        by_text = any(name in self.within and re.search(self.text, manifests[path]) for path, name in names.items())
        return (by_name and by_text) if self.both else (by_name or by_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language of a goal: its names, its files, and its checks.

    `quick`, `build` and `test` name recipes of the catalogue, from cheap to thorough. `types`, `fix` and `dependencies`
    are the commands that a revision runs before the next attempt; empty if the catalogue has no such tool. In each
    tuple of `quick_checks`, the first check that a project configures verifies its changes. `projects` and `workspaces`
    are pairs: a manifest counts if its text matches the regular expression after its name.
    """

    name: str
    aliases: tuple[str, ...]
    suffixes: tuple[str, ...]
    manifests: tuple[str, ...]
    quick: str
    build: str
    test: str
    types: tuple[Part, ...] = ()
    fix: tuple[Part, ...] = ()
    dependencies: tuple[Part, ...] = ()
    locked_dependencies: tuple[tuple[str, tuple[Part, ...]], ...] = ()  # instead, where a project has this lock file
    quick_checks: tuple[tuple[QuickCheck, ...], ...] = ()
    projects: tuple[tuple[str, str], ...] = ()  # those of `manifests` that make a project below another one
    workspaces: tuple[tuple[str, str], ...] = ()  # those that make projects of the language below a part of it

    def dependencies_of(self, files: Collection[str]) -> tuple[Part, ...]:
        """Return the checks of dependencies for a project; a lock file among `files` may replace the default ones."""
        return next((parts for lock, parts in self.locked_dependencies if lock in files), self.dependencies)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSigns:
    """Regular expressions for signs in failure logs that show which repair is needed; each matches within a line.

    `dependency` and `build` ignore case. `missing_module` has one group: the first part of the module's name.
    """

    dependency: str = ""
    build: str = ""
    missing_module: str = ""
    failing: str = ""


@dataclass(frozen=True, slots=True)
class ConfiguredRunner:
    """A runner of tests, and the signs that a project uses it.

    A project uses the runner if it has one of `files`, or a manifest named in `within` whose text matches `sign`, a
    regular expression. With `both` it needs both signs. `{place}` in the command becomes the group `place` of the
    match, else ".".
    """

    command: str
    files: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    sign: str = ""
    both: bool = False

    def command_in(self, manifests: Mapping[str, str], files: Collection[str]) -> str | None:
        """Return the command for a project with these manifests and files; None if the runner is not the project's."""
        by_file = any(name in manifests or name in files for name in self.files)
        texts = (manifests[name] for name in self.within if name in manifests)
        found = next((found for text in texts if (found := re.search(self.sign, text))), None)
        if not ((by_file and found) if self.both else (by_file or found)):
            return None
        return self.command.format(place=(found.groupdict().get("place") if found else None) or ".")


@dataclass(frozen=True, slots=True)
class PartOption:
    """An option for runs of only a part of the tests, for projects that hold each run to a standard of the whole suite.

    Such a standard is a minimum coverage, for example. A project has one if the text of a manifest named in `within`
    matches `sign`, a regular expression.
    """

    option: str
    tools: tuple[str, ...]
    within: tuple[str, ...]
    sign: str

    def is_needed(self, manifests: Mapping[str, str]) -> bool:
        """Return whether a project needs the option; `manifests` maps the names of its manifests to texts."""
        return any(re.search(self.sign, manifests[name]) for name in self.within if name in manifests)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Toolchain:
    """The tools that several languages may share, and the readers of their output.

    `output` has the parser for each contract, under its id or under the first word of the id: `pytest-focused` needs no
    separate row. `ranked` has the same rules, for output of an unknown tool. `configuration` has patterns of the files
    that configure a verification, in any folder. If two contracts accept the same words, the narrower one comes first.
    `scripts` run commands that a project names, and come after the tools of every language. `checks` are recipes that
    only its languages name.
    """

    languages: tuple[Language, ...]
    tools: tuple[Contract, ...]
    checks: Mapping[str, tuple[Part, ...]]
    output: Mapping[str, OutputParser]
    ranked: Mapping[Rank, OutputParser]
    signs: LogSigns
    foreign_files: str = ""  # a regular expression: files in traces that are not the repository's
    recipes: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    scripts: tuple[Contract, ...] = ()
    runners: tuple[ConfiguredRunner, ...] = ()  # the most telling first
    part_options: tuple[PartOption, ...] = ()
    configuration: tuple[str, ...] = ()
    test_names: str = ""  # a regular expression of whole names, if the default ones do not suffice

    def __post_init__(self) -> None:
        names = tuple(sorted(language.name for language in self.languages))
        for field_name in ("tools", "scripts"):
            tools = (tool if tool.languages else replace(tool, languages=names) for tool in getattr(self, field_name))
            object.__setattr__(self, field_name, tuple(tools))
