"""Finds a named test in a report; the tool may write the name there in another form.

`tests/test_cart.py::TestCart::test_adds`, `tests.test_cart.TestCart.test_adds` and `src/cart.test.js > cart > adds` are
three forms. Names are compared by their words, without the suffix of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

_SUFFIX = re.compile(r"\.(?:py|[cm]?[jt]sx?|go|rs)\b")
_WORD = re.compile(r"\w+")
_PARAMETERS = re.compile(r"\[.*\]$", re.DOTALL)
_UNITTEST = re.compile(r"(\w+) \(")
ABSENT = "absent"
_ORDER = ("xfailed", "skipped", "deselected")


def file_of(name: str) -> str:
    """Return the file at the beginning of a test's name; "" if there is none, as in names of Go tests."""
    for between in ("::", " > "):
        file, found, _ = name.partition(between)
        if found and _SUFFIX.search(file):
            return file
    return ""


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into the words that are the same in every form of it."""
    return tuple(_WORD.findall(_SUFFIX.sub("", name)))


def word_of(name: str, known: Mapping[str, str], only: str = "") -> str:
    """Return the result of the test `name` in a report; `known` maps the ids in the report to results.

    A name may mean several tests, such as all parameters of one. Then the result is failed if one of these failed, else
    passed if one passed. If the run was limited to the one file `only`, the name of this file means all tests. Node
    names a test that a helper defines by the helper's file.
    """
    found = {known[each] for each in _meant(name, known)} or set(known.values() if name == only else ())
    return next((word for word in ("failed", "passed", *_ORDER) if word in found), ABSENT)


def _meant(name: str, known: Mapping[str, str]) -> Sequence[str]:
    if name in known:
        return (name,)
    if same := [each for each in known if _PARAMETERS.sub("", each) == name]:
        return same
    wanted = words_of(name)
    if longer := [each for each in known if is_within(wanted, words_of(each))]:
        return longer
    if inside := _titled(name, known):
        return inside
    return [each for each in known if (own := words_of(each)) and wanted[-len(own) :] == own]


def _titled(name: str, known: Mapping[str, str]) -> Sequence[str]:
    """Return the ids in `known` with the file and the title of `name`, in any suites."""
    file = words_of(file_of(name))
    title = words_of(name)[len(file) :]
    inside = (each for each in known if " > " in each and title and file and words_of(file_of(each)) == file)
    return [each for each in inside if words_of(each)[-len(title) :] == title]


def file_and_name(test: str) -> tuple[str, str]:
    """Split the name of a test into its file, empty if it has none, and its name in the file."""
    test = _PARAMETERS.sub("", test)
    file, mark, _ = test.partition("::" if "::" in test else " > ")
    has_file = bool(mark) and ("." in file or "/" in file)
    if found := _UNITTEST.match(test):
        return "", found[1]
    parts = re.split(r"::| > " if has_file else r"::| > |\.", test)
    return file if has_file else "", parts[-1]


def is_within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether `part` is not empty and its words occur in `whole`, one after another."""
    size = len(part)
    return size > 0 and any(whole[at : at + size] == part for at in range(len(whole) - size + 1))


def is_aimed_at(operands: Iterable[str], name: str) -> bool:
    """Return whether a path or name of a test among a command's `operands` is the test `name`, or contains it."""
    wanted = words_of(name)
    return any((own := words_of(each)) and (is_within(own, wanted) or is_within(wanted, own)) for each in operands)
