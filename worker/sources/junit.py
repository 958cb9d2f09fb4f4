"""Reads the failures in a JUnit report, with the test names of pytest, jest and go. The report is untrusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from tasks.base.errors import PlannerError
from tasks.toolchain.files import is_named_as_test
from worker.sources.sarif import SarifFinding

MAX_FINDINGS = 10_000
MAX_REPORT_BYTES = 32 * 1024 * 1024
MAX_TESTS = 1000
MAX_NAME = 1000
MAX_TITLE = 300
MAX_TRACE = 4000  # of one test
MAX_LOG = 64_000  # of all: a goal without steps may have 256 kB

JS_FILE = re.compile(r"[\w./@+()\[\]-]+\.[cm]?[jt]sx?")  # Next.js has folders such as [id] and (shop)
_NO_TITLE = re.compile(r"^Test suite failed to run\b|\"(?:before|after) (?:each|all)\" hook\b")
_NO_SUITE = ("", "test", "suite")  # node writes the kind of a test in its place
RUST_PLACE = re.compile(r"(?:^|[\s'])[\w./-]+\.rs:\d+")
GO_NAME = re.compile(r"(?:Test|Example|Fuzz|Benchmark)\w*(?:/.*)?")
PACKAGE = re.compile(r"[A-Za-z_][\w-]{0,99}")
PYTHON_NAME = re.compile(r"test_\w*(?:\[.*\])?", re.DOTALL)
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
MAX_TEXT = 1000
MYPY = "mypy"

_TOOLS = {f"org.{tool}": tool for tool in ("ruff", "eslint")}  # by the package of a suite, one a file


class UnreadableReport(PlannerError):
    """The text is no JUnit report, or it is too large; the message has the reason."""


@dataclass(frozen=True, slots=True)
class FailedTest:
    """One test that failed; `language` is None if the report does not reveal it."""

    name: str
    language: str | None
    trace: str
    reason: str = ""  # in a line


@dataclass(frozen=True, slots=True)
class JUnitReport:
    """The failed tests of a report, each once, and the findings of linters that write such reports.

    `flaky` names the tests that failed in one run and passed in another; `failed` does not contain them.
    """

    failed: tuple[FailedTest, ...]
    findings: tuple[SarifFinding, ...] = ()
    flaky: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The failed tests, limited to the number in a goal, and sorted: parallel runs write them in any order."""
        return tuple(sorted(test.name for test in self.failed)[:MAX_TESTS])

    @property
    def language(self) -> str | None:
        """The language of the first failure."""
        return self.failed[0].language if self.failed else None

    @property
    def log(self) -> str:
        """The output of the failures."""
        return "\n\n".join(f"{test.name}\n{test.trace}" for test in self.failed)[:MAX_LOG]

    def named(self, words: Collection[str]) -> JUnitReport:
        """Return the report with only those failures whose name contains one of `words`."""
        kept = tuple(test for test in self.failed if any(word in test.name for word in words))
        return JUnitReport(kept, self.findings, self.flaky)


def read(report: bytes, *, findings: bool = False) -> JUnitReport:
    """Return the content of a report. Raises UnreadableReport, also for a document type, which could define entities.

    With `findings`, results of linters are separate from failures; otherwise they are failures, too.
    """
    if len(report) > MAX_REPORT_BYTES:
        raise UnreadableReport(f"The report has {len(report)} bytes, and the limit is {MAX_REPORT_BYTES}.")
    parser = XMLParser(target=_WithoutDoctype())  # noqa: S314 (entities need a document type, which is refused)
    try:
        parser.feed(report)
        root = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise UnreadableReport(f"The report is no XML: {error}.") from error
    if root.tag not in {"testsuites", "testsuite"}:
        raise UnreadableReport(f"A JUnit report begins with <testsuites> or <testsuite>, not with <{root.tag[:80]}>.")
    return report_of(root, findings=findings)


