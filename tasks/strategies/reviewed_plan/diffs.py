"""Unified diffs, held against their form: one file, headers that name it, hunks as long as they say.

Where a hunk lies is not judged: a plan is made before the code is migrated (spec B2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(?: .*)?")
_PREAMBLE = re.compile(
    r"diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|(?:new|deleted) file mode \d+|(?:old|new) mode \d+"
    r"|similarity index .*"
)
_NO_NEWLINE = "\\ No newline at end of file"
_COUNTED = {" ": (1, 1), "": (1, 1), "-": (1, 0), "+": (0, 1)}  # old and new lines; an empty line lost its blank
_NOWHERE = "/dev/null"


def diff_fault(diff: str, path: str) -> str | None:
    """Say what is wrong with a diff that should change `path` and nothing else; None where it is well-formed."""
    lines = diff.rstrip("\n").split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("--- ")), None)
    if start is None or not all(_PREAMBLE.fullmatch(line) for line in lines[:start]):
        return "it does not begin with `--- ` and `+++ ` headers"
    if start + 1 >= len(lines) or not lines[start + 1].startswith("+++ "):
        return "there is no `+++ ` header after `--- `"
    return _header_fault(lines[start], lines[start + 1], path) or _hunks_fault(lines[start + 2 :])


def _header_fault(old: str, new: str, path: str) -> str | None:
    named = [_named(old, "a/"), _named(new, "b/")]
    if named == [_NOWHERE, _NOWHERE]:
        return "both of its headers are /dev/null"
    wrong = next((name for name in named if name not in (path, _NOWHERE)), None)
    return None if wrong is None else f"its headers name {wrong[:100]!r} and not {path!r}"


def _named(header: str, prefix: str) -> str:
    name = header[4:].split("\t")[0].strip()
    return name if name == _NOWHERE else name.removeprefix(prefix)


def _hunks_fault(lines: Sequence[str]) -> str | None:
    heads = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if not heads or heads[0] != 0:
        return "its headers are not followed by a hunk `@@ -l,n +l,n @@`"
    for count, (start, end) in enumerate(pairwise((*heads, len(lines))), 1):
        if found := _hunk_fault(lines[start], lines[start + 1 : end]):
            return f"hunk {count} {found}"
    return None


def _hunk_fault(head: str, body: Sequence[str]) -> str | None:
    found = _HUNK.fullmatch(head)
    if found is None:
        return "does not begin with `@@ -l,n +l,n @@`"
    said = tuple(1 if count is None else int(count) for count in found.groups())
    lines = [line for line in body if line != _NO_NEWLINE]
    strange = next((line for line in lines if line[:1] not in _COUNTED), None)
    if strange is not None:
        return "has a line that begins with neither ` `, `+` nor `-`"
    counts = [_COUNTED[line[:1]] for line in lines]
    real = (sum(old for old, _ in counts), sum(new for _, new in counts))
    if real != said:
        return f"says {said[0]} old and {said[1]} new lines and has {real[0]} and {real[1]}"
    return None if any(old != new for old, new in counts) else "changes nothing"
