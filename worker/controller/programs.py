"""The verifications that an attempt runs, and their results."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from schemas.base import FailureCategory
from schemas.outcome import CannotVerify, ReportKind, TestFigures, VerifyReceipt
from schemas.step import ROOT
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.could_not_run import why_not_run
from tasks.toolchain.proof import describe_unpassed, find_lack, judged_contract, operands_of, unpassed
from worker.controller import wire
from worker.controller.changes import leads_out
from worker.controller.failing_tests import NONE, NOT_KNOWN, FailingTests, failing_tests
from worker.controller.reports import NO_REPORT, Reporting, TestReport, reporting
from worker.controller.strict_mode import strict_run
from worker.controller.wire import LINE_CHARS, AttemptFailure, Tool
from worker.sandbox.process import TAIL_BYTES, TIMED_OUT, JobResult
from worker.sandbox.process import environment as without_secrets

ToolRun = Callable[
    [Reporting, float, str], JobResult
]  # a command with its report, seconds, and a folder of the repository

# Variables, by how they begin, that choose the options, the configuration or the code of a tool of the catalogue.
STEERING = (
    *("GOFLAGS", "GOENV", "GOWORK", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "CTEST_", "RUFF_", "TOX", "MYPYPATH"),
    *("MYPY_CONFIG", "ESLINT_", "NODE_OPTIONS", "JEST_", "VITEST_", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS"),
)
IMPORTING = frozenset({"pytest", "unittest", "planner_unittest"})  # they import the tested modules
RUNNER_WORDS = 3  # such as `python -m pytest`
INSTALLING = {  # npx only runs programs of the project, without downloads; pnpm installs nothing before
    "npm_config_yes": "false",
    "npm_config_verify_deps_before_run": "false",
    "pnpm_config_verify_deps_before_run": "false",
}


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The receipts of the tools that ran, and the first failure."""

    receipts: tuple[VerifyReceipt, ...] = ()
    failure: AttemptFailure | None = None
    failing: FailingTests = NONE  # found by the tools that ran
    finding: AttemptFailure | None = None  # of the last exit code that passes and reports findings
    ran_by: str = ""  # the path of the first tool's program
    cannot_verify: CannotVerify | None = None  # the tool that could not run; the change is not the cause
    ran: frozenset[str] = frozenset()  # the tests that passed or failed, where all tools ran or one has failed

    left_out: frozenset[str] = frozenset()  # those that were skipped or deselected

    def fails_more_than(self, other: VerificationResult) -> bool:
        """Return whether this verification failed and `other` did not, or whether a test may fail only here."""
        if self.failure is None:
            return False
        if other.failure is None:
            return True
        return not self.failing.complete or not set(self.failing.names) <= set(other.failing.names)

    @property
    def passed(self) -> bool | None:
        """Whether the tests passed; None if there were none."""
        return self.failure is None if self.receipts else None


