"""Finds the effects of a change on tests and checks, from both of its trees; the planner judges them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from schemas.integrity import MOST_PLACES, WHAT_CHARS, Integrity, IntegrityPlace
from tasks.toolchain.integrity.change import count, find, is_read
from tasks.toolchain.integrity.changed_tests import files_of_tests
from tasks.toolchain.integrity.finding import Finding, TextChange
from worker.controller.changes import Changes
from worker.controller.worktree import Worktree

PATH_CHARS = 512
MOST_TESTS = 20  # failing tests whose inputs are checked

log = logging.getLogger("planner.controller")


def look_at(tree: Worktree, change: Changes, failing: Sequence[str]) -> Integrity | None:
    """Return the effects of `change` on tests and checks; None if there are none, or the change has no tree.

    `failing` are names of tests that should pass again. An error of this analysis does not end the attempt.
    """
    if not change.tree:
        return None
    try:
        files = [TextChange(*each) for each in tree.texts(change, is_read)]
        named = files_of_tests(failing[:MOST_TESTS], [each.path for each in files], tree.paths) if files else ()
        tests = tree.texts_at_reset(named)
        return report_of(find(files, failing, tests))
    except (ValueError, LookupError, RecursionError):
        log.exception("integrity_error")
        return None


def joined(known: Integrity | None, findings: Sequence[Finding]) -> Integrity | None:
    """Return the `known` findings together with new ones; None if there are none."""
    new = report_of(findings)
    if known is None or new is None:
        return known or new
    return Integrity(counts={**known.counts, **new.counts}, places=(*known.places, *new.places)[:MOST_PLACES])


def report_of(findings: Sequence[Finding]) -> Integrity | None:
    """Return findings in the form and size of an outcome; None without findings."""
    if not findings:
        return None
    places = tuple(
        IntegrityPlace(kind=each.kind, path=each.path[:PATH_CHARS], line=each.line, what=each.what[:WHAT_CHARS])
        for each in findings[:MOST_PLACES]
    )
    return Integrity(counts=count(findings), places=places)