def report_of(root: Element, *, findings: bool = False) -> JUnitReport:
    """Return the failures in a parsed report, each test once; with `findings`, those of linters separately.

    A linter's suite without any readable finding stays a failure, so that nothing is lost.
    """
    failed: dict[str, FailedTest] = {}
    found: list[SarifFinding] = []
    flaky: dict[str, None] = {}
    for suite in _suites(root):
        linted = list(islice(findings_of(suite), MAX_FINDINGS)) if findings else []
        found += linted[: MAX_FINDINGS - len(found)]
        passed = _passed(suite)
        for case, test in () if linted else _failures(suite):
            if _identity(case) in passed:
                flaky[test.name] = None
            else:
                failed.setdefault(test.name, test)
    return JUnitReport(tuple(failed.values()), tuple(found), tuple(each for each in flaky if each not in failed))


class _WithoutDoctype(TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise UnreadableReport("The report has a document type, which JUnit reports do not need.")


def _failures(suite: Element) -> Iterator[tuple[Element, FailedTest]]:
    for case in suite.findall("testcase"):
        if reasons := _reasons(case):
            name, language = _name(suite, case, reasons[0])
            message = reasons[0].get("message", "").strip().partition("\n")[0]
            yield case, FailedTest(name[:MAX_NAME], language, "\n".join(map(_trace, reasons))[:MAX_TRACE], message)


def _passed(suite: Element) -> frozenset[tuple[str, ...]]:
    """Return the identities of the tests of a suite that passed in at least one run."""
    cases = (case for case in suite.findall("testcase") if not _reasons(case) and case.find("skipped") is None)
    return frozenset(map(_identity, cases))


def _reasons(case: Element) -> list[Element]:
    return [*case.findall("failure"), *case.findall("error")]


def _identity(case: Element) -> tuple[str, ...]:
    return case.get("file", ""), case.get("classname", ""), case.get("name", "")


def _suites(root: Element) -> Iterator[Element]:
    if root.tag != "testsuite":
        yield root
    yield from root.iter("testsuite")


def _trace(reason: Element) -> str:
    """Return the message and the text of a failure; the text alone if it contains the message."""
    message, text = reason.get("message", "").strip(), (reason.text or "").strip()
    return text if message in text else f"{message}\n{text}".strip()


def _name(suite: Element, case: Element, reason: Element) -> tuple[str, str | None]:
    """Return the name of a test and its language; the name in the form that its tool accepts, if possible."""
    owner, name, file = case.get("classname", ""), case.get("name", ""), case.get("file", "")
    if _is_rust(case, reason):
        return _rust(suite, name), "rust"
    for place in (file, owner, suite.get("file", ""), suite.get("name", "")):
        if JS_FILE.fullmatch(place) and (place == file or "/" in place or is_named_as_test(place)):
            title = _title(owner, name)
            language = "typescript" if place.endswith(("ts", "tsx")) else "javascript"
            return f"{place}::{title}" if title else place, language
    if GO_NAME.fullmatch(name) and ("/" in owner or file.endswith(".go") or _is_go(suite)):
        return name.split("/")[0], "go"  # a subtest fails together with its test
    if file.endswith(".py") or (not file and (suite.get("name") == "pytest" or _is_in_module(owner, name))):
        return _python(owner, name, file, reason), "python"
    return (name if name.startswith(owner) else f"{owner} {name}").strip() or "unnamed test", None


def _title(owner: str, name: str) -> str:
    """Return the title of a test in a file of JavaScript; empty if no test has it, such as that of a hook or file.

    Reporters of mocha write the suites and the title in one of `owner` and `name`, and the title alone in the other.
    """
    if not name or JS_FILE.fullmatch(name) or _NO_TITLE.search(f"{owner} {name}"):
        return ""
    if f" {owner}".endswith(f" {name}"):
        owner, name = name, owner
    is_in_name = name.startswith(owner) or name.endswith(f" {owner}")
    has_suites = owner not in _NO_SUITE and not JS_FILE.fullmatch(owner) and not is_in_name
    title = " ".join((f"{owner} > {name}" if has_suites else name).split())
    return title if len(title) <= MAX_TITLE else title[:MAX_TITLE].rpartition(" ")[0]


def _is_rust(case: Element, reason: Element) -> bool:
    """Return whether a test is of Rust: its report names no file, and its panic message does."""
    return not case.get("file") and RUST_PLACE.search(_trace(reason)[:MAX_NAME]) is not None


def _is_in_module(owner: str, name: str) -> bool:
    """Return whether a test may be in a module of Python: its dotted `owner` has a part without a capital.

    The similar names of Ruby's Minitest have only parts that begin with a capital.
    """
    is_dotted = DOTTED.fullmatch(owner) and PYTHON_NAME.fullmatch(name)
    return is_dotted is not None and any(not part[0].isupper() for part in owner.split("."))


def _rust(suite: Element, name: str) -> str:
    """Return the name of a test as nextest prints it: its package, then its path.

    Only the path if the package is unknown.
    """
    package = suite.get("name", "").partition("::")[0]
    return f"{package} {name}" if PACKAGE.fullmatch(package) else name


def _is_go(suite: Element) -> bool:
    return any(each.get("name") == "go.version" for each in suite.iter("property"))


def _python(owner: str, name: str, file: str, reason: Element) -> str:
    """Return pytest's node id: file, classes, function.

    Without `file`, a class is a part that begins with a capital.
    """
    if not owner and DOTTED.fullmatch(name) and "collection" in reason.get("message", ""):
        return file or name.replace(".", "/") + ".py"  # the file could not even be imported
    parts = owner.split(".") if owner else []
    classes = [*takewhile(lambda part: part[:1].isupper(), reversed(parts))][::-1]
    module = parts[: len(parts) - len(classes)]
    path = file or ("/".join(module) + ".py" if module else "")
    return "::".join(part for part in (path, *classes, name) if part)


_MYPY_CASE = re.compile(rf"{MYPY}-py\d+[._]\d+-[\w-]+(?: .*)?")
_PLACE = re.compile(r"line (\d{1,9}), col (\d{1,9})")
_MESSAGE = re.compile(  # the place may lack the line, or include its end
    r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^\n:]+):(?:(?P<line>\d{1,9}):)?(?:(?P<column>\d{1,9}):)?(?:\d{1,9}:\d{1,9}:)?"
    r" error: (?P<text>.*)"
)
_CODE = re.compile(r"[\w-]+")


