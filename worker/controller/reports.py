"""Reports of test tools: the result of each test, written where the code under test can hardly change it.

Our reporter is in a folder outside of the clone, made for one run. It takes a random token from there before any test
runs. It writes the token as the last line: a run that was interrupted has no end. Go and cargo have no reporters: their
output is read, and is complete if every part of it has its closing line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from schemas.outcome import MAX_TEST_FILES, ReportKind, TestFigures, TestWord
from schemas.step import ROOT
from tasks.toolchain.collecting import COLLECTING
from tasks.toolchain.test_ids import file_of, word_of
from worker.controller import printed_reports, snapshot
from worker.host.regular_files import read
from worker.sandbox.user import PASSABLE

REPORTERS = Path(__file__).parent / "reporters"
MAX_BYTES = 64 * 1024 * 1024
PATH_CHARS = 512
_STRENGTH = ("passed", "skipped", "xfailed", "failed")  # of several results of one test, the last in this order counts
_SCRIPT = re.compile(r"(jest|vitest run|vitest|mocha)(?: [^;&|<>()`$#]*)?|node --test")
_SCRIPT_TOOLS = frozenset({"npm-test", "npm-run-test", "pnpm-test", "yarn-test"})
_WORDS = {"jest": "jest", "vitest": "run", "mocha": "mocha", "node": "--test"}  # of a command, by its runner
_PLAIN_JS = {"jest": "jest", "vitest": "vitest", "mocha": "mocha", "node-test": "node"}


@dataclass(frozen=True, slots=True)
class TestReport:
    """The report of one run of a tool: the result of each test, and the tests that were deselected."""

    kind: ReportKind = ReportKind.NONE
    words: Mapping[str, str] = field(default_factory=dict)
    collected: int = 0
    deselected: frozenset[str] = frozenset()

    def figures(self, named: Iterable[str], folder: str = ROOT, only: str = "") -> TestFigures | None:
        """Return the numbers of tests, and the results of the `named` ones; None without a report.

        The tool ran in `folder`, so its report has paths from there; the `named` ones are from the root. `only` is the
        one file that the tool was to run, if any.
        """
        if self.kind is ReportKind.NONE:
            return None
        counts = Counter(self.words.values())
        lines = "".join(f"{word} {name}\n" for name, word in sorted(self.words.items()))
        known = {**dict.fromkeys(self.deselected, "deselected"), **self.words}
        return TestFigures(
            **{word: counts[word] for word in _STRENGTH},
            deselected=len(self.deselected),
            collected=self.collected,
            digest=f"sha256:{hashlib.sha256(lines.encode(errors='replace')).hexdigest()}",
            named={name: TestWord(word_of(name.removeprefix(f"{folder}/"), known, only)) for name in named},
            files=self._files,
        )

    @property
    def ran(self) -> Iterator[str]:
        """The tests that passed or failed, if the report is complete."""
        is_whole = self.kind is ReportKind.WHOLE
        return (name for name, word in self.words.items() if is_whole and word in {"passed", "failed"})

    @property
    def left_out(self) -> Iterator[str]:
        """The tests that were skipped or deselected."""
        yield from (name for name, word in self.words.items() if word == "skipped")
        yield from self.deselected

    @property
    def _files(self) -> dict[str, int]:
        """The number of tests by file; empty if there are more files than a receipt can contain."""
        counts = Counter(filter(None, map(file_of, self.words)))
        is_short = len(counts) <= MAX_TEST_FILES and all(len(file) <= PATH_CHARS for file in counts)
        return dict(counts) if is_short else {}


NO_REPORT = TestReport()


@dataclass(frozen=True, slots=True)
class Reporting:
    """How a run of a tool reports: the command with its variables, and the way to read the report."""

    argv: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None  # the command needs read and write access to it
    token: str = ""
    printed: Callable[[str], printed_reports.PrintedReport] | None = None

    def added_to(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment `env` with our variables; our paths and options come first."""
        joints = {"PYTHONPATH": os.pathsep, "PYTEST_ADDOPTS": " "}
        ours = {
            name: joints[name].join(filter(None, (value, env.get(name, "")))) for name, value in self.variables.items()
        }
        return {**env, **ours}

    def read(self, output: str) -> tuple[TestReport, str]:
        """Return the report, and the output that the tool would print without our reporter."""
        if self.printed:
            found = self.printed(output)
            return _checked(found.words, found.collected, frozenset(), ends=found.ends, began=found.began), found.text
        return (_read(self.folder, self.token) if self.folder else NO_REPORT), output


