"""Finds the files that made a patching step fail, if only earlier steps could change them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from schemas.base import FailureCategory as C
from tasks.plan.snapshot import Step
from tasks.policy.narrowing import Evidence, names_file
from tasks.policy.sources import Source
from tasks.rules.permission import is_permitted
from tasks.text.paths import clean
from tasks.toolchain.files import Role, role_of, stem_of, subject_of

CODE = frozenset({Role.SOURCE, Role.MANIFEST})
NOT_LOADED = frozenset({C.IMPORT_ERROR, C.COMPILATION_ERROR})


def files_to_blame(
    step: Step, evidence: Evidence, sources: Iterable[Source], tightened: Collection[str] | None
) -> tuple[str, ...]:
    """Return files that `sources` landed, that the step may not change, and that the evidence of its failure names.

    Named source files come first, then files that failing tests are named after. A test file counts only if it cannot
    be loaded. If the evidence also names sources of the step itself, the step is first tried again.
    """
    landed = dict.fromkeys(path for each in sources for path in each.files(tightened))
    others = [path for path in landed if not is_permitted(step.facts, path)]
    code = [path for path in others if role_of(path) in CODE]
    subjects = {subject_of(test.partition("::")[0]) for test in evidence.tests}
    traced = [path for path in code if _is_named(path, evidence.files)]
    tested = [path for path in code if stem_of(path) in subjects]
    tests = [path for path in others if role_of(path) is Role.TEST and _is_named(path, evidence.files)]
    found = traced or tested or (tests if evidence.category in NOT_LOADED else [])
    own = [path for path in step.facts["allowed_files"] if role_of(path) in CODE]
    own_named = any(_is_named(path, evidence.files) for path in own) or any(
        role_of(path) in CODE and is_permitted(step.facts, path) for path in map(clean, evidence.files)
    )
    own_tested = not traced and any(stem_of(path) in subjects for path in own)
    return () if (own_named or own_tested) and step.status.failures < 2 else tuple(found)


def tests_of_others(step: Step, tests: Iterable[str]) -> tuple[str, ...]:
    """Return the failing tests that may pass without the step's change: neither its own nor named after its files."""
    own = {stem_of(path) for path in step.facts["allowed_files"]}
    files = {test: test.partition("::")[0] for test in tests}
    return tuple(
        test for test, path in files.items() if not is_permitted(step.facts, path) and subject_of(path) not in own
    )


def _is_named(path: str, named: Sequence[str]) -> bool:
    return any(names_file(path, each) for each in named)
