"""Classifies the text of evidence, or a goal's failure log: finds the failure's category, its tests and its files.

The text is data. Parts of it show people and the next attempt the place of a failure; no part is ever a command. A
failure log only chooses among the planner's templates. Patterns stay within a line and have no nested repetition, so
reading takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from itertools import islice
from types import MappingProxyType

from schemas.base import FailureCategory as Category
from tasks.toolchain.language import OutputParser, OutputRule, Rank
from tasks.toolchain.languages import TOOLCHAINS

MAX_TEXT = 64 * 1024  # characters looked at: half of them from the head, half from the tail
MAX_TRACE = 500
MAX_TESTS, MAX_CODES, MAX_FILES = 5, 10, 10  # of evidence
_TRACE_HEAD = 120  # characters; of a longer trace the end is kept after them, because it states the error

# colours, and the time stamps that CI puts before every line
_NOISE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\r|(?m:^\d{4}-\d\d-\d\dT[\d:.]{5,20}Z ?)")
_GROUP_NAME = re.compile(r"\?P<\w+>")
_NOT_INDENTED = re.compile(r"^\S.*", re.MULTILINE)


class Family(StrEnum):
    """The main groups of failure categories."""

    TEST = "TEST"
    COMPILE = "COMPILE"
    SANDBOX = "SANDBOX"
    BUDGET = "BUDGET"


TREE = MappingProxyType(
    {
        Family.TEST: (Category.TEST_REGRESSION, Category.TEST_TIMEOUT, Category.FLAKY_TEST),
        Family.COMPILE: (
            Category.COMPILATION_ERROR,
            Category.TYPE_ERROR,
            Category.LINT_ERROR,
            Category.IMPORT_ERROR,
        ),
        Family.SANDBOX: (
            Category.SANDBOX_VIOLATION,
            Category.HYGIENE_VIOLATION,
            Category.ALLOWLIST_VIOLATION,
        ),
        Family.BUDGET: (Category.BUDGET_EXCEEDED,),
    }
)

# UNKNOWN and the planner's own categories are outside of the tree: no controller reports them as a cause.
FAMILY = MappingProxyType({category: family for family, members in TREE.items() for category in members})

HALTS_AT_ONCE = frozenset(TREE[Family.SANDBOX] + TREE[Family.BUDGET])

OWN = frozenset(
    {
        *(Category.LEASE_EXPIRED, Category.OUTPUT_REFUSED, Category.NO_CHANGE, Category.CANNOT_VERIFY),
        Category.INTEGRITY,
    }
)  # only the planner can find these
PROOF = frozenset({Category.NO_PROOF, Category.TESTS_DIVERGE})  # the tool passed, which proves nothing
SCOPE = frozenset({Category.TOO_MANY_FILES, Category.RISK_EXCEEDED})  # the change itself may be right
FROM_OUTSIDE = frozenset(Category) - OWN

# Words of older vocabularies and of common tools that certainly mean one category. RUNTIME_ERROR, PERMISSION_DENIED,
# RESOURCE_EXHAUSTED and the like do not: their text decides.
ALIASES = MappingProxyType(
    {
        "TIMEOUT": Category.TEST_TIMEOUT,
        "TIMED_OUT": Category.TEST_TIMEOUT,
        "TEST_FAILURE": Category.TEST_REGRESSION,
        "TEST_FAILED": Category.TEST_REGRESSION,
        "REGRESSION": Category.TEST_REGRESSION,
        "LOGIC_REGRESSION": Category.TEST_REGRESSION,
        "FLAKY": Category.FLAKY_TEST,
        "BUILD_ERROR": Category.COMPILATION_ERROR,
        "COMPILE_ERROR": Category.COMPILATION_ERROR,
        "SYNTAX_ERROR": Category.COMPILATION_ERROR,
        "TYPE_CHECK_ERROR": Category.TYPE_ERROR,
        "LINT": Category.LINT_ERROR,
        "DEPENDENCY_CONFLICT": Category.IMPORT_ERROR,
        "MISSING_DEPENDENCY": Category.IMPORT_ERROR,
        "MODULE_NOT_FOUND": Category.IMPORT_ERROR,
        "BUDGET_EXHAUSTED": Category.BUDGET_EXCEEDED,
    }
)


# A controller without evidence may name a category in plain text. Categories halt plans, so a tool's own line takes
# precedence.
_PLAIN = tuple(OutputRule(rf"{word}(?:: |$)", word) for word in sorted(HALTS_AT_ONCE | {Category.FLAKY_TEST}))
# Words of the program that stopped a tool: as timeout(1) does, in words or by its exit code.
_STOPPED = OutputRule(
    r"(?i:.{0,200}?(?:(?<!\b0 )\btimed out\b|\bexit(?:ed)?(?: with)?(?: code| status)? 124\b))",
    Category.TEST_TIMEOUT,
)
_OF_TOOL = MappingProxyType({name: parser for each in TOOLCHAINS for name, parser in each.output.items()})
_ANY = (*(rule for rank in Rank for each in TOOLCHAINS for rule in each.ranked.get(rank, ())), *_PLAIN, _STOPPED)
_NOT_OURS = re.compile("|".join(("^/usr/", *filter(None, (each.foreign_files for each in TOOLCHAINS)))))


def output_parser(tool: str | None) -> OutputParser:
    """Return the rules for the output of the contract `tool`; all rules for an unknown one."""
    name = tool or ""
    return _OF_TOOL.get(name) or _OF_TOOL.get(name.partition("-")[0], _ANY)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The failure that a text describes; its category is UNKNOWN if no rule matches the text."""

    category: Category
    failing_tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    line: int | None = None
    codes: tuple[str, ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True)