@contextmanager
def reporting(tool: str, argv: Sequence[str], root: Path) -> Iterator[Reporting]:
    """Prepare a run of a tool in the folder `root`, while the block lasts; a tool without a reporter runs unchanged."""
    if reader := printed_reports.reader_of(tool, argv):
        yield Reporting(printed_reports.dressed(argv), printed=reader)
        return
    with TemporaryDirectory(prefix="planner-report-", ignore_cleanup_errors=True) as name:
        # Vite loads files outside of such a folder with its own loader.
        folder, token = Path(name).resolve() / "node_modules" / "planner", secrets.token_hex(16)
        made = _dressed(tool, argv, root, folder)
        if made is None:
            yield Reporting(argv)
            return
        folder.mkdir(parents=True)
        Path(name).chmod(PASSABLE)
        for file in REPORTERS.iterdir():
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
        (folder / "token").write_text(token)
        yield Reporting(*made, folder, token)


def _dressed(
    tool: str, argv: Sequence[str], root: Path, folder: Path
) -> tuple[Sequence[str], Mapping[str, str]] | None:
    """Return the command and the variables that make a tool use our reporter; None if it accepts none."""
    if tool.partition("-")[0] == "pytest" and COLLECTING not in argv:
        return argv, {"PYTEST_ADDOPTS": "-p planner_pytest", "PYTHONPATH": str(folder)}
    if tool == "unittest" and tuple(argv[1:3]) == ("-m", "unittest"):
        return [argv[0], "-m", "planner_unittest", *argv[3:]], {"PYTHONPATH": str(folder)}
    if tool in _PLAIN_JS and _WORDS[_PLAIN_JS[tool]] in argv:
        return _with_reporter(_PLAIN_JS[tool], argv, folder), {}
    if tool in _SCRIPT_TOOLS and (runner := _runner_of_script(argv, root)):
        words = _options(runner, folder, "")
        return [*argv, *(() if "--" in argv or argv[0] != "npm" else ("--",)), *words], {}
    return None


def _with_reporter(runner: str, argv: Sequence[str], folder: Path) -> list[str]:
    """Return the command with the reporter's options after the words that name the runner.

    For jest they come last, because jest would take the paths after them as values.
    """
    words = [word for word in argv if runner != "mocha" or not word.startswith("--reporter")]
    end = words.index("--") if "--" in words else len(words)
    at = end if runner == "jest" else words.index(_WORDS[runner]) + 1
    return [*words[:at], *_options(runner, folder, " ".join(words)), *words[at:]]


def _options(runner: str, folder: Path, given: str) -> tuple[str, ...]:
    if runner == "jest":
        return ("--reporters=default", f"--reporters={folder}/jest.cjs")
    if runner == "vitest":
        others = () if "--reporter" in given else ("--reporter=default",)
        return (*others, f"--reporter={folder}/vitest.mjs")
    if runner == "mocha":
        return (f"--reporter={folder}/mocha.cjs",)
    usual = ("--test-reporter=tap", "--test-reporter-destination=stdout")
    return (*usual, f"--test-reporter={folder}/node.mjs", "--test-reporter-destination=stderr")


def _runner_of_script(argv: Sequence[str], root: Path) -> str | None:
    """Return the test runner of a script in package.json; None unless the script runs one runner and nothing else."""
    script = next((word for word in argv[1:] if not word.startswith("-") and word not in ("run", "run-script")), "test")
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        said = json.loads(snapshot.read(root, b"package.json", 1024 * 1024))["scripts"]
        if found := _SCRIPT.fullmatch(said["test" if script == "t" else script].strip()):
            return "node" if found[1] is None else found[1].split()[0]
    return None


def _read(folder: Path, token: str) -> TestReport:
    """Return the report that our reporter has written."""
    try:
        lines = [json.loads(line) for line in read(folder / "report", MAX_BYTES).splitlines()]
    except FileNotFoundError:
        return NO_REPORT
    except (OSError, ValueError):
        return TestReport(ReportKind.PARTIAL)
    words: dict[str, str] = {}
    collected: set[str] = set()
    deselected: set[str] = set()
    total, repeated = 0, Counter[str]()
    for line in lines:
        match line:
            case ["collected", str(name)]:
                collected.add(name)
                repeated[name] += 1
            case ["total", int(count)]:
                total = count
            case ["deselected", str(name)]:
                deselected.add(name)
            case ["test", str(name), str(word)] if word in _STRENGTH:
                words[name] = max(words.get(name, word), word, key=_STRENGTH.index)
    ends = bool(lines) and lines[-1] == ["end", token] and lines.count(["end", token]) == 1
    ended = sum(repeated.values()) >= total if total else collected <= words.keys()
    return _checked(words, len(collected | words.keys()), frozenset(deselected - collected), ends=ends and ended)


def _checked(
    words: Mapping[str, str], collected: int, deselected: frozenset[str], *, ends: bool, began: bool = True
) -> TestReport:
    kind = (ReportKind.WHOLE if ends else ReportKind.PARTIAL) if began else ReportKind.NONE
    return TestReport(kind, words, collected, deselected)
