"""Narrows the next attempt: the step may change the same files, but it looks at fewer of them first.

Names from evidence only choose among the files that a step may change. Tests are named by their ids alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.outcome import Outcome
from schemas.step import Place, PlannedStep, fields_of
from tasks.rules.permission import is_permitted
from tasks.text.fields import MAX_GUIDANCE, fit
from tasks.text.paths import clean, fault
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.classify import TREE, Family, files_of
from tasks.toolchain.files import Role, role_of

FIRST = "The last failure names these files, so look at them first:"
FIRST_TEST = "Begin with the one test"
TRACED, LIKELIEST = "The last failure names it.", "It is the likeliest file, and the last failure names none."
LESS = "change less than it did."
ONLY = "do only the work of the step."
_TEST = re.compile(
    r"(?!/)(?!.*\.\.)(?:[\w./-]{1,200}(?:::[\w-]{1,100}){1,4}(?:\[[\w.,-]{1,60}\])?|[A-Za-z_]\w{2,100}(?:[./]\w{1,100}){0,8})"
)


class Evidence(NamedTuple):
    """The known facts of a failure, as data."""

    category: C
    tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def evidence_of(failure: Mapping[str, Any], outcome: Outcome) -> Evidence:
    """Return the facts of a failure: its category, its tests, and the files that it names."""
    evidence = outcome.failure_evidence
    text = (evidence and evidence.stack_trace_head) or outcome.error_message or ""
    named = (*(evidence.affected_files if evidence else ()), *files_of(text))
    return Evidence(C(failure["category"]), tuple(failure["failing_tests"]), tuple(dict.fromkeys(named)))


def names_file(path: str, named: str) -> bool:
    """Return whether `named` means `path`: they are equal, or one ends with the other.

    So `named` may have the folder of a checkout before it, or fewer folders.
    """
    named = named.removeprefix("./")
    return path == named or named.endswith("/" + path) or path.endswith("/" + named)


def narrow_files(step: PlannedStep, evidence: Evidence, _: Catalogue) -> PlannedStep:
    """Put the files that the evidence names first, and advise to look at them, unless only tests are named.

    No file is removed, because the next attempt has to make all changes again. Only after a violation of the allowlist
    the named files are removed.
    """
    named = tuple(path for path in step.allowed_files if any(names_file(path, each) for each in evidence.files))
    others = tuple(path for path in step.allowed_files if path not in named)
    if evidence.category in TREE[Family.SANDBOX]:
        return step.model_copy(update={"allowed_files": others}) if others else step
    if not named or (not _beside_tests(named) and _beside_tests(others)):
        return step
    if not others:
        return step
    return advise(step.model_copy(update={"allowed_files": (*named, *others)}), f"{FIRST} {', '.join(named)}.")


def narrow_focus(step: PlannedStep, evidence: Evidence, _: Catalogue) -> PlannedStep:
    """Point to the file that the trace names, else to the most likely one, and to the first failing test."""
    if step.mode is not Mode.PATCH:
        return step
    named = [*_named(step, evidence)]
    path = next((each for each in named if role_of(each) is not Role.TEST), None)
    if path is None:
        likeliest = (*(place.path for place in step.focus), *step.allowed_files)
        path = next((each for each in likeliest if role_of(each) is not Role.TEST), named[0] if named else None)
    test = next((each for each in evidence.tests if _TEST.fullmatch(each)), None)
    narrowed = advise(step, f"{FIRST_TEST} {test}.") if test else step
    if path is None:
        return narrowed
    why = TRACED if path in named else LIKELIEST
    place = next((each for each in step.focus if each.path == path), None) or Place(path=path, why=why)
    return narrowed.model_copy(update={"focus": (place,)})


def change_less(step: PlannedStep, category: str, attempt: int) -> PlannedStep:
    """Ask for a smaller change than the last attempt's, in words that no earlier attempt got."""
    sentence = f"Attempt {attempt} ended with {category}: {LESS if step.mode is Mode.PATCH else ONLY}"
    kept = fit(step.guidance or "", MAX_GUIDANCE - len(sentence) - 1)
    return step.model_copy(update={"guidance": f"{kept} {sentence}".strip()})


def advise(step: PlannedStep, sentence: str) -> PlannedStep:
    """Add a sentence to the guidance of a step, unless the guidance has it or would become too long."""
    guidance = step.guidance or ""
    longer = f"{guidance} {sentence}".strip()
    if not sentence or sentence in guidance or len(longer) > MAX_GUIDANCE:
        return step
    return step.model_copy(update={"guidance": longer})


def _named(step: PlannedStep, evidence: Evidence) -> Iterator[str]:
    """Yield the files that the evidence names and the step may change, in the order of the evidence."""
    facts = fields_of(step)
    for each in evidence.files:
        yield from (path for path in step.allowed_files if names_file(path, each))
        path = clean(each)
        if path not in step.allowed_files and fault(path) is None and is_permitted(facts, path):
            yield path


def _beside_tests(files: Collection[str]) -> bool:
    """Return whether any of `files` is not a test."""
    return any(role_of(path) is not Role.TEST for path in files)
