"""A sample that looks again: small mistakes put into a verified change, and whether its tests notice them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time

from schemas.integrity import MOST_MUTANTS
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import Role, role_of
from tasks.toolchain.integrity.finding import Finding, TextChange
from tasks.toolchain.mutants import mutants_of
from worker.controller import programs
from worker.controller.changes import Changes, leads_out
from worker.controller.wire import Tool
from worker.controller.worktree import Worktree

KIND = "mutant_survives"
MOST_SECONDS = 300.0  # after which no other mutant begins
_APART = 2  # seconds: builds and caches of byte code tell texts apart by the time of the file, in whole ones


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tests of an attempt are run again, on the tree that has its change."""

    tree: Worktree
    tools: Sequence[Tool]
    run: programs.ToolRun
    search: str | None = None  # the path that programs lie on

    def find_survivors(self, changes: Changes, count: int) -> list[Finding]:
        """List those of up to `count` mutants of a change on which the tests pass.

        Files are as they were afterwards, but for their times. No mutant begins after five minutes.
        """
        tools = [tool for tool in self.tools if _is_test(tool)]
        if not (count and tools and changes.tree):
            return []
        texts = [TextChange(*each) for each in self.tree.texts(changes, lambda path: role_of(path) is Role.SOURCE)]
        root, ends = self.tree.root, monotonic() + MOST_SECONDS
        found = []
        for mutant in mutants_of(texts, min(count, MOST_MUTANTS)):
            if monotonic() >= ends or leads_out(root, mutant.path):
                break
            with _placed(root / mutant.path, mutant.text):
                ended = programs.verify(tools, self.run, str(root), self.search)
            if ended.failure is None:
                found.append(Finding(KIND, mutant.path, mutant.line, mutant.what))
        return found


def _is_test(tool: Tool) -> bool:
    contract = CATALOGUE.contracts.get(tool.tool)
    return contract is not None and contract.category is ToolCategory.TEST


@contextmanager
def _placed(path: Path, text: str) -> Iterator[None]:
    was = path.read_bytes()
    _write(path, text.encode(errors="replace"))
    try:
        yield
    finally:
        _write(path, was)


def _write(path: Path, data: bytes) -> None:
    """Write a file that is there, and give it a time that it has not had."""
    newest = max(path.stat().st_mtime, time())
    file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    try:
        with os.fdopen(file, "wb", closefd=False) as out:
            out.write(data)
        os.utime(file, (newest + _APART, newest + _APART))
    finally:
        os.close(file)
