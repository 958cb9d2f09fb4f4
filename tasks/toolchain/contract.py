"""The commands of one tool in the catalogue that are accepted, as plain data, and the code that matches an argv.

Tools are selected from a fixed catalogue, never invented. A contract accepts a whole command or refuses it: each word
must be a listed option or a valid positional.

Words that come from data (paths, names of tests) could change the verification. `@file` makes pytest, ruff, mypy and
tsc read options from that file, `+name` selects cargo's toolchain, and `-x` is an option. No kind accepts such a word.
This is a rule of safety, not of planning: it applies at once, to plans of every policy version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial

from schemas.base import RiskLevel
from schemas.step import VerifyTool
from tasks.text.unicode import is_visible

MANY = 50  # positionals of one command
MANY_TEXTS = 20
AS_RAN = tuple(range(126))  # of runners that return the exit code of their program
_TAKEN_FOR_MORE = ("-", "@", "+")
_CHOSEN_OWNER = ("-p", "--package", "--all", "--workspace")
_HAS_BRACKETS = re.compile(r"[()\[\]]")
FILE_OF_TEST = "test_file"  # the kind of a test that is named by its file; its title is no word of a command
MOST_OF_TITLES = 900  # characters
_TITLE_WORD = re.compile(r"[A-Za-z0-9_]+")
_IN_TITLE = re.compile(r"::| [>\u203a] ")
_NEEDS_PLACE = re.compile(r"[@+]|[A-Za-z_]\w*=")


class ToolCategory(StrEnum):
    """The purpose of a tool."""

    TEST = "TEST"
    LINT = "LINT"
    TYPE_CHECK = "TYPE_CHECK"
    BUILD = "BUILD"
    VALIDATE = "VALIDATE"


_SEGMENT = r"(?![. ]++(?![\w@+,=%()\[\]-]))[\w.@+,=%()\[\]-][\w.@+,=%()\[\] -]*"  # never `.`, `..` or their look-alikes
_PLAIN = r"(?![-@+=%]|[A-Za-z_]\w*=)"  # no option, file of arguments, toolchain or variable for any tool
_INNER_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*/?"
_PATH = rf"{_PLAIN}(?:\./)?{_INNER_PATH}"  # relative, no wildcard
_TEST_FILE = rf"{_PLAIN}(?:\./)?(?:{_SEGMENT}/)*[\w.@+()\[\]-]+\.(?:py|[cm]?[jt]sx?)"
_NODE = r"(?:::[A-Za-z_]\w*)*(?:\[[^\x00-\x1f\x7f;|&$<>`\\]*\])?"  # ::TestX::test_y[param]
# Scripts of package.json and targets of a Makefile are only known by name, so a name must mean a verification.
_HARMLESS = "(?!.*(?:deploy|publish|release|push|upload|install|clean|fix|write))"
_SCRIPT = _HARMLESS + r"(?:{})(?:[-_:.][a-z0-9]+)*"

KINDS = {
    "path": rf"\.|{_PATH}",
    "test": rf"\.|{_PATH}{_NODE}",
    "test_id": rf"{_TEST_FILE}{_NODE}",
    FILE_OF_TEST: _TEST_FILE,
    "package": rf"\.|\./\.\.\.|\./{_INNER_PATH}(?:(?<!/)/\.\.\.)?",  # in the module: others pass without testing it
    "name": r"[A-Za-z_][\w-]{0,99}",
    "environment": rf"{_HARMLESS}[A-Za-z_][\w-]{{0,99}}",
    "test_name": r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*",
    "cargo_test": r"(?:[A-Za-z_][\w-]{0,99} )?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*",  # a package before its test
    "nextest": r"test\(=[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*\)",
    "go_test": r"[A-Za-z_]\w{0,99}",
    "go_run": r"\^?[A-Za-z_][\w-]{0,99}\$?|\^\([A-Za-z_]\w{0,99}(?:\|[A-Za-z_]\w{0,99}){0,19}\)\$",
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
    """Return whether `word` is a valid value of `kind`, with at most 1000 characters, all of them visible."""
    return (
        len(word) <= 1000
        and not word.startswith(_TAKEN_FOR_MORE)
        and is_visible(word)
        and _pattern((KINDS[kind],)).fullmatch(word) is not None
    )


def operand(path: str) -> str:
    """Return a path in a form that every tool reads as a path."""
    return f"./{path}" if _NEEDS_PLACE.match(path) else path


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of an argv that a contract accepts, without the separator `--`."""

    spelling: tuple[str, ...]
    options: tuple[str, ...]
    positionals: tuple[str, ...]
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One tool: the words that its command may contain, its time limit and its exit codes.

    `options` are regular expressions for whole words; no other options are accepted, and their order is free. Each of
    the `valued` options takes the next word as its value. `required` options must be present. Only `tails` may follow
    `--`; positionals may follow it if the tool reads `--` as `end_of_options`. `pass_codes` mean that the code under
    test is right. `ran_codes` mean that the tool ran, unless its output contains a text of `cannot_run`. Without
    `languages` the tool is for all languages of its toolchain.
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
    focus_form: str = "{}"  # how the option's value names exactly one test, or some in `(A|B)`
    focus_is_module: bool = False  # whether it takes a test as `tests.test_cart.CartTests.test_adds`
    focus_owner: str = ""  # the valued option that takes the words before the test and a space
    focus_exact: str = ""  # an option that makes positionals with brackets paths, too
    focus_title: str = ""  # an option that takes a pattern of the titles of tests in the files
    focus_last_title: bool = False  # whether that pattern is for a test's own title, without those of its suites
    focus_tail: tuple[str, ...] = ()  # after a focused command
    focus_most: int = 1
    pass_codes: tuple[int, ...] = (0,)
    ran_codes: tuple[int, ...] = (0, 1)
    cannot_run: tuple[str, ...] = ()  # at most MANY_TEXTS texts in the output of a tool that could not run
    strict_by: str = ""  # the option that takes a file that turns on its strict mode; it follows the spelling
    reports: bool = False  # on each test: it passes only with a complete report
    languages: tuple[str, ...] = ()
    min_risk: RiskLevel = RiskLevel.LOW

    def read(self, argv: tuple[str, ...]) -> Reading | None:
        """Split `argv` into its parts; None if this contract does not accept all of it."""
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
        """Return the verification that runs `argv` under this contract."""
        return VerifyTool(tool=self.id, argv=argv, timeout_s=self.timeout_s, pass_codes=self.pass_codes)

    def narrow(self, reading: Reading, tests: tuple[str, ...], titles: Sequence[str] = ()) -> tuple[str, ...] | None:
        """Return the argv of an accepted command, aimed at `tests` alone; None if it cannot take these tests.

        For tests named by their files, `titles` are the tests' titles. If a title is missing or cannot be selected, the
        whole files run.
        """
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
            one_or_all = tests[0] if len(tests) == 1 else f"({'|'.join(tests)})"
            named = (self.focus_option, self.focus_form.format(one_or_all))
            return (*reading.spelling, *options, *reading.positionals, *named, *tail)
        if self.focus_title:
            options = tuple(word for word in options if not word.startswith(f"{self.focus_title}="))
            options += tuple(self._by_titles(titles))
        if self.focus_exact and self.focus_exact not in options and any(map(_HAS_BRACKETS.search, tests)):
            options = (*options, self.focus_exact)
        return self.command(Reading(reading.spelling, options, tests, tail))

    def _by_titles(self, titles: Sequence[str]) -> Iterator[str]:
        """Yield the option that selects tests by words of their titles; nothing if a title has no words.

        A title is data: only its letters, digits and underscores go into the option.
        """
        parts = (
            [part for part in _IN_TITLE.split(title) if part][-1 if self.focus_last_title else 0 :] for title in titles
        )
        found = dict.fromkeys(r"\W+".join(_TITLE_WORD.findall(" ".join(each))) for each in parts)
        if found and all(found) and len(pattern := "|".join(found)) <= MOST_OF_TITLES:
            yield rf"{self.focus_title}=(?:^|\W)(?:{pattern})(?:\W|$)"

    def command(self, reading: Reading) -> tuple[str, ...]:
        """Return the argv of a reading, with `--` before its positionals if the tool accepts this separator.

        A lone `.` gets no `--`: it comes from the planner, never from data.
        """
        ended = ("--",) if self.end_of_options and any(word != "." for word in reading.positionals) else ()
        return (*reading.spelling, *reading.options, *ended, *reading.positionals, *reading.tail)

    def _split(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Split `words` into options and positionals; None if an option is not listed."""
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


def titles_by(option: str) -> str:
    """Return the regular expression of the options that `Contract.narrow` makes to select tests by their titles."""
    return re.escape(option) + r"=\(\?:\^\|\\W\)\(\?:[A-Za-z0-9_|\\+]{1,900}\)\(\?:\\W\|\$\)"


def _module_of(test: str) -> str:
    """Return a test as a dotted name: module, classes and function."""
    file, *inner = test.removeprefix("./").split("::")
    return ".".join((file.rpartition(".")[0].replace("/", "."), *inner))


path_tool = partial(Contract, positional="path", end_of_options=True)  # reads paths, behind `--` too
linter = partial(path_tool, category=ToolCategory.LINT)
test_runner = partial(Contract, category=ToolCategory.TEST, end_of_options=True, focus="test_id", focus_most=20)


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a recipe: a command, followed by the step's files with one of the `suffixes`.

    `otherwise` is the whole command if the step has no such file; if it is empty, the line is left out. `tests` takes
    only files of tests. `each` runs the command once for each file, for tools that read only one file. `whole` runs the
    command without files if the step has such a file, for tools that only read the whole project.
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
    """Return the contracts of a script runner, such as npm: one for each category of scripts.

    The name of a script, such as `test` or `lint`, shows its category.
    """
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
    """Return the ways to call `tool`: by its own name and through each of `runners`."""
    return (tool, *(runner.format(tool) for runner in runners))
