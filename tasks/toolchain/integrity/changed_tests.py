"""Finds changed tests: removed, renamed, skipped or weakened ones, over all files of a change.

A test that moves to another file does not count as removed. Assertions that move between tests of a file do not count
as missing, unless they leave a test that has to pass again. If a file has as many tests and comparisons as before, its
missing tests count as replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from tasks.toolchain.files import SNAPSHOTS, Role, role_of
from tasks.toolchain.integrity import marked_tests, python_tests
from tasks.toolchain.integrity.finding import Finding, Test, TextChange
from tasks.toolchain.integrity.languages import PYTHON, signs_of
from tasks.toolchain.test_ids import file_and_name

ALIKE = 0.6  # share of equal words; from here on one test is the other under a new name
MOST_BESIDE = 50  # files of tests in the folders of a change
MOST_PAIRED = 40  # tests of a file that are compared
MOST_WORDS = 500  # of a test
MOST_PAIRS = 400_000  # of words of a file's tests, that are compared in their order
Named = Mapping[str, Test]


def tests_of(path: str, text: str | None) -> Named | None:
    """Return the tests of a file by name; None if the file contains no tests by its name, or cannot be parsed.

    Tests with equal names get a number: the second `test_a` is `test_a (2)`. Empty if the file does not exist.
    """
    signs = signs_of(path)
    if signs is None or (signs is PYTHON and role_of(path) is not Role.TEST):
        return None
    if text is None:
        return {}
    if signs.tests is None:
        found = python_tests.read_tests(text)
    elif role_of(path) is Role.TEST or path.endswith(".rs"):
        found = marked_tests.read_tests(text, signs.tests)
    else:
        return None
    if found is None:
        return None
    named: dict[str, Test] = {}
    for each in found:
        name, number = each.name, 2
        while name in named:
            name, number = f"{each.name} ({number})", number + 1
        named[name] = each
    return named


def find_in_tests(changes: Sequence[TextChange], failing: Collection[str] = ()) -> Iterator[Finding]:
    """Yield the findings about tests; `failing` are names of tests that have to pass again."""
    read = [(each, tests_of(each.path, each.before), tests_of(each.path, each.after)) for each in changes]
    came = {name for each, was, now in read if now and was is not None for name in now.keys() - was.keys()}
    came |= {name for each, was, now in read if now and was is None for name in now}
    for each, was, now in read:
        yield from _snapshots(each)
        yield from _runs_only(each)
        if (
            each.before != each.after
            and not was
            and not now
            and role_of(each.path) is Role.TEST
            and signs_of(each.path)
        ):
            yield Finding("support_changed", each.path, 1, "a file of tests that has no test differs")
        if was is None:
            continue
        if now is None:  # it cannot be parsed any more, so no runner can either
            if each.after is not None and was:
                yield Finding("test_removed", each.path, 1, f"{len(was)} tests cannot be read any more")
            continue
        found = [*_compare(each.path, was, now, came, failing)]
        yield from found
        if failing and not found and each.path.endswith(".py"):
            yield from _used_otherwise(each, now, failing)


def _used_otherwise(each: TextChange, now: Named, failing: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each failing Python test that uses a name whose meaning its file changes."""
    was, are = (python_tests.read_bindings(text or "") for text in (each.before, each.after))
    for name, test in now.items():
        if any(is_named(name, each.path, one) for one in failing):
            used = sorted(word for word in was if was[word] != are.get(word) and re.search(rf"\b{word}\b", test.body))
            if used:
                yield Finding("failing_test_changed", each.path, test.line, f"{name}: {used[0]} is another one", name)


def _snapshots(each: TextChange) -> Iterator[Finding]:
    is_one = each.path.endswith(SNAPSHOTS) or "/__snapshots__/" in f"/{each.path}"
    if not is_one or each.before is None:
        return
    gone = set(each.before.splitlines()) - set((each.after or "").splitlines())
    if gone:
        yield Finding("snapshot_rewritten", each.path, 1, f"{len(gone)} lines are gone")


def _runs_only(each: TextChange) -> Iterator[Finding]:
    signs = signs_of(each.path)
    only = signs.tests.only if signs and signs.tests else None
    if only is None or each.after is None or role_of(each.path) is not Role.TEST:
        return
    before = len(only.findall(each.before or ""))
    for found in [*only.finditer(each.after)][before:]:
        line = each.after.count("\n", 0, found.start()) + 1
        yield Finding("tests_deselected", each.path, line, found[0])


