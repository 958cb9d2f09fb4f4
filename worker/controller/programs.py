"""The programs that an attempt runs: the agent, which reports, and the verifications, which prove."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.outcome import MAX_OUTPUT_BYTES, VerifyReceipt
from worker.controller import wire
from worker.controller.failing_tests import NONE, NOT_KNOWN, FailingTests, failing_tests
from worker.controller.readiness import CannotWork, ProviderTrouble, provider_trouble
from worker.controller.wire import MESSAGE_CHARS, AttemptFailure, Tool
from worker.sandbox.process import TAIL_BYTES, TIMED_OUT, JobResult
from worker.sandbox.process import environment as without_secrets

AgentRun = Callable[[Sequence[str], float, bytes], JobResult]  # an argv, seconds, and what it reads
ToolRun = Callable[[Sequence[str], float], JobResult]  # an argv and seconds

MOST = 10**12
REPORTED = frozenset(
    {"tokens_used", "patch_cycles", "tool_calls", "output", "suggestion", "nothing_to_change", "released"}
)
NOT_STARTED = (126, 127)  # as a shell says it, and our launcher
# Variables, by how they begin, that choose the options, the configuration or the code of a tool of the catalogue.
STEERING = (
    *("GOFLAGS", "GOENV", "GOWORK", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "CTEST_", "RUFF_", "TOX", "MYPYPATH"),
    *("MYPY_CONFIG", "ESLINT_", "NODE_OPTIONS", "JEST_", "VITEST_", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS"),
)
IMPORTING = frozenset({"pytest", "unittest"})  # they import what they test
RUNNER_WORDS = 3  # such as `python -m pytest`
NPX = {"npm_config_yes": "false"}  # npx runs what the project has, and downloads nothing that is called so


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What the agent says of its work; about files and tests git and the verification are asked instead."""

    tokens_used: int | None = None
    patch_cycles: int | None = None
    tool_calls: int | None = None
    output: Any = None
    nothing_to_change: str | None = None  # why, if it says so
    failure: AttemptFailure | None = None
    trouble: CannotWork | None = None  # what kept it from its work, which is no failure of it


def ask_agent(run: AgentRun, argv: Sequence[str], spec: bytes, timeout_s: float, *, whole: bool = False) -> AgentReport:
    """Run the agent with `spec` on its standard input; raises what `run` does.

    Without a report all that it prints is its answer: JSON where it is some, else text, cut unless it must be `whole`.
    """
    if not argv:
        return AgentReport(failure=wire.advice("this controller has no agent command"))
    done = run(argv, timeout_s, spec)
    # The report stands on the last line; a JSON object without a word of a report is an answer, and none of it.
    last = _json(done.stdout.rstrip().rpartition("\n")[2])
    said = last if isinstance(last, dict) and last.keys() & REPORTED else {}
    suggestion = _text(said.get("suggestion"))
    failure = None
    if done.timed_out:
        failure = wire.agent_timeout(timeout_s, done.stderr[-MESSAGE_CHARS:])
    elif done.exit_code:
        tail = done.stderr[-MESSAGE_CHARS:].strip() or f"the agent ended with exit code {done.exit_code}"
        failure = wire.agent_failure(tail, suggestion)
    return AgentReport(
        tokens_used=_count(said.get("tokens_used")),
        patch_cycles=_count(said.get("patch_cycles")),
        tool_calls=_count(said.get("tool_calls")),
        output=said.get("output") if said else _answer(done.stdout, whole=whole),
        nothing_to_change=_text(said.get("nothing_to_change")),
        failure=failure,
        trouble=_trouble(done, said.get("released")),
    )


def _trouble(done: JobResult, said: Any) -> CannotWork | None:
    """Say what kept the agent from its work: as it says itself, or as providers of models are known to say it."""
    if reason := _text(said):
        return ProviderTrouble(reason)
    if done.timed_out or not done.exit_code:
        return None
    if done.exit_code in NOT_STARTED:
        return CannotWork(f"the agent could not be started: {done.stderr[-MESSAGE_CHARS:].strip()}")
    line = provider_trouble(f"{done.stdout[-MESSAGE_CHARS:]}\n{done.stderr[-MESSAGE_CHARS:]}")
    return ProviderTrouble(line) if line else None


