"""Prints what breaks the style: `python -m tests.language`, `--list AREA`, `--since main`, `--worst worker/gateway`."""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter, defaultdict

from tests.language.counting import allowed, by_area, check, lower
from tests.language.style import INSTEAD, Finding
from tests.language.texts import ROOT, Text, read_all

MOST = 40  # rows of a table


def main() -> int:
    """Print the counts by area, or what was asked for; fails if an area has more than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description="Check the language of all texts.")
    parser.add_argument("--list", metavar="AREA", help="Print each finding of an area, or of a path.")
    parser.add_argument("--since", metavar="REVISION", help="Print each finding in files that differ from a revision.")
    parser.add_argument(
        "--worst", metavar="PATH", help="Print the files below PATH, and the docstrings to rewrite first."
    )
    parser.add_argument("--write", action="store_true", help="Lower the counts that are allowed to those of today.")
    args = parser.parse_args()
    found = list(check(read_all()))
    if args.list:
        show([each for each in found if args.list == each[0].area or each[0].path.startswith(args.list)])
    elif args.since:
        changed = changed_since(args.since)
        show([each for each in found if each[0].path in changed])
    elif args.worst is not None:
        show_worst([each for each in found if each[0].area == "docstrings" and each[0].path.startswith(args.worst)])
    else:
        return show_counts(by_area(found), found, write=args.write)
    return 0


def show(found: list[tuple[Text, Finding]]) -> None:
    """Print a line for each finding."""
    for text, finding in sorted(found, key=lambda each: (each[0].path, each[0].line)):
        instead = f"  -> {INSTEAD[finding.rule]}" if finding.rule in INSTEAD else ""
        print(f"{text.path}:{text.line}: {finding.rule}: {finding.shown}{instead}")  # noqa: T201


def show_worst(found: list[tuple[Text, Finding]]) -> None:
    """Print files by their number of findings, and then docstrings."""
    files = Counter(text.path for text, _ in found)
    rules: defaultdict[tuple[str, int, str], list[str]] = defaultdict(list)
    for text, finding in found:
        rules[text.path, text.line, text.inside].append(finding.rule)
    for path, count in files.most_common(MOST):
        print(f"{count:5}  {path}")  # noqa: T201
    print()  # noqa: T201
    for (path, line, inside), broken in sorted(rules.items(), key=lambda each: -len(each[1]))[:MOST]:
        print(f"{len(broken):5}  {path}:{line} {inside}: {', '.join(broken)}")  # noqa: T201


def show_counts(counts: Counter[str], found: list[tuple[Text, Finding]], *, write: bool) -> int:
    """Print the counts by area and by rule; returns 1 if an area has more than it may."""
    if write:
        lower(counts)
    most = allowed()
    for area in sorted({*counts, *most}):
        print(f"{area:12} {counts[area]:5}  of {most.get(area, 0)} allowed")  # noqa: T201
    print(", ".join(f"{rule} {count}" for rule, count in Counter(each.rule for _, each in found).most_common()))  # noqa: T201
    return int(any(count > most.get(area, 0) for area, count in counts.items()))


def changed_since(revision: str) -> set[str]:
    """Name the files that differ from a revision."""
    command = ("git", "diff", "--name-only", revision, "--")
    return set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())


if __name__ == "__main__":
    raise SystemExit(main())
