"""Judges fixes of public histories as changes of agents, and prints how many are refused or told of, by kind.

    python -m tests.tools.integrity_figures [--half tuned|held] [--most N] [--show] CLONE...

Each fix is judged from its trees alone: what it changes outside of tests as a repair that makes its tests pass; one
that changes tests as well once more, as a whole, as a feature. Half of the fixes are for tuning, by their digests.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.integrity import IntegrityAction
from tasks.base.policy import INTEGRITY, OF_OTHERS
from tasks.toolchain.files import Role, role_of
from tasks.toolchain.integrity.change import find, is_read
from tasks.toolchain.integrity.changed_tests import tests_of
from tasks.toolchain.integrity.finding import FAMILIES, Finding, TextChange
from tasks.toolchain.integrity.languages import signs_of
from tests.real.history import INLINE_TESTS, Repository

FIX = re.compile(r"^(?:fix|bug|hotfix)|\b(?:fix(?:e[sd])?|bug|regression|crash)\b", re.I)
NO_FIX = re.compile(
    r"^(?:merge|revert|bump|release|docs?\b|chore|ci\b|build\b)|typo|changelog|readme|docs\b|docstring|lint|flake8|mypy|pre-commit|workflow|typing|annotation",
    re.I,
)
TUNED, HELD = "tuned", "held"
MOST_BYTES = 1_000_000


class Judged(NamedTuple):
    """A fix as it was judged, and what was found."""

    name: str
    type: str
    found: tuple[Finding, ...]

    @property
    def actions(self) -> set[IntegrityAction]:
        """What the table makes of it."""
        rows = INTEGRITY.get(self.type, OF_OTHERS)
        return {rows.get(FAMILIES[each.kind], IntegrityAction.TELL) for each in self.found}


def half_of(commit: str) -> str:
    """Tell which half a fix belongs to."""
    return TUNED if int(commit[-1], 16) % 2 else HELD


def judge_all(clone: Path, most: int, half: str | None) -> Iterator[Judged]:
    """Judge the fixes of a repository, `most` of them at the most, spread over its history by their digests."""
    repository = Repository(clone)
    lines = repository.git("log", "--no-merges", "--format=%H %P\t%s").decode(errors="replace").splitlines()
    fixes = [
        about.split()
        for about, _, subject in (line.partition("\t") for line in lines)
        if FIX.search(subject) and not NO_FIX.search(subject)
    ]
    count = 0
    for ids in sorted(fixes):
        if len(ids) != 2 or (half and half_of(ids[0]) != half):
            continue
        changes = read_changes(repository, ids[1], ids[0])
        sources = [each for each in changes if signs_of(each.path) and role_of(each.path) is Role.SOURCE]
        if not sources:
            continue
        yield from judge(f"{clone.parent.name}/{clone.name} {ids[0][:10]}", changes)
        count += 1
        if count == most:
            return


def judge(name: str, changes: Sequence[TextChange]) -> Iterator[Judged]:
    """Judge a fix as a repair by its part outside of tests, and as a feature if it has another part."""
    tests = [each for each in changes if role_of(each.path) is Role.TEST]
    apart = [_with_tests(each) for each in changes if role_of(each.path) is not Role.TEST]
    failing = [f"{each.path}::{test}" for each in tests for test in _changed_tests(each)]
    texts = {each.path: each.after for each in tests if each.after}
    yield Judged(name, "repair", find(apart, failing, texts))
    if tests:
        yield Judged(name, "feature", find(changes))


def _changed_tests(each: TextChange) -> list[str]:
    was, now = tests_of(each.path, each.before) or {}, tests_of(each.path, each.after) or {}
    return [name for name, test in now.items() if name not in was or was[name].body != test.body]


def _with_tests(each: TextChange) -> TextChange:
    """Give a source of Rust before its fix the tests that it has after it."""
    if not each.path.endswith(".rs") or each.before is None or each.after is None:
        return each
    (code, mark, _), (_, _, new) = (text.partition(f"\n{INLINE_TESTS}") for text in (each.before, each.after))
    return each._replace(before=code + mark + new) if mark and new else each


def read_changes(repository: Repository, parent: str, commit: str) -> list[TextChange]:
    """Read the texts that a commit changes, of files in which anything is looked for."""
    raw = repository.git("diff-tree", "-r", "-z", "--no-renames", parent, commit).decode(errors="replace").split("\0")
    found = []
    for about, path in zip(raw[::2], raw[1::2], strict=False):
        _, mode, old, new, _ = about.split()
        if mode != "160000" and is_read(path):
            before, after = (None if set(blob) == {"0"} else _text(repository, blob) for blob in (old, new))
            found.append(TextChange(path, before, after))
    return found


def _text(repository: Repository, blob: str) -> str:
    return repository.git("cat-file", "blob", blob)[:MOST_BYTES].decode(errors="replace")


def table(judged: Sequence[Judged]) -> str:
    """Write the figures as Markdown."""
    lines = ["| judged as | fixes | refused | told of something |", "|---|---:|---:|---:|"]
    for kind in ("repair", "feature"):
        own = [each for each in judged if each.type == kind]
        refused = sum(IntegrityAction.REFUSE in each.actions for each in own)
        told = sum(IntegrityAction.TELL in each.actions for each in own)
        lines.append(f"| {kind} | {len(own)} | {_share(refused, len(own))} | {_share(told, len(own))} |")
    lines += ["", "| kind | family | fixes as repair | as feature |", "|---|---|---:|---:|"]
    counts = {
        kind: Counter(one for each in judged if each.type == kind for one in {found.kind for found in each.found})
        for kind in ("repair", "feature")
    }
    for kind, family in FAMILIES.items():
        if any(each[kind] for each in counts.values()):
            lines.append(f"| `{kind}` | `{family}` | {counts['repair'][kind]} | {counts['feature'][kind]} |")
    return "\n".join(lines)


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.1f} %)" if of else "0"


def main() -> None:
    """Print the figures of the clones that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("--half", choices=(TUNED, HELD))
    parser.add_argument("--most", type=int, default=30, help="fixes of each clone")
    parser.add_argument("--show", action="store_true", help="print what was found in each fix, too")
    asked = parser.parse_args()
    judged = [each for clone in asked.clones for each in judge_all(clone, asked.most, asked.half)]
    for each in judged if asked.show else ():
        for found in each.found:
            sys.stdout.write(f"{each.name} as {each.type}: {found.kind} {found.path}:{found.line} {found.what}\n")
    sys.stdout.write(f"{table(judged)}\n")


if __name__ == "__main__":
    main()