def _answer(stdout: str, *, whole: bool) -> Any:
    """Take what was printed as the answer: most agent commands simply print theirs."""
    text = stdout.strip()
    if isinstance(said := _json(text), dict | list):
        return said
    return (text if whole else text.encode()[: MAX_OUTPUT_BYTES // 2].decode(errors="ignore")) or None


def _json(text: str) -> Any:
    try:
        return codec.loads(text)
    except codec.DecodeError:
        return None


def _text(value: Any) -> str | None:
    return value[:MESSAGE_CHARS] if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The proof of what ran, and the first failure."""

    receipts: tuple[VerifyReceipt, ...] = ()
    failure: AttemptFailure | None = None
    failing: FailingTests = NONE  # that tools which ran found
    finding: AttemptFailure | None = None  # of the last exit code that says something was found, and passes

    @property
    def passed(self) -> bool | None:
        """Say whether the tests passed; None if there were none."""
        return self.failure is None if self.receipts else None


def verify(tools: Iterable[Tool], run: ToolRun, root: str = "", search: str | None = None) -> VerificationResult:
    """Have each of `tools` done by `run`, under its timeout; raises what `run` does.

    Names of failing tests have their paths from `root`, so that they are the same in every clone. Programs lie on the
    path `search`, which is ours unless given.
    """
    receipts: list[VerifyReceipt] = []
    finding: AttemptFailure | None = None
    failing = NONE
    for tool in tools:
        # No planner of today sends a word that pytest, ruff, mypy or tsc take for a file of options; a plan that an
        # older one made, and that is still under way, may hold one.
        if word := next((word for word in tool.argv if word.startswith("@")), None):
            return VerificationResult(
                tuple(receipts), wire.advice(f"{tool.tool} would read options from {word!r}"), NOT_KNOWN
            )
        done = run(resolve(tool.argv, search), tool.timeout_s)
        receipts.append(VerifyReceipt(tool=tool.tool, exit_code=done.exit_code, output_digest=done.digest))
        if done.timed_out or done.exit_code not in tool.pass_codes:
            failure = wire.tool_failure(tool.tool, done.stdout, done.timed_out or done.exit_code == TIMED_OUT)
            return VerificationResult(tuple(receipts), failure, failing.joined(_failing(tool, done, root)))
        if done.exit_code:
            finding = wire.tool_failure(tool.tool, done.stdout, timed_out=False)
            failing = failing.joined(_failing(tool, done, root))
    return VerificationResult(tuple(receipts), failing=failing, finding=finding)


def _failing(tool: Tool, done: JobResult, root: str) -> FailingTests:
    whole = not done.timed_out and done.stdout_bytes <= TAIL_BYTES
    output = done.stdout.replace(f"{root}/", "") if root else done.stdout
    return failing_tests(tool.tool, tool.argv, output, whole=whole)


def environment(argv: Sequence[str], root: Path) -> dict[str, str]:
    """Return our environment for a verification of what lies at `root`: without secrets and without what steers tools.

    Tests import the modules that lie there, and not those of a checkout that is installed on this machine.
    """
    ours = without_secrets()
    kept = {name: value for name, value in ours.items() if not name.startswith(STEERING) and name.lower() not in NPX}
    if not IMPORTING.isdisjoint(argv[:RUNNER_WORDS]):
        source = root / "src"
        below = source.is_dir() and not source.is_symlink() and not (source / "__init__.py").exists()
        places = (str(source) if below else "", str(root), kept.get("PYTHONPATH", ""))
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    return kept | NPX


def missing_programs(tools: Iterable[Tool], search: str | None) -> list[str]:
    """Name the programs of `tools` that are not on the path `search`; those of the repository are its own matter."""
    names = dict.fromkeys(resolve(tool.argv, search)[0] for tool in tools)
    return [name for name in names if ("/" not in name or name[0] == "/") and not shutil.which(name, path=search)]


def resolve(argv: Sequence[str], search: str | None = None) -> list[str]:
    """Return the argv to run: a Python tool that is not on PATH, or on the path `search`, is a module beside us."""
    name, *rest = argv
    if "/" in name or shutil.which(name, path=search):
        return list(argv)
    if name in {"python", "python3"}:
        return [sys.executable, *rest]
    if name.isidentifier() and find_spec(name):
        return [sys.executable, "-m", name, *rest]
    return list(argv)
