"""Counts the findings or failed tests in a tool's output: line by line, or by the summary in its last line.

Code that cuts an output to its first lines adds this summary, so the counts are those of the whole output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tasks.text.fields import fit

MAX_RULES = 3  # that are named
MAX_WORDS = 60
MAX_LAST = 40  # characters of the planner's last line

_LAST = re.compile(
    r"(?:\d+ of )?(?P<total>\d{1,9}) (?P<what>failed tests?|findings? in \d+ files?[^:]{0,80}: (?P<rules>.{1,400}))"
)
_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_RULES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^[^\n]{0,400}?:\d+(?::\d+)?:? ([A-Z]{1,5}\d{2,5}|(?=[^\s/-]*[/-])[a-z@][\w@/.-]*)(?::| )",  # SARIF
        r"^([A-Z]{1,5}\d{2,5}) [^\n]*\n[ \t]*--> ",  # ruff in full
        r": error: [^\n]*\[([a-z][a-z0-9-]+)\]$",  # mypy
        r"\((report[A-Z]\w+)\)$",  # pyright
        r"\berror (TS\d{4,5}):",
        r"^[ \t]+\d+:\d+[ \t]+(?:error|warning)[ \t]+\S(?:[^\n]*\S)?[ \t]{2,}([\w@/-]+)$",  # eslint
        r"^>> Issue: \[(B\d{3}):",  # bandit
    )
)


def sum_up_findings(free: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[str]], shown: int) -> str:
    """Return the summary line after `shown` findings: their number, the number of files, and the count of each rule.

    `free` and `others` contain the rules of the findings by file. Only rules in `free` files, which may change, are
    counted; if there are no such files, all are.
    """
    counted = [rule[:100] or "no rule" for rules in (free or others).values() for rule in rules]
    total, files = sum(map(len, (*free.values(), *others.values()))), len(free) + len(others)
    among = f", {len(counted)} of them in {len(free)} that may change" if free and others else ""
    found = f"{_of(shown, total)} {_many(total, 'finding')} in {files} {_many(files, 'file')}"
    return f"{found}{among}: {_by_rule(Counter(counted))}"


def sum_up_tests(total: int, shown: int) -> str:
    """Return the summary line after the names of `shown` out of `total` failed tests."""
    return f"{_of(shown, total)} failed {_many(total, 'test')}"


def tell_tally(evidence: str, outside: Sequence[str] = ()) -> str:
    """Return the number of findings or failed tests in `evidence` as a phrase; empty if nothing can be counted.

    Lines that name a file in `outside` do not count, unless the evidence is about failed tests.
    """
    tests = tuple(dict.fromkeys(_TEST.findall(evidence)))
    if outside and not tests:
        kept = (line for line in evidence.splitlines() if not any(path in line for path in outside))
        evidence = "\n".join(kept)
    said = _LAST.fullmatch(last_line(evidence))
    if said and said["rules"]:
        return fit(said["rules"], MAX_WORDS)
    count = int(said["total"]) if said else len(tests)
    rules = () if count else next(filter(None, (pattern.findall(evidence) for pattern in _RULES)), ())
    if rules:
        return fit(_by_rule(Counter(rules)), MAX_WORDS)
    return fit(tests[0], MAX_WORDS) if count == 1 and tests else f"{count} {_many(count, 'test')}" if count else ""


def shorten(evidence: str, size: int) -> str:
    """Return the first whole lines of `evidence` within `size` characters, and a last line that counts them."""
    if len(evidence) <= size:
        return evidence
    evidence = evidence.rstrip()
    if len(evidence) <= size:  # also if only blanks are left out
        return evidence
    *lines, last = evidence.splitlines()
    said = _LAST.fullmatch(last)
    every = lines if said else [*lines, last]
    kept = tuple(first_lines(every, size - MAX_LAST - (len(last) if said else 0)))
    if not kept:  # a single line is longer than the capacity
        return evidence[:size]
    if said is None:
        return "\n".join((*kept, f"... {len(kept)} of {len(every)} lines"))
    shown = len(kept) if said["rules"] else len(_TEST.findall("\n".join(kept)))
    return "\n".join((*kept, f"{_of(shown, int(said['total']))} {said['what']}"))


def first_lines(lines: Sequence[str], room: int) -> Iterator[str]:
    """Yield the first of `lines` that fit into `room` characters; a line end counts as one character."""
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def last_line(text: str) -> str:
    """Return the last line of a text."""
    return text.rstrip().rpartition("\n")[2]


def _by_rule(counts: Counter[str]) -> str:
    named = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    texts = (_first_rules([f"{rule} ({count})" for rule, count in named], size) for size in range(MAX_RULES, 0, -1))
    return next((text for text in texts if len(text) <= MAX_WORDS), f"{counts.total()} of {len(counts)} rules")


def _first_rules(parts: Sequence[str], size: int) -> str:
    more = len(parts) - size
    return ", ".join(parts[:size]) + (f" and {more} more {_many(more, 'rule')}" if more > 0 else "")


def _of(shown: int, total: int) -> str:
    return f"{shown} of {total}" if shown < total else str(total)


def _many(count: int, thing: str) -> str:
    return thing if count == 1 else f"{thing}s"