def findings_of(suite: Element) -> Iterator[SarifFinding]:
    """Yield the findings in a linter's suite; none if the suite has a failure that is not the linter's."""
    failed = [(case, [*case.findall("failure"), *case.findall("error")]) for case in suite.findall("testcase")]
    failed = [(case, reasons) for case, reasons in failed if reasons]
    names = [case.get("name", "") for case, _ in failed]
    package = suite.get("package", "")
    if suite.get("name") == MYPY and all(map(_MYPY_CASE.fullmatch, names)):
        for _, reasons in failed:
            for reason in reasons:
                yield from _of_mypy(reason)
    elif package in _TOOLS and all(name.startswith(f"{package}.") for name in names):
        for case, reasons in failed:
            for reason in reasons:
                yield _of_file(suite, case, reason)


def _of_file(suite: Element, case: Element, reason: Element) -> SarifFinding:
    package = suite.get("package", "")
    text = (reason.text or "").strip()
    place = _PLACE.match(text)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    rule, said = case.get("name", "").removeprefix(f"{package}."), reason.get("message") or text
    return SarifFinding(_TOOLS[package], suite.get("name", ""), line, column, rule, said[:MAX_TEXT])


def _of_mypy(reason: Element) -> Iterator[SarifFinding]:
    for text in (reason.text or "").splitlines():
        if found := _MESSAGE.fullmatch(text):
            rule, said = _rule_and_text(found["text"])
            line, column = int(found["line"] or 1), int(found["column"] or 1)
            yield SarifFinding(MYPY, found["path"], line, column, rule, said[:MAX_TEXT])


def _rule_and_text(said: str) -> tuple[str, str]:
    """Return the rule in brackets at the end of a message, and the text before it; in linear time."""
    text, _, code = said.rpartition(" [")
    rule = code.removesuffix("]")
    return (rule, text.rstrip()) if text and rule != code and _CODE.fullmatch(rule) else ("", said)
