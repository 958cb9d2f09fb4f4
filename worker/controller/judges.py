"""Judges what was verified once more: by the tests of the base, and by those that are kept beside the controller.

Each time in a clone of its own, which no agent gets. Nothing of held-out tests is told but their digest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, zip_longest

from schemas.base import FailureCategory
from schemas.integrity import MOST_PLACES, WHAT_CHARS, Integrity, IntegrityPlace
from schemas.outcome import ReportKind
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import is_named_as_test, tests_in
from tasks.toolchain.integrity.compared import more_often
from tasks.toolchain.test_ids import file_of
from worker.controller import wire
from worker.controller.changes import FileChange, PlacedFile
from worker.controller.failing_tests import NOT_KNOWN
from worker.controller.holdout import Holdouts, WrongHoldout
from worker.controller.programs import VerificationResult
from worker.controller.readiness import NotVerifiable
from worker.controller.result import Result
from worker.controller.setup import path_of
from worker.controller.wire import AttemptFailure, Spec, Tool
from worker.controller.worktree import Worktree

DIVERGES = "tests_diverge"  # the kind of a place
MOST_TESTS = 10  # that are named
MOST_LINES = 10  # of a file that are shown
PATH_CHARS = 512

log = logging.getLogger("planner.controller")

Files = Mapping[bytes, PlacedFile | None]
Verify = Callable[[Files, Sequence[Tool]], VerificationResult]


@dataclass(frozen=True)
class Judges:
    """The judges of one attempt: its spec says which tests they use, and `holdouts` has those that are held out."""

    spec: Spec
    tree: Worktree
    holdouts: Holdouts | None
    set_up: Callable[[], None]
    verify: Callable[[Sequence[Tool]], VerificationResult]

    def prepare(self) -> None:
        """Find the tests before anybody works, after each reset; raises CannotWork or GitError if they are not here."""
        by = self.spec.judged_by
        if by and by.base and self.spec.context.base_sha:
            self.tree.remember(self.spec.context.base_sha)
        self._held_out  # noqa: B018 (raises)

    @cached_property
    def _held_out(self) -> Files:
        digest = self.spec.judged_by and self.spec.judged_by.holdout
        if not digest:
            return {}
        if not self.holdouts:
            raise WrongHoldout(f"no tests {digest} are kept beside this controller (--holdout DIR)")
        return self.holdouts.read(digest)

    def judge(self, result: Result) -> AttemptFailure | None:
        """Judge what was verified, also if that failed, by what else fails; `prepare` went before.

        What the tests of the base find is told in the integrity of `result`; the failure is that of held-out tests.
        Raises NotVerifiable where these could not run.
        """
        by, own = self.spec.judged_by, result.verification
        if not by or (own.failure and not own.failing.complete):
            return None
        if by.base and self.spec.context.base_sha:
            files = self._files_of_base(frozenset(by.own))
            there = frozenset(self.tree.paths_taken).difference(path for path, file in files.items() if not file.there)
            there = there.union(path for path, file in files.items() if file.there)
            if files and (found := judge_by_base(files, there, self.spec.verify_tools, own, self._verify_with)):
                result.integrity = with_places(result.integrity, found)
        if not by.holdout:
            return None
        try:
            failure = judge_by_holdout(by.holdout, self._held_out, self.spec.verify_tools, own, self._verify_with)
        finally:
            self.tree.make_anew()  # so that they lie nowhere any more
        if failure:
            result.verification = replace(own, failure=failure, failing=NOT_KNOWN)  # whose names are to excuse nothing
        return failure

    def _files_of_base(self, own: Collection[str]) -> dict[str, FileChange]:
        is_of_tests = tests_in(self.tree.paths_remembered)
        return self.tree.differing(lambda path: path not in own and is_of_tests(path))

    def _verify_with(self, files: Files, tools: Sequence[Tool]) -> VerificationResult:
        self.tree.lay_out(files)
        self.set_up()
        return self.verify(tools)


def judge_by_base(
    files: Mapping[str, FileChange],
    there: Collection[str],
    tools: Iterable[Tool],
    own: VerificationResult,
    verify: Verify,
) -> Integrity | None:
    """Verify with `files` as they are at the base, `there` being all files then; return what diverges, if anything.

    Verifications are not aimed at files that are gone then; those that were aimed at no other ones are left out.
    Nothing diverges where a tool could not run, or where the base has no tests that it could run.
    """
    gone = {path for path, file in files.items() if not file.there}
    left = [aimed for tool in tools if (aimed := _without(tool, gone, there))]
    placed = {file.path: file.there for file in files.values()}
    has_tests = any(map(is_named_as_test, there))
    for _ in range(2):  # a test may fail now and then
        found = verify(placed, left) if left else VerificationResult()
        if found.cannot_verify:
            log.warning("not_judged", extra={"tool": found.cannot_verify.tool, "reason": found.cannot_verify.reason})
            return None
        if not fails_more(found, own) or _ran_nothing(found, has_tests=has_tests):
            return None
    return _divergence(files, found, own)


def _without(tool: Tool, gone: Collection[str], there: Collection[str]) -> Tool | None:
    """Return a verification without its words for files and folders that are gone; None if no such word is left."""
    if _is_gone(".", tool.cwd, gone, there):
        return None
    left = [word for word in tool.argv if not _is_gone(tool.cwd, word, gone, there)]
    if len(left) == len(tool.argv):
        return tool
    aimed = any(_is_in(_place(tool.cwd, word), there) for word in left)
    return tool.model_copy(update={"argv": tuple(left)}) if aimed else None


def _is_gone(folder: str, word: str, gone: Collection[str], there: Collection[str]) -> bool:
    place = _place(folder, word)
    return _is_in(place, gone) and not _is_in(place, there)


def _place(folder: str, word: str) -> str:
    path = path_of(word)
    return os.path.normpath(f"{folder}/{path}") if path and not word.startswith("-") else ""


def _is_in(place: str, paths: Collection[str]) -> bool:
    """Whether a file, or a folder that is not the root, is among `paths`."""
    return place in paths or (place not in {"", "."} and any(path.startswith(f"{place}/") for path in paths))


def _ran_nothing(found: VerificationResult, *, has_tests: bool) -> bool:
    """Whether the tool that failed is one of tests, and had none to run."""
    if not found.receipts:
        return False
    receipt = found.receipts[-1]
    contract = CATALOGUE.contracts.get(receipt.tool)
    if contract and contract.category is not ToolCategory.TEST:
        return False
    counted = receipt.tests.collected + receipt.tests.failed if receipt.tests else 0
    return not counted and (receipt.report is ReportKind.WHOLE or not has_tests)


def judge_by_holdout(
    digest: str, files: Files, tools: Sequence[Tool], own: VerificationResult, verify: Verify
) -> AttemptFailure | None:
    """Verify with `files` put in; the failure says that they fail or did not run, and nothing of them.

    Raises NotVerifiable.
    """
    for _ in range(2):  # a test may fail now and then
        found = verify(files, tools)
        if found.cannot_verify:
            raise NotVerifiable(f"{found.cannot_verify.tool} could not run with held-out tests")
        if not fails_more(found, own):
            break
    else:
        return wire.unproved(FailureCategory.TEST_REGRESSION, f"held-out tests fail ({digest[:19]})")
    if not _all_ran([os.fsdecode(path) for path in files], found.ran, own.ran):
        why = f"no report shows that all held-out tests ran ({digest[:19]})"
        return wire.unproved(FailureCategory.NO_PROOF, why)
    return None


def _all_ran(files: Iterable[str], ran: Collection[str], before: Collection[str]) -> bool:
    """Whether a test of each file ran, or one more than before whose name has no file."""
    files = [path for path in files if is_named_as_test(path)] or [""]
    known = {file_of(name) for name in ran}
    dotted = tuple(name for name in ran if not file_of(name))
    missing = [
        path
        for path in files
        if path not in known
        and not (
            path and any(f"{name}.".startswith(f"{path.rpartition('.')[0].replace('/', '.')}.") for name in dotted)
        )
    ]
    return len(missing) <= len([name for name in dotted if name not in before])


def fails_more(found: VerificationResult, own: VerificationResult) -> bool:
    """Whether a verification fails where `own` did not."""
    if found.failure is None:
        return False
    if own.failure is None:
        return True
    return not found.failing.complete or not set(found.failing.names) <= set(own.failing.names)


def with_places(said: Integrity | None, more: Integrity) -> Integrity:
    """Put what diverges before what else is said of a change."""
    if said is None:
        return more
    counts, places = {**more.counts, **said.counts}, (*more.places, *said.places)
    return Integrity(counts=counts, places=places[:MOST_PLACES])


def _divergence(files: Mapping[str, FileChange], found: VerificationResult, own: VerificationResult) -> Integrity:
    tests = [name for name in found.failing.names if name not in own.failing.names]
    evidence = found.failure.evidence.top_failing_tests if found.failure else ()
    named = [
        _place_of(name.partition("::")[0], 0, f"fails: {name}")
        for name in islice(dict.fromkeys(tests or evidence), MOST_TESTS)
    ]
    places = (*named, *(place for path, file in files.items() for place in _differences(path, file)))
    return Integrity(counts={DIVERGES: len(places)}, places=places[:MOST_PLACES])


def _differences(path: str, file: FileChange) -> Iterator[IntegrityPlace]:
    """Yield the first lines that one version of a file has more often than the other one: that takes linear time."""
    was, now = (_lines(each) for each in (file.there, file.here))
    removed, added = list(islice(more_often(was, now), MOST_LINES)), list(islice(more_often(now, was), MOST_LINES))
    for old, new in zip_longest(removed, added):
        lines = (*((f"-{old[1].strip()}",) if old else ()), *((f"+{new[1].strip()}",) if new else ()))
        yield _place_of(path, new[0] if new else 0, " ".join(lines))
    if not (removed or added):
        yield _place_of(path, 0, "differs")


def _lines(file: PlacedFile | None) -> list[str]:
    return file[1].decode(errors="replace").splitlines() if file else []


def _place_of(path: str, line: int, what: str) -> IntegrityPlace:
    return IntegrityPlace(kind=DIVERGES, path=path[:PATH_CHARS], line=line, what=what[:WHAT_CHARS])