def _compare(path: str, was: Named, now: Named, came: Collection[str], failing: Collection[str]) -> Iterator[Finding]:
    renamed = _pair(was, now)
    lost = sum(each.assertions for each in was.values()) - sum(each.assertions for each in now.values())
    gone = [name for name in was if name not in now and name not in renamed and name not in came]
    lost -= sum(was[name].assertions for name in was if name not in now and name not in renamed)
    replaces = len(now) >= len(was) and _strong(now) >= _strong(was)
    for name in gone:
        if not was[name].skipped:
            is_other = replaces and not any(is_named(name, path, each) for each in failing)
            yield Finding("test_replaced" if is_other else "test_removed", path, was[name].line, name, name)
    for name, test in was.items():
        other = now.get(renamed.get(name, name))
        if other is None:
            continue
        if name in renamed:
            yield Finding("test_renamed", path, other.line, f"{name} is {renamed[name]}", name)
        is_failing = any(is_named(name, path, each) for each in failing)
        found = [*_weakened(path, name, test, other, loses=is_failing or lost > 0)]
        if is_failing and not found and max(other.exact, other.exact_parts) < test.exact:
            found = [Finding("assertion_weakened", path, other.line, f"{name}: more than one value passes now", name)]
        if is_failing and not found and (test.body, test.marks) != (other.body, other.marks):
            found = [Finding("failing_test_changed", path, other.line, name, name)]
        yield from found


def _strong(tests: Named) -> int:
    return sum(test.strong for test in tests.values() if not test.skipped)


def is_named(test: str, path: str, failing: str) -> bool:
    """Return whether `failing`, such as tests/test_a.py::test_x[1] or shop.TestAdds, names this test of a file."""
    file, name = file_and_name(failing)
    if file and not (file == path or path.endswith(f"/{file}") or file.endswith(f"/{path}")):
        return False
    return test.rpartition("::")[2].strip("'\"`") == name


def _weakened(path: str, name: str, was: Test, now: Test, *, loses: bool) -> Iterator[Finding]:
    if now.skipped and not was.skipped:
        kind = "skipped_on_windows" if python_tests.is_on_windows(now.skipped) else "test_skipped"
        yield Finding(kind, path, now.line, f"{name}: {now.skipped}", name)
    if was.body == now.body and was.cases == now.cases:
        return
    if now.cases < was.cases and loses | (was.body == now.body):
        yield Finding("cases_removed", path, now.line, f"{name}: {was.cases} cases before, {now.cases} now", name)
    told = f"{name}: {was.assertions} assertions before, {now.assertions} now"
    if was.assertions and not now.assertions and now.cases >= was.cases:
        if loses:
            yield Finding("test_emptied", path, now.line, told, name)
    elif now.assertions < was.assertions:
        if loses and now.compared < was.assertions:
            yield Finding("assertion_removed", path, now.line, told, name)
    elif was.strong > now.strong and now.assertions - now.strong > was.assertions - was.strong:
        yield Finding("assertion_weakened", path, now.line, f"{name}: an assertion compares less than before", name)


def _pair(was: Named, now: Named) -> dict[str, str]:
    """Map the names of missing tests to the names of similar new tests in the same file."""
    gone = [name for name in was if name not in now][:MOST_PAIRED]
    new = [name for name in now if name not in was][:MOST_PAIRED]
    pairs: dict[str, str] = {}
    left = MOST_PAIRS
    for name in gone:
        ranked: list[tuple[float, str]] = []
        for other in new:
            likeness, taken = _compare_words(was[name], now[other], left)
            ranked, left = [*ranked, (likeness, other)], left - taken
        ranked.sort(reverse=True)
        if ranked and ranked[0][0] >= ALIKE:
            pairs[name] = ranked[0][1]
            new.remove(ranked[0][1])
    return pairs


def _compare_words(one: Test, other: Test, most: int) -> tuple[float, int]:
    """Return the similarity of two tests, from 0 to 1, and the cost of the comparison in pairs of words.

    If the cost is above `most`, only the counts of words are compared, not their order. The author of a change may have
    made tests that are expensive to compare.
    """
    this, that = (each.body.split()[:MOST_WORDS] for each in (one, other))
    matcher, pairs = SequenceMatcher(None, this, that, autojunk=False), len(this) * len(that)
    likeness = matcher.quick_ratio()  # at least `ratio`
    return (likeness, 0) if likeness < ALIKE or pairs > most else (matcher.ratio(), pairs)


def files_of_tests(failing: Iterable[str], changed: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the files that the names of the `failing` tests contain.

    If a name contains no file, the files of tests in the folders of the `changed` files are added. In Rust the changed
    files themselves are added, too.
    """
    found = [file_and_name(each)[0] for each in failing]
    if all(found):
        return tuple(dict.fromkeys(found))
    folders = {path.rpartition("/")[0] for path in changed}
    inline = [path for path in changed if path.endswith(".rs")]
    beside = [path for path in known if path.rpartition("/")[0] in folders and role_of(path) is Role.TEST]
    return tuple(dict.fromkeys((*filter(None, found), *inline, *beside[:MOST_BESIDE])))
