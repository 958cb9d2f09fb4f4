"""All findings in a change: a pure function of its files before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from schemas.integrity import IntegrityFamily
from tasks.toolchain.files import Role, configures_verification, role_of
from tasks.toolchain.integrity.changed_tests import find_in_tests
from tasks.toolchain.integrity.configuration import find_loosened, is_configuration
from tasks.toolchain.integrity.finding import FAMILIES, Finding, TextChange
from tasks.toolchain.integrity.languages import signs_of
from tasks.toolchain.integrity.sources import find_in_sources, find_named_runners, find_replaced_code
from tasks.toolchain.integrity.special_cases import find_special_cases, literals_of
from tasks.toolchain.integrity.suppressions import find_suppressions

_ORDER = tuple(IntegrityFamily)
_SNAPSHOTS = (".snap", ".ambr", ".snapshot", ".golden")


def is_read(path: str) -> bool:
    """Return whether the search for findings reads a file of this name."""
    return (
        signs_of(path) is not None
        or is_configuration(path)
        or configures_verification(path)
        or path.endswith(_SNAPSHOTS)
        or (role_of(path) is Role.TEST and "__snapshots__" in path)
    )


def find(
    changes: Sequence[TextChange], failing: Collection[str] = (), tests: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Return the findings of a change, the gravest kind first, then by place.

    `failing` are the names of the tests that have to pass again. `tests` maps the paths of their files to the texts
    before the change.
    """
    read = [each for each in changes if is_read(each.path) and each.before != each.after]
    return tuple(sorted(chain(_find_all(read, failing, tests or {})), key=_rank))


def find_in_file(path: str, before: str | None, after: str | None) -> tuple[Finding, ...]:
    """Return the findings in a change of one file."""
    return find([TextChange(path, before, after)])


def count(findings: Sequence[Finding]) -> dict[str, int]:
    """Count findings by kind."""
    return dict(Counter(each.kind for each in findings))


def _find_all(changes: Sequence[TextChange], failing: Collection[str], tests: Mapping[str, str]) -> Iterator[Finding]:
    yield from find_in_tests(changes, failing)
    yield from find_suppressions(changes)
    yield from find_in_sources(changes)
    yield from find_loosened(changes)
    literals = frozenset().union(*(literals_of(path, text, failing) for path, text in tests.items()))
    sources = [each for each in changes if role_of(each.path) is not Role.TEST]
    yield from find_special_cases(sources, literals)
    yield from find_replaced_code(changes, tests)
    if failing:
        yield from find_named_runners(changes)


def _rank(each: Finding) -> tuple[int, str, int]:
    return _ORDER.index(FAMILIES[each.kind]), each.path, each.line