class _Hit:
    order: int
    rule: OutputRule
    at: re.Match[str]

    def get(self, group: str) -> str:
        return self.at.groupdict().get(group) or ""

    @property
    def line(self) -> str:
        return "" if _NOT_OURS.search(self.get("file")) else self.get("line")


def files_of(text: str) -> tuple[str, ...]:
    """Return the files that the output of any tool blames."""
    return _diagnose(text, _ANY).files


def classify(text: str, *, tool: str | None = None, timed_out: bool = False) -> Diagnosis:
    """Return the failure in `text`, the output of the contract `tool`.

    Deterministic, and linear in the text.
    """
    return _diagnose(text, output_parser(tool), timed_out=timed_out)


def _diagnose(text: str, rules: OutputParser, *, timed_out: bool = False) -> Diagnosis:
    shown = _NOISE.sub("", _shorten(text, MAX_TEXT // 2, MAX_TEXT // 2))
    hits = list(_hits(shown, rules))
    first = min((hit for hit in hits if hit.rule.category), key=lambda hit: hit.order, default=None)
    category = first.rule.category if first and first.rule.category else Category.UNKNOWN
    start = next((hit.at.start() for hit in hits if first and hit.rule.category is category), len(shown))
    return Diagnosis(
        Category.TEST_TIMEOUT if timed_out else category,
        _unique((hit.get("test").rstrip() for hit in hits), MAX_TESTS),
        _unique((name for hit in hits if not _NOT_OURS.search(name := hit.get("file"))), MAX_FILES),
        _line(hits, start),
        _unique((hit.get("code") for hit in hits if hit.rule.category is category), MAX_CODES),
        _trace(shown, hits, start),
    )


def category_of(word: str | None, text: str, *, stopped: bool = False) -> Category:
    """Return the category that a controller's `word` names; for any other word, the category of `text`.

    The word is compared without regard to case, spaces and hyphens. If a tool was `stopped`, and the word names no
    category or UNKNOWN, the result is TEST_TIMEOUT. Raises nothing: UNKNOWN is a valid result.
    """
    name = "_".join((word or "").upper().replace("-", " ").replace("_", " ").split())
    category = ALIASES.get(name) or Category.__members__.get(name)
    if stopped and category in (None, Category.UNKNOWN):
        return Category.TEST_TIMEOUT
    return category if category in FROM_OUTSIDE else _diagnose(text, _ANY).category


def _hits(text: str, rules: OutputParser) -> Iterator[_Hit]:
    """Yield the lines that match any rule, each with the first rule that applies."""
    seen = {""}
    for found in _combined(rules).finditer(text):
        for order in range(int(str(found.lastgroup)[1:]), len(rules)):
            rule = rules[order]
            if rule.needs in seen and (at := rule.line.match(text, found.start())):
                seen.add(rule.name)
                yield _Hit(order, rule, at)
                break


@cache
def _combined(rules: OutputParser) -> re.Pattern[str]:
    """Join the rules to one pattern: one pass finds the few lines that need a closer look."""
    parts = (f"(?P<r{order}>{_GROUP_NAME.sub('?:', rule.pattern)})" for order, rule in enumerate(rules))
    return re.compile(f"^(?=.)(?:{'|'.join(parts)})", re.MULTILINE)


def _line(hits: list[_Hit], start: int) -> int | None:
    """Return the first line number at or after the failure; without one, the last number before it.

    A traceback ends with the line that raised, so its last number is the right one.
    """
    after = (hit.line for hit in hits if hit.at.start() >= start and hit.line)
    before = (hit.line for hit in reversed(hits) if hit.line)
    return next((int(line) for numbers in (after, before) for line in numbers), None)


def _trace(text: str, hits: list[_Hit], start: int) -> str:
    """Return the part of the text from the tool's own headline on.

    A Python traceback is included up to its last line.
    """
    telling = min((hit for hit in hits if hit.rule.telling), key=lambda hit: hit.at.start(), default=None)
    begin = telling.at.start() if telling else start
    if begin == len(text):
        return _shorten(text.strip(), _TRACE_HEAD, MAX_TRACE - _TRACE_HEAD)
    if not text.startswith("Traceback", begin):
        return text[begin : begin + MAX_TRACE].strip()
    # its headline, the indented lines, and the line that names the exception
    end = _NOT_INDENTED.search(text, text.find("\n", begin) + 1 or len(text))
    return _shorten(text[begin : end.end() if end else len(text)].strip(), _TRACE_HEAD, MAX_TRACE - _TRACE_HEAD)


def _shorten(text: str, head: int, tail: int) -> str:
    gap = "\n...\n"
    return text if len(text) <= head + tail else text[:head] + gap + text[len(text) - tail + len(gap) :]


def _unique(values: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(islice(dict.fromkeys(filter(None, values)), most))


_VARIABLE = (
    (re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]"), ""),
    (re.compile(r"(?<![\w.@+~-])(?:[A-Za-z]:)?[\w.@+~-]*(?:[/\\][\w.@+~-]+)+"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{7,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*(?: ?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?|m|h)\b)?"), "<n>"),
    (re.compile(r"([=_~.*^-])\1{2,}"), r"\1"),
    (re.compile(r"\s+"), " "),
)


def signature(category: Category, failing_tests: Iterable[str], trace: str) -> str:
    """Return a short name for a failure; equal failures get equal names.

    Numbers, paths, addresses, ids and timings in the trace make no difference. The name is empty if there is no
    evidence, or if only the planner reports this category.
    """
    tests, shape = sorted(set(filter(None, failing_tests))), _shorten(trace, MAX_TEXT // 2, MAX_TEXT // 2)
    for pattern, replacement in _VARIABLE:
        shape = pattern.sub(replacement, shape)
    shape = shape.strip()
    if category in OWN or not (tests or shape):
        return ""
    return sha256("\0".join((category, *tests, "", shape)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class LogSign(StrEnum):
    """The evidence in a log; each value chooses a template of repair goals."""

    NONE = "none"  # there is no log
    REPAIRABLE = "repairable"
    BUILD = "build"
    DEPENDENCY = "dependency"
    SILENT = "silent"  # a log without a known sign


_SIGNS = tuple(each.signs for each in TOOLCHAINS)
_BUILD = r"\bcompilation (?:terminated|failed)\b|\bbuild failed\b|\bcompiler error\b"
_FAILING = (
    r"\b[A-Z]\w*(?:Error|Exception)\b|^FAIL(?:ED)?\b|\bassert(?:ion)?\b.{0,80}\bfailed\b|\btimed out\b"
    r"|\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?)\b|\bexpected\b.{0,200}\b(?:got|received|actual)\b"
)


def _any(*alternatives: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile("|".join(filter(None, alternatives)), flags)


_IS_DEPENDENCY = _any(*(each.dependency for each in _SIGNS), flags=re.I)
_MISSING_MODULE = _any(*(each.missing_module for each in _SIGNS))
_IS_BUILD = _any(_BUILD, *(each.build for each in _SIGNS), flags=re.I | re.M)
_IS_FAILING = _any(_FAILING, *(each.failing for each in _SIGNS), flags=re.M)


def read_log(log: str, files: Sequence[str] = ()) -> LogSign:
    """Return the sign of a needed repair that `log` shows.

    A missing module with a name from `files`, the repository's paths, does not count as a missing dependency.
    """
    if not log.strip():
        return LogSign.NONE
    missing = {found[found.lastindex or 0] for found in _MISSING_MODULE.finditer(log)}
    own = {part.split(".")[0] for path in files for part in path.split("/")} if missing else set()
    if _IS_DEPENDENCY.search(log) or (missing and not missing & own):
        return LogSign.DEPENDENCY
    if _IS_BUILD.search(log):
        return LogSign.BUILD
    return LogSign.REPAIRABLE if _IS_FAILING.search(log) else LogSign.SILENT