def verify(
    tools: Sequence[Tool],
    run: ToolRun,
    root: str = "",
    search: str | None = None,
    *,
    at_base: bool = False,
    is_lost: Callable[[Tool], bool] = lambda _: False,
    named: Sequence[str] = (),
    isolation: str | None = None,
) -> VerificationResult:
    """Run each of `tools` with `run`, within its time limit, and return the receipts. Raises the errors of `run`.

    Names of failing tests have their paths from `root`, so that they are the same in every clone. Programs are found on
    the path `search`, by default ours. A tool fails if its folder does not exist or is outside of the clone.

    If a tool cannot run, the change may be the cause. It is not the cause `at_base`, or if the tool's program is lost;
    then the tool proves nothing.

    Receipts contain the results of the `named` tests, and the `isolation`. Unless this is `at_base`, a test report must
    confirm a passing exit code, and every `named` test must have passed. Otherwise the verification fails.
    """
    receipts: list[VerifyReceipt] = []
    finding: AttemptFailure | None = None
    failing = NONE
    ran: set[str] = set()
    left_out: set[str] = set()
    for tool in tools:
        # No planner sends a word that pytest, ruff, mypy or tsc take for a file of options; others who write specs may.
        if word := next((word for word in tool.argv if word.startswith("@")), None):
            return VerificationResult(
                tuple(receipts), wire.advice(f"{tool.tool} would read options from {word!r}"), NOT_KNOWN
            )
        if not is_there(root, tool.cwd):
            begun = unverifiable(tool, f"{tool.tool} runs in {tool.cwd}, which is no folder of the repository")
            return replace(begun, receipts=tuple(receipts), cannot_verify=begun.cannot_verify if at_base else None)
        done, report, is_strict = _run(tool, run, root, search)
        aimed = operands_of(tuple(tool.argv), CATALOGUE)
        figures = report.figures(named, tool.cwd, aimed[0] if len(aimed) == 1 else "")
        receipts.append(_receipt(tool, done, figures, report.kind, isolation, is_strict=is_strict))
        ran |= {_from_root(name, tool.cwd, root) for name in report.ran}
        left_out |= {_from_root(name, tool.cwd, root) for name in report.left_out}
        cannot = _cannot_verify(tool, done, root) if at_base or is_lost(tool) else None
        if done.timed_out or cannot or done.exit_code not in tool.pass_codes:
            found = failing.joined(_failing(tool, done, root))
            failed = VerificationResult(tuple(receipts), _failure(tool, done, root), found, cannot_verify=cannot)
            return replace(failed, ran=frozenset(ran), left_out=frozenset(left_out))
        if unproved := None if at_base else _unproved(tool, receipts[-1]):
            return VerificationResult(tuple(receipts), unproved, NOT_KNOWN)
        if done.exit_code:
            finding = _failure(tool, done, root)
            failing = failing.joined(_failing(tool, done, root))
    left = None if at_base else _unpassed(tools, receipts)
    ran_by = shutil.which(resolve(first.argv, search)[0], path=search) if (first := next(iter(tools), None)) else ""
    passed = VerificationResult(tuple(receipts), left, failing=failing, finding=finding, ran_by=ran_by or "")
    return replace(passed, ran=frozenset(ran), left_out=frozenset(left_out))


def unverifiable(tool: Tool, why: str) -> VerificationResult:
    """Return the result for a tool that was not started because of `why`; the change is not the cause."""
    cannot = CannotVerify(tool=tool.tool, cwd=None if tool.cwd == ROOT else tool.cwd, reason=why)
    return VerificationResult((), wire.advice(why), NOT_KNOWN, cannot_verify=cannot)


def _receipt(
    tool: Tool,
    done: JobResult,
    figures: TestFigures | None,
    report: ReportKind,
    isolation: str | None,
    *,
    is_strict: bool,
) -> VerifyReceipt:
    return VerifyReceipt(
        tool=tool.tool,
        exit_code=done.exit_code,
        output_digest=done.digest,
        tests=figures,
        report=report,
        isolation=isolation,
        cwd=None if tool.cwd == ROOT else tool.cwd,
        strict=is_strict or None,
    )


def _unproved(tool: Tool, receipt: VerifyReceipt) -> AttemptFailure | None:
    contract = judged_contract(CATALOGUE, tool.tool, tool.pass_codes, receipt.exit_code)
    why = find_lack(contract, receipt) if contract and contract.read(tool.argv) else None
    return wire.unproved(FailureCategory.NO_PROOF, why) if why else None


def _unpassed(tools: Iterable[Tool], receipts: Iterable[VerifyReceipt]) -> AttemptFailure | None:
    told = [(receipt, tool.argv) for tool, receipt in zip(tools, receipts, strict=False)]
    wrong = {name: word for name, word in unpassed(told, CATALOGUE).items() if word}
    return wire.unproved(FailureCategory.TEST_REGRESSION, describe_unpassed(wrong), wrong) if wrong else None


def _run(tool: Tool, run: ToolRun, root: str, search: str | None) -> tuple[JobResult, TestReport, bool]:
    """Return the result of a tool, its report, and whether it ran in its strict mode."""
    argv = resolve(tool.argv, search)
    if tool.strict:
        with strict_run(tool, argv, Path(root).absolute()) as strictly:
            if strictly:
                return run(strictly, tool.timeout_s, tool.cwd), NO_REPORT, True
    with reporting(tool.tool, argv, Path(root, tool.cwd)) as how:
        done = run(how, tool.timeout_s, tool.cwd)
        report, text = how.read(done.stdout)
        if how.printed:
            done = replace(done, stdout=text[-TAIL_BYTES:], stdout_bytes=len(text.encode(errors="replace")))
        return done, report, False


