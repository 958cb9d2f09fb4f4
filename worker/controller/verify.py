"""Runs a step's verification: the commands of `verify_tools` in order, until one fails."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from schemas.outcome import VerifyReceipt
from worker.controller import evidence
from worker.controller.evidence import Failure
from worker.controller.spec import Tool
from worker.sandbox.process import Finished
from worker.sandbox.process import environment as without_secrets

# Variables, by how they begin, that choose the options, the configuration or the code of a tool of the catalogue.
STEERING = (
    *("GOFLAGS", "GOENV", "GOWORK", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "CTEST_", "RUFF_", "TOX", "MYPYPATH"),
    *("MYPY_CONFIG", "ESLINT_", "NODE_OPTIONS", "JEST_", "VITEST_", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS"),
)
NPX = {"npm_config_yes": "false"}  # npx runs what the project has, and downloads nothing that is called so

Run = Callable[[Sequence[str], float], Finished]  # an argv and seconds


@dataclass(frozen=True, slots=True)
class Verification:
    """The proof of what ran, and the first failure."""

    receipts: tuple[VerifyReceipt, ...] = ()
    failure: Failure | None = None
    finding: Failure | None = None  # the last one that was told by an exit code that passes all the same

    @property
    def passed(self) -> bool | None:
        """Say whether the tests passed; None if there were none."""
        return self.failure is None if self.receipts else None


def verify(tools: Iterable[Tool], run: Run) -> Verification:
    """Have each of `tools` done by `run`, under its timeout; raises what `run` does."""
    receipts: list[VerifyReceipt] = []
    finding: Failure | None = None
    for tool in tools:
        if word := _read_from_file(tool.argv):
            return Verification(tuple(receipts), evidence.of_advice(f"{tool.tool} would read options from {word!r}"))
        done = run(resolve(tool.argv), tool.timeout_s)
        receipts.append(VerifyReceipt(tool=tool.tool, exit_code=done.exit_code, output_digest=done.digest))
        if done.timed_out or done.exit_code not in tool.pass_codes:
            return Verification(tuple(receipts), evidence.of_tool(tool.tool, done.stdout, done.timed_out))
        if done.exit_code:
            finding = evidence.of_tool(tool.tool, done.stdout, timed_out=False)
    return Verification(tuple(receipts), finding=finding)


def environment() -> dict[str, str]:
    """Return our environment without what is private to us, or would choose how a verification runs."""
    ours = without_secrets()
    kept = {name: value for name, value in ours.items() if not name.startswith(STEERING) and name.lower() not in NPX}
    return kept | NPX


def _read_from_file(argv: Sequence[str]) -> str | None:
    """Find a word that pytest, ruff, mypy or tsc take for a file of options.

    No planner of today sends one; a plan that an older one made, and that is still under way, may hold one.
    """
    return next((word for word in argv if word.startswith("@")), None)


def resolve(argv: Sequence[str]) -> list[str]:
    """Find the program on PATH; a Python tool that is only installed beside us runs as a module of our interpreter."""
    name, *rest = argv
    if "/" in name or shutil.which(name):
        return list(argv)
    if name in {"python", "python3"}:
        return [sys.executable, *rest]
    if name.isidentifier() and find_spec(name):
        return [sys.executable, "-m", name, *rest]
    return list(argv)
