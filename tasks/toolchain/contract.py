"""What one tool of the catalogue may be asked, as plain data, and how an argv is held against it.

Tools are selected from a fixed catalogue, never invented. A contract is matched wholly or not at all: a word that is
neither a listed option nor a well-typed positional refuses the command.

Words that come from data (paths, names of tests) could choose the verification: `@file` makes pytest, ruff, mypy and
tsc read options from that file, `+name` chooses cargo's toolchain, `-x` is an option. No such word is well-typed,
whatever its kind. This is a rule of safety, not of planning: it holds at once, for plans of every policy version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial

from schemas.base import RiskLevel
from schemas.step import VerifyTool
from tasks.text.unicode import is_visible

MANY = 50  # positionals of one command
MANY_TEXTS = 20
AS_RAN = tuple(range(126))  # of runners that end with the exit code of what they run
_TAKEN_FOR_MORE = ("-", "@", "+")
_CHOSEN_OWNER = ("-p", "--package", "--all", "--workspace")
_HAS_BRACKETS = re.compile(r"[()\[\]]")
_NEEDS_PLACE = re.compile(r"[@+]|[A-Za-z_]\w*=")


class ToolCategory(StrEnum):
    """What a tool is for."""

    TEST = "TEST"
    LINT = "LINT"
    TYPE_CHECK = "TYPE_CHECK"
    BUILD = "BUILD"
    VALIDATE = "VALIDATE"


_SEGMENT = r"(?![. ]++(?![\w@+,=%()\[\]-]))[\w.@+,=%()\[\]-][\w.@+,=%()\[\] -]*"  # never `.`, `..` or their look-alikes
_PLAIN = r"(?![-@+=%]|[A-Za-z_]\w*=)"  # what no tool reads as an option, a file of arguments, a toolchain or a variable
_INNER_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*/?"
_PATH = rf"{_PLAIN}(?:\./)?{_INNER_PATH}"  # relative, no wildcard
_TEST_FILE = rf"{_PLAIN}(?:\./)?(?:{_SEGMENT}/)*[\w.@+()\[\]-]+\.(?:py|[cm]?[jt]sx?)"
_NODE = r"(?:::[A-Za-z_]\w*)*(?:\[[^\x00-\x1f\x7f;|&$<>`\\]*\])?"  # ::TestX::test_y[param]
# Scripts of package.json and targets of a Makefile are known by name only, so a name must say that it verifies.
_HARMLESS = "(?!.*(?:deploy|publish|release|push|upload|install|clean|fix|write))"
_SCRIPT = _HARMLESS + r"(?:{})(?:[-_:.][a-z0-9]+)*"

KINDS = {
    "path": rf"\.|{_PATH}",
    "test": rf"\.|{_PATH}{_NODE}",
    "test_id": rf"{_TEST_FILE}{_NODE}",
    "package": rf"\.|\./\.\.\.|\./{_INNER_PATH}(?:(?<!/)/\.\.\.)?",  # in the module: others pass without testing it
    "name": r"[A-Za-z_][\w-]{0,99}",
    "environment": rf"{_HARMLESS}[A-Za-z_][\w-]{{0,99}}",
    "test_name": r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*",
    "cargo_test": r"(?:[A-Za-z_][\w-]{0,99} )?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*",  # a package before its test
    "nextest": r"test\(=[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*\)",
    "go_test": r"[A-Za-z_]\w{0,99}",
    "go_run": r"\^?[A-Za-z_][\w-]{0,99}\$?",
    "module": r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*",
    "count": r"auto|[0-9]{1,2}",
    "test_script": _SCRIPT.format("tests?|unit|e2e|integration|ci|spec"),
    "lint_script": _SCRIPT.format("lint|eslint|format:check|fmt-check|style"),
    "type_script": _SCRIPT.format("types?|typecheck|type-check|tsc|mypy"),
    "build_script": _SCRIPT.format("build|compile|all"),
    "check_script": _SCRIPT.format("check|verify|validate"),
}


@lru_cache(maxsize=256)
def _pattern(alternatives: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in alternatives) or r"(?!)")


def fits(kind: str, word: str) -> bool:
    """Return whether `word` is a well-formed value of `kind`.

    It has at most 1000 characters, none of them invisible.
    """
    return (
        len(word) <= 1000
        and not word.startswith(_TAKEN_FOR_MORE)
        and is_visible(word)
        and _pattern((KINDS[kind],)).fullmatch(word) is not None
    )


def operand(path: str) -> str:
    """Spell a path so that no tool reads it as anything but a path."""
    return f"./{path}" if _NEEDS_PLACE.match(path) else path


@dataclass(frozen=True, slots=True)
class Reading:
    """An argv taken apart by the contract that accepts it, without `--`."""

    spelling: tuple[str, ...]
    options: tuple[str, ...]
    positionals: tuple[str, ...]
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One tool: its words, what may follow them, its time and its exit codes.

    `options` are regular expressions that a whole word must match, a closed set in any order; `valued` options take
    one more word of a kind; `required` ones must be there; `tails` are all that may stand after `--`, unless the tool
    reads it as `end_of_options`: then positionals do. `pass_codes` say that the code under test is right, `ran_codes`
    that the tool did run, unless its output has a text of `cannot_run`.
    Without `languages` it is of all languages of its toolchain.
    """

    id: str
    spellings: tuple[str, ...]
    example: str
    category: ToolCategory
    timeout_s: int
    positional: str = ""
    least: int = 0
    most: int = MANY
    options: tuple[str, ...] = ()
    valued: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    end_of_options: bool = False
    focus: str = ""  # the kind of one failing test that may narrow this tool
    focus_option: str = ""  # the valued option that takes it; else it is a positional
    focus_form: str = "{}"  # how the option's value names one test and no other
    focus_is_module: bool = False  # whether it takes a test as `tests.test_cart.CartTests.test_adds`
    focus_owner: str = ""  # the valued option that takes what stands before the test and a space
    focus_exact: str = ""  # an option with which positionals are paths also where they have brackets
    focus_tail: tuple[str, ...] = ()  # behind a focused command
    focus_most: int = 1
    pass_codes: tuple[int, ...] = (0,)
    ran_codes: tuple[int, ...] = (0, 1)
    cannot_run: tuple[str, ...] = ()  # at most MANY_TEXTS, in what it prints where it could not run
    reports: bool = False  # of what became of each test: it passes only with a whole one
    languages: tuple[str, ...] = ()
    min_risk: RiskLevel = RiskLevel.LOW

    def read(self, argv: tuple[str, ...]) -> Reading | None:
        """Take `argv` apart, or None where this contract does not accept all of it."""
        if not all(each in argv for each in self.required) or not all(map(is_visible, argv)):
            return None
        spellings = (tuple(each.split()) for each in self.spellings)
        spelling = next((each for each in spellings if argv[: len(each)] == each), None)
        if spelling is None:
            return None
        rest = argv[len(spelling) :]
        cut = rest.index("--") if "--" in rest else len(rest)
        last = rest[cut + 1 :] if self.end_of_options else ()
        tail = () if last else rest[cut:]
        if tail and " ".join(tail[1:]) not in self.tails:
            return None
        parts = self._split(rest[:cut])
        if parts is None:
            return None
        options, positionals = parts[0], (*parts[1], *last)
        if not self.least <= len(positionals) <= (self.most if self.positional else 0):
            return None
        if not all(fits(self.positional, word) for word in positionals):
            return None
        return Reading(spelling, options, positionals, tail)

    def tool(self, argv: tuple[str, ...]) -> VerifyTool:
        """Make the verification that runs `argv` under this contract."""
        return VerifyTool(tool=self.id, argv=argv, timeout_s=self.timeout_s, pass_codes=self.pass_codes)

    def narrow(self, reading: Reading, tests: tuple[str, ...]) -> tuple[str, ...] | None:
        """Aim an accepted command at `tests` alone; None without a typed place for them."""
        if not self.focus or not 0 < len(tests) <= self.focus_most:
            return None
        options, tail = reading.options, reading.tail or self.focus_tail
        if self.focus_is_module:
            tests = tuple(map(_module_of, tests))
        if self.focus_owner and " " in tests[0]:
            owner, _, test = tests[0].partition(" ")
            tests = (test,)
            if not any(word.startswith(_CHOSEN_OWNER) for word in options):
                options = (*options, self.focus_owner, owner)
        if self.focus_option:
            named = (self.focus_option, *map(self.focus_form.format, tests))
            return (*reading.spelling, *options, *reading.positionals, *named, *tail)
        if self.focus_exact and self.focus_exact not in options and any(map(_HAS_BRACKETS.search, tests)):
            options = (*options, self.focus_exact)
        return self.command(Reading(reading.spelling, options, tests, tail))

    def command(self, reading: Reading) -> tuple[str, ...]:
        """Put an argv together, positionals behind `--` where the tool has it.

        A lone `.` is ours, and stays in front.
        """
        ended = ("--",) if self.end_of_options and any(word != "." for word in reading.positionals) else ()
        return (*reading.spelling, *reading.options, *ended, *reading.positionals, *reading.tail)

    def _split(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Split `words` into options and positionals; None where an option is not a listed one."""
        options: list[str] = []
        positionals: list[str] = []
        valued, listed, rest = dict(self.valued), _pattern(self.options + self.required), iter(words)
        for word in rest:
            if word in valued:
                value = next(rest, "")
                if not fits(valued[word], value):
                    return None
                options += (word, value)
            elif not word.startswith("-"):
                positionals.append(word)
            elif listed.fullmatch(word):
                options.append(word)
            else:
                return None
        return tuple(options), tuple(positionals)


def _module_of(test: str) -> str:
    """Name a test by its module: of a file, classes and a function."""
    file, *inner = test.removeprefix("./").split("::")
    return ".".join((file.rpartition(".")[0].replace("/", "."), *inner))


path_tool = partial(Contract, positional="path", end_of_options=True)  # reads paths, behind `--` too
linter = partial(path_tool, category=ToolCategory.LINT)
test_runner = partial(Contract, category=ToolCategory.TEST, end_of_options=True, focus="test_id", focus_most=20)


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a recipe: a command, given the step's files of these `suffixes`.

    `otherwise` is the whole command where the step has no such file; empty leaves the part out. `tests` takes only
    files of tests; `each` runs the command once for every file, for tools that read only one; `whole` runs it as it is
    where the step has such a file, for tools that read nothing but the whole project.
    """

    command: str
    suffixes: tuple[str, ...] = ()
    otherwise: str = ""
    tests: bool = False
    each: bool = False
    whole: bool = False


SILENT = ("-s|--silent",)  # what runners of scripts take
_SCRIPTS = {  # of a category: the kind of its names is `<key>_script`, the value an example
    ToolCategory.TEST: ("test", "test"),
    ToolCategory.LINT: ("lint", "lint"),
    ToolCategory.TYPE_CHECK: ("type", "typecheck"),
    ToolCategory.BUILD: ("build", "build"),
    ToolCategory.VALIDATE: ("check", "check"),
}


def scripts(
    name: str, spellings: tuple[str, ...], test_tails: tuple[str, ...] = (), cannot_run: tuple[str, ...] = ()
) -> tuple[Contract, ...]:
    """Make one contract a category for a runner of scripts, whose names tell the category."""
    return tuple(
        Contract(
            id=f"{name}-{kind}",
            spellings=spellings,
            example=f"{spellings[0]} {example}",
            category=category,
            timeout_s=300,
            positional=f"{kind}_script",
            least=1,
            most=1,
            options=SILENT,
            tails=test_tails if category is ToolCategory.TEST else (),
            ran_codes=AS_RAN if category is ToolCategory.TEST else (0, 1, 2),
            cannot_run=cannot_run,
        )
        for category, (kind, example) in _SCRIPTS.items()
    )


def spell(tool: str, *runners: str) -> tuple[str, ...]:
    """List the ways to call `tool`: by its own name and through each of `runners`."""
    return (tool, *(runner.format(tool) for runner in runners))