def _cannot_verify(tool: Tool, done: JobResult, root: str) -> CannotVerify | None:
    """Return the reason why a tool could not run; None if it ran, as after a failing test or a timeout."""
    if done.timed_out or done.exit_code == TIMED_OUT or _failing(tool, done, root).names:
        return None
    contract = CATALOGUE.contracts.get(tool.tool)
    why = why_not_run(contract, done.exit_code, done.stdout, ran_codes=tool.pass_codes)
    if not why:
        return None
    telling = next(iter((_failure(tool, done, root).evidence.stack_trace_head or "").splitlines()), "").strip()
    if telling and telling not in why:  # the last line counts errors, and does not name them
        why = f"{telling}; {why}"
    folder = None if tool.cwd == ROOT else tool.cwd
    return CannotVerify(tool=tool.tool, cwd=folder, reason=f"{' '.join(tool.argv)[:LINE_CHARS]}: {why}")


def is_there(root: str, folder: str) -> bool:
    """Return whether a folder of the clone exists, and no link on the way leads out of the clone."""
    return folder == ROOT or (Path(root, folder).is_dir() and not leads_out(Path(root), folder))


def _failure(tool: Tool, done: JobResult, root: str) -> AttemptFailure:
    failure = wire.tool_failure(tool.tool, done.stdout, done.timed_out or done.exit_code == TIMED_OUT)
    if tool.cwd == ROOT:
        return failure
    evidence = failure.evidence
    seen = {
        "top_failing_tests": tuple(_from_root(name, tool.cwd, root) for name in evidence.top_failing_tests),
        "affected_files": tuple(_from_root(name, tool.cwd, root) for name in evidence.affected_files),
    }
    return replace(failure, evidence=evidence.model_copy(update=seen))


def _failing(tool: Tool, done: JobResult, root: str) -> FailingTests:
    whole = not done.timed_out and done.stdout_bytes <= TAIL_BYTES
    output = done.stdout.replace(f"{root}/", "") if root else done.stdout
    found = failing_tests(tool.tool, tool.argv, output, whole=whole)
    return replace(found, names=tuple(_from_root(name, tool.cwd, root) for name in found.names))


def _from_root(name: str, folder: str, root: str) -> str:
    """Return a file or test, named by a tool from its folder, with its path from the root."""
    if folder == ROOT:
        return name
    file = name.partition("::")[0].partition(" > ")[0]
    return f"{folder}/{name}" if Path(root, folder, file).is_file() else name


def environment(argv: Sequence[str], root: Path) -> dict[str, str]:
    """Return our environment for a verification at `root`, without secrets and without variables that steer tools.

    Tests import the modules at `root`, and not those of a checkout that is installed on this machine.
    """
    ours = without_secrets()
    kept = {
        name: value for name, value in ours.items() if not name.startswith(STEERING) and name.lower() not in INSTALLING
    }
    if not IMPORTING.isdisjoint(argv[:RUNNER_WORDS]):
        source = root / "src"
        below = source.is_dir() and not source.is_symlink() and not (source / "__init__.py").exists()
        places = (str(source) if below else "", str(root), kept.get("PYTHONPATH", ""))
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    return kept | INSTALLING


def missing_programs(tools: Iterable[Tool], search: str | None) -> list[str]:
    """Return the programs of `tools` that are not on the path `search`, without those inside of the repository."""
    names = dict.fromkeys(resolve(tool.argv, search)[0] for tool in tools)
    return [name for name in names if ("/" not in name or name[0] == "/") and not shutil.which(name, path=search)]


def outside(root: Path, search: str | None) -> str:
    """Return the folders of the path `search` that are outside of the clone at `root`."""
    folders = (search or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    return os.pathsep.join(each for each in folders if each and not Path(each).is_relative_to(root))


def resolve(argv: Sequence[str], search: str | None = None) -> list[str]:
    """Return the argv to run; a Python tool that is not on the path is run as a module of this interpreter."""
    name, *rest = argv
    if "/" in name or shutil.which(name, path=search):
        return list(argv)
    if name in {"python", "python3"}:
        return [sys.executable, *rest]
    if name.isidentifier() and find_spec(name):
        return [sys.executable, "-m", name, *rest]
    return list(argv)
