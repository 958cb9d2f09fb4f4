"""Judges a verified change a second time: with the tests of the base, and with the controller's held-out tests.

Each judgement runs in a separate clone that no agent gets. Held-out tests are reported only by their digest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, zip_longest

from schemas.integrity import MOST_PLACES, WHAT_CHARS, Integrity, IntegrityPlace
from schemas.outcome import BaseJudgement, Judged, ReportKind
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import is_named_as_test, tests_in
from tasks.toolchain.integrity.compared import more_often
from worker.controller.changes import FileChange, PlacedFile
from worker.controller.failing_tests import NOT_KNOWN
from worker.controller.holdout import Holdouts, WrongHoldout
from worker.controller.judge_by_holdout import Files, Layout, Verify, judge_by_holdout, reach
from worker.controller.programs import VerificationResult
from worker.controller.readiness import NotVerifiable
from worker.controller.result import Result
from worker.controller.setup import path_of
from worker.controller.wire import AttemptFailure, Spec, Tool
from worker.controller.worktree import Worktree

DIVERGES = "tests_diverge"  # the kind of a place
MOST_TESTS = 10  # named ones
MOST_LINES = 10  # of a file that are shown
PATH_CHARS = 512
NO_TESTS = 5  # the exit code of pytest and unittest where they found none

log = logging.getLogger("planner.controller")


@dataclass(frozen=True)
class Judges:
    """The judges of one attempt: its spec names the tests, and `holdouts` has the held-out ones."""

    spec: Spec
    tree: Worktree
    holdouts: Holdouts | None
    set_up: Callable[[], None]
    verify: Callable[[Sequence[Tool]], VerificationResult]

    def prepare(self) -> None:
        """Read the tests that judge; call this after each reset, before any program runs.

        Raises CannotWork or GitError if a test is missing.
        """
        by = self.spec.judged_by
        if by and self.spec.context.base_sha:
            self.tree.remember(self.spec.context.base_sha)
        self._held_out  # noqa: B018 (raises)

    @cached_property
    def _held_out(self) -> Files:
        digest = self.spec.judged_by and self.spec.judged_by.holdout
        if not digest:
            return {}
        if not self.holdouts:
            raise WrongHoldout(f"no tests {digest} are stored at this controller (--holdout DIR)")
        return self.holdouts.read(digest)

    @property
    def hold_out(self) -> bool:
        """Return whether held-out tests judge the step."""
        return bool(self.spec.judged_by and self.spec.judged_by.holdout)

    def judge(self, result: Result) -> AttemptFailure | None:
        """Judge a change, even if its verification failed. Return the failure of held-out tests; call `prepare` before.

        The result of the base's tests is stored in `result`. Raises NotVerifiable if the held-out tests could not run.
        """
        by, own, tools = self.spec.judged_by, result.verification, self.spec.verify_tools
        if not by or (own.failure and not own.failing.complete):
            return None
        files = self._files_of_base(frozenset(by.own)) if self.spec.context.base_sha else {}
        there = frozenset(self.tree.paths_taken).difference(path for path, file in files.items() if not file.there)
        there = there.union(path for path, file in files.items() if file.there)
        if by.base and self.spec.context.base_sha:
            said, found = judge_by_base(files, there, tools, own, self.verify_with)
            result.judged = Judged(base=said)
            result.integrity = with_places(result.integrity, found) if found else result.integrity
        if not by.holdout:
            return None
        held, layouts = self._held_out, [Layout(self._held_out, reach(tools, self._held_out))]
        if files:  # tests of the base: an agent may have changed them so that these pass
            there = there.union(map(os.fsdecode, held))
            gone = {path for path, file in files.items() if not file.there and path not in there}
            aimed = [at for tool in tools if (at := _without(tool, gone, there))]
            beside = {file.path: file.there for file in files.values()}
            layouts = [Layout({**beside, **held}, reach(aimed, held)), *layouts] if aimed else layouts
        try:
            failure = judge_by_holdout(by.holdout, held, layouts, own, self.verify_with, self._left_out_at_base)
        finally:
            self.tree.make_anew()  # so that no copy of them is left
        if failure:
            result.verification = replace(own, failure=failure, failing=NOT_KNOWN)  # their names may excuse no failure
        else:
            result.judged = Judged(base=result.judged.base if result.judged else None, holdout=by.holdout)
        return failure

    def _left_out_at_base(self) -> frozenset[str]:
        """Return the tests that are skipped or deselected at the base, with held-out tests in place."""
        if not self.spec.context.base_sha:
            return frozenset()
        base = {file.path: file.there for file in self.tree.differing(lambda _: True).values()}
        files, tools = {**base, **self._held_out}, reach(self.spec.verify_tools, self._held_out)
        return frozenset(name for tool in tools for name in self.verify_with(files, [tool]).left_out)

    def _files_of_base(self, own: Collection[str]) -> dict[str, FileChange]:
        is_of_tests = tests_in(self.tree.paths_remembered)
        return self.tree.differing(lambda path: path not in own and is_of_tests(path))

    def verify_with(self, files: Files, tools: Sequence[Tool]) -> VerificationResult:
        """Verify with other files in place. Raises NotVerifiable, without their names, if they cannot be placed."""
        try:
            self.tree.make_anew()
            self.set_up()
            self.tree.lay_out(files)
        except OSError as error:
            log.warning("not_judged", extra={"tool": "", "reason": str(error)})
            why = error.strerror or type(error).__name__
            raise NotVerifiable(f"the files that judge the change cannot be laid out: {why}") from None
        return self.verify(tools)


def judge_by_base(
    files: Mapping[str, FileChange],
    there: Collection[str],
    tools: Iterable[Tool],
    own: VerificationResult,
    verify: Verify,
) -> tuple[BaseJudgement, Integrity | None]:
    """Verify with `files` in their versions of the base. Return the judgement, and the places of a divergence.

    `there` are all files of that state. A verification does not get words for files that are missing in it, and does
    not run if no others are left. There is no divergence if a tool could not run, or if the base has no tests for it.
    """
    if not files:
        return BaseJudgement.SAME, None
    gone = {path for path, file in files.items() if not file.there}
    left = [aimed for tool in tools if (aimed := _without(tool, gone, there))]
    placed = {file.path: file.there for file in files.values()}
    has_tests = any(map(is_named_as_test, there))
    if has_tests and not left:
        return BaseJudgement.NOT_RUN, None
    for _ in range(2):  # a test may be flaky
        found = verify(placed, left) if left else VerificationResult()
        if found.cannot_verify:
            log.warning("not_judged", extra={"tool": found.cannot_verify.tool, "reason": found.cannot_verify.reason})
            return BaseJudgement.NOT_RUN, None
        if not found.fails_more_than(own):
            return BaseJudgement.SAME, None
        if _ran_nothing(found, has_tests=has_tests):
            return BaseJudgement.NOT_RUN if has_tests else BaseJudgement.SAME, None
    return BaseJudgement.DIVERGES, _divergence(files, found, own)


def _without(tool: Tool, gone: Collection[str], there: Collection[str]) -> Tool | None:
    """Return a verification without its words for missing files and folders; None if all such words are missing."""
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
    """Return whether `place` is one of `paths`, or a folder with one of them; False for the root."""
    return place in paths or (place not in {"", "."} and any(path.startswith(f"{place}/") for path in paths))


def _ran_nothing(found: VerificationResult, *, has_tests: bool) -> bool:
    """Return whether the failed tool is one for tests and found none; tests that it cannot build count as found."""
    if not found.receipts:
        return False
    receipt = found.receipts[-1]
    contract = CATALOGUE.contracts.get(receipt.tool)
    if contract and contract.category is not ToolCategory.TEST:
        return False
    counted = receipt.tests.collected + receipt.tests.failed if receipt.tests else 0
    found_none = receipt.report is ReportKind.WHOLE and receipt.exit_code == NO_TESTS
    return not counted and (found_none or not has_tests)


def with_places(said: Integrity | None, more: Integrity) -> Integrity:
    """Return both reports as one, with the places of `more` first."""
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
    """Yield the first lines that one version of a file has more often than the other; takes linear time."""
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
