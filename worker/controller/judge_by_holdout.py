"""Judges a change by tests that no agent has. They must pass, and a report must show that all of them ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.base import FailureCategory
from tasks.text.folders import outer
from tasks.toolchain.catalogue import CATALOGUE, in_folder
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import is_named_as_test
from tasks.toolchain.integrity.changed_tests import tests_of
from tasks.toolchain.test_ids import file_of, is_within, words_of
from worker.controller import wire
from worker.controller.changes import PlacedFile
from worker.controller.programs import VerificationResult
from worker.controller.readiness import NotVerifiable
from worker.controller.wire import AttemptFailure, Tool

Files = Mapping[bytes, PlacedFile | None]
Verify = Callable[[Files, Sequence[Tool]], VerificationResult]


class Layout(NamedTuple):
    """Files that are put into the clone with held-out tests, and the tools that then run."""

    files: Files
    tools: Sequence[Tool]


class _HeldOut(NamedTuple):
    """One file of held-out tests: the names, in words, of the tests that must run and of those that the file skips."""

    path: str
    tests: tuple[tuple[str, ...], ...]
    skipped: tuple[tuple[str, ...], ...]


def reach(tools: Sequence[Tool], files: Files) -> Sequence[Tool]:
    """Return `tools`; for each tool that would leave out tests in `files`, also a tool that runs these tests."""
    paths = [os.fsdecode(path) for path in files if is_named_as_test(os.fsdecode(path))]
    return [*tools, *(more for tool in tools if (more := _aimed_at(tool, paths)))]


def _aimed_at(tool: Tool, paths: Sequence[str]) -> Tool | None:
    """Return a tool for the test files that `tool` does not run; None if there are none or it cannot select."""
    found = CATALOGUE.find(tool.argv)
    if found is None or found[0].category is not ToolCategory.TEST or not found[1].positionals:
        return None
    places = [os.path.normpath(outer(place.removesuffix("..."), tool.cwd)) for place in found[1].positionals]
    left = [path for path in paths if not any(place in (".", path) or path.startswith(f"{place}/") for place in places)]
    known = in_folder(found[0].tool(tool.argv), tool.cwd)
    aimed = (CATALOGUE.confine(known, left) or CATALOGUE.narrow(known, left)) if left else None
    return tool.model_copy(update={"argv": aimed.argv}) if aimed else None


def judge_by_holdout(
    digest: str,
    files: Files,
    layouts: Sequence[Layout],
    own: VerificationResult,
    verify: Verify,
    left_out_at_base: Callable[[], Collection[str]] = frozenset,
) -> AttemptFailure | None:
    """Verify a change with the held-out tests `files` in place. Return a failure if they fail or did not all run.

    The layouts are tried in order until one can judge; the last adds no other files. A layout with further files cannot
    judge if other tests fail, too, or if the list of failing tests is incomplete. The failure reveals nothing about the
    tests. A test that is also left out at the unchanged base is ignored. Raises NotVerifiable.
    """
    held = [_read(os.fsdecode(path), file) for path, file in files.items()]
    *_, last = layouts
    for layout in layouts:
        found = _verify_twice(layout, own, verify)
        new = set(found.failing.names).difference(own.failing.names) if found.fails_more_than(own) else set()
        if any(_is_held_out(name, held) for name in new) or (layout is last and found.fails_more_than(own)):
            return wire.unproved(FailureCategory.TEST_REGRESSION, f"held-out tests fail ({digest[:19]})")
        if not found.fails_more_than(own) or found.failing.complete:
            break
    held = [each for each in held if _is_run(each)]
    left = _left_out(held, found)
    if not (left and left.difference(left_out_at_base())) and _all_ran(held, found, own.ran):
        return None
    return wire.unproved(FailureCategory.NO_PROOF, f"no report shows that all held-out tests ran ({digest[:19]})")


def _verify_twice(layout: Layout, own: VerificationResult, verify: Verify) -> VerificationResult:
    """Verify, and repeat a failed verification once: a test may be flaky."""
    for _ in range(2):
        found = verify(layout.files, layout.tools)
        if found.cannot_verify:
            raise NotVerifiable(f"{found.cannot_verify.tool} could not run with held-out tests")
        if not found.fails_more_than(own):
            break
    return found


def _read(path: str, file: PlacedFile | None) -> _HeldOut:
    found = tests_of(path, file[1].decode(errors="replace") if file else None) or {}
    above = words_of(path.split("/")[-2]) if path.endswith(".go") and "/" in path else ()  # its package
    names = [((*above, *words_of(name.partition(" (")[0])), test.skipped) for name, test in found.items()]
    return _HeldOut(path, tuple(name for name, skip in names if not skip), tuple(name for name, skip in names if skip))


def _is_run(each: _HeldOut) -> bool:
    return is_named_as_test(each.path) or (each.path.endswith(".rs") and bool(each.tests))


def _is_held_out(name: str, held: Iterable[_HeldOut]) -> bool:
    """Return whether a test with this name may be a held-out test."""
    file = file_of(name)
    return any(each.path == file if file else _is_among(name, each.tests) for each in held)


def _is_among(name: str, tests: Iterable[tuple[str, ...]]) -> bool:
    own = words_of(name)
    return any(is_within(each, own) for each in tests)


def _left_out(held: Sequence[_HeldOut], found: VerificationResult) -> set[str]:
    """Return the held-out tests that were skipped or deselected, except tests that their own file skips."""
    return {
        name
        for name in found.left_out
        if any(each.path == file_of(name) and not _is_among(name, each.skipped) for each in held)
    }


def _all_ran(held: Sequence[_HeldOut], found: VerificationResult, before: Collection[str]) -> bool:
    """Return whether a test of each file ran.

    If test names have no file, all tests of the file must have run, by name. If names cannot be read, one test more
    than before must have run.
    """
    files = {file_of(name) for name in found.ran}
    dotted = [name for name in found.ran if not file_of(name)]
    left = [each for each in held if each.path not in files and not _is_module_of(each.path, dotted)]
    named = [each for each in left if each.tests]
    if not all(any(is_within(test, words_of(name)) for name in dotted) for each in named for test in each.tests):
        return False
    unnamed = len(left) - len(named) if held else 1
    return unnamed <= len([name for name in dotted if name not in before])


def _is_module_of(path: str, names: Iterable[str]) -> bool:
    module = path.rpartition(".")[0].replace("/", ".")
    return any(name.startswith(f"{module}.") for name in names)
