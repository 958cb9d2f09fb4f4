"""Runs a step's verification: the commands of `verify_tools` in order, until one fails."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from schemas.outcome import VerifyReceipt
from worker.controller import evidence, process
from worker.controller.evidence import Failure
from worker.controller.spec import Tool


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


def verify(tools: Iterable[Tool], cwd: Path, wanted: Callable[[], bool]) -> Verification:
    """Run `tools` in `cwd`, each under its timeout; raises Abandoned once it is not `wanted`."""
    receipts: list[VerifyReceipt] = []
    finding: Failure | None = None
    for tool in tools:
        done = process.run(resolve(tool.argv), cwd, tool.timeout_s, wanted, merge=True)
        receipts.append(VerifyReceipt(tool=tool.tool, exit_code=done.exit_code, output_digest=done.digest))
        if done.timed_out or done.exit_code not in tool.pass_codes:
            return Verification(tuple(receipts), evidence.of_tool(tool.tool, done.stdout, done.timed_out))
        if done.exit_code:
            finding = evidence.of_tool(tool.tool, done.stdout, timed_out=False)
    return Verification(tuple(receipts), finding=finding)


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
