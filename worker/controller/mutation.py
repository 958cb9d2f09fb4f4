"""Tests the tests: puts small mistakes (mutants) into a verified change, and runs its tests on them."""

from __future__ import annotations

import errno
import logging
import os
import stat
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
from worker.host.regular_files import IRREGULAR, folder, read_below

log = logging.getLogger("planner.controller")

KIND = "mutant_survives"
MOST_SECONDS = 300.0  # after this time no other mutant begins
MOST_BYTES = 4 * 2**20  # of a file that is mutated
_APART = 2  # seconds: builds and byte code caches compare the times of files in whole seconds


@dataclass(frozen=True, slots=True)
class Sampling:
    """Runs the tests of an attempt again, on the tree with its change."""

    tree: Worktree
    tools: Sequence[Tool]
    run: programs.ToolRun
    search: str | None = None  # the path that programs lie on

    def find_survivors(self, changes: Changes, count: int) -> list[Finding]:
        """Return the mutants of a change that its tests do not notice; `count` is the maximum number of mutants.

        All files are restored afterwards, except for their times. No mutant begins after five minutes, or after tests
        have moved or removed a mutated file. A survivor does not fail the change.
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
            try:
                with _placed(root, mutant.path, mutant.text):
                    ended = programs.verify(tools, self.run, str(root), self.search)
            except OSError as error:
                log.warning("mutant_not_placed", extra={"path": mutant.path, "reason": str(error)})
                break
            if ended.failure is None:
                found.append(Finding(KIND, mutant.path, mutant.line, mutant.what))
        return found


def _is_test(tool: Tool) -> bool:
    contract = CATALOGUE.contracts.get(tool.tool)
    return contract is not None and contract.category is ToolCategory.TEST


@contextmanager
def _placed(root: Path, path: str, text: str) -> Iterator[None]:
    was = read_below(root, path, MOST_BYTES)
    _write(root, path, text.encode(errors="replace"))
    try:
        yield
    finally:
        _write(root, path, was)


def _write(root: Path, path: str, data: bytes) -> None:
    """Overwrite a file, and set a modification time that it never had. Raises OSError.

    Tests have run before and may have changed the tree. So no folder from `root` on may be a link, and the file may
    have no other hard link.
    """
    *folders, name = (os.fsencode(part) for part in Path(path).parts)
    with folder(root.parent, [os.fsencode(root.name), *folders]) as handle:
        file = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EINVAL, IRREGULAR, path)
        os.ftruncate(file, 0)
        with os.fdopen(file, "wb", closefd=False) as out:
            out.write(data)
        newest = max(found.st_mtime, time())
        os.utime(file, (newest + _APART, newest + _APART))
    finally:
        os.close(file)
