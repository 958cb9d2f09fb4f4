"""Checks a plan's log as a chain: each line has to contain the digest of the line before it.

Without an anchor a chain is consistent at best: an attacker who changes a line can compute all later digests again. An
anchor is the digest of a line, noted elsewhere. It proves that this line and all lines before it are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from schemas import codec
from tasks.base.log_chain import digest_line
from tasks.plan.lifecycle import PLAN_ENDS

HEAD_PATTERN = r"[A-Za-z0-9_-]{32}"  # a digest, as text
MAX_LINE_BYTES = 32 * 1024 * 1024  # a batch of outcomes has 4 MB, a goal 8 MB: no worker writes a longer line
RECENT = 1000  # digests that are kept to find the original place of a line
BEHIND = 1_000_000  # lines after a fault that are read to explain it; further lines are only counted


class Anchor(NamedTuple):
    """The digest of a log line, noted in a place that a writer of the log cannot change.

    `lines` is the number of log lines up to this line, None if it was not noted.
    """

    head: str
    lines: int | None = None


class Fault(NamedTuple):
    """The first place where a log differs from the log that was written; `what` is changed, dropped, added or moved."""

    line: int  # counted from 1; for dropped lines, their place
    what: str
    why: str


class Finding(NamedTuple):
    """The result of a check: the number of lines, the first fault, and how many lines the anchor proves."""

    lines: int
    head: str | None  # of the last line; None where there is a fault
    fault: Fault | None = None
    tied: int = 0  # the anchor ties all lines up to this one

    @property
    def result(self) -> str:
        """The verdict: unchanged if the anchor proves all lines, else consistent; tampered if there is a fault."""
        if self.fault:
            return "tampered"
        return "unchanged" if self.tied == self.lines else "consistent"


class _Link(NamedTuple):
    """The facts that connect a line with its neighbours; `version` is 0 if the line cannot be read."""

    place: int
    digest: str
    prev: str | None = None
    version: int = 0
    ends: bool = False  # the plan
    orders: bool = False  # the only inputs are commands, and nothing moved: commands that an ended plan refuses

    def continues(self, before: _Link | None) -> bool:
        """Return whether the line may have been written directly after `before`."""
        if before is None:
            return self.version == 1 and self.prev is None
        return self.version > before.version and self.prev == before.digest


class _Later(NamedTuple):
    """The facts about the lines after the first line that does not continue the line before it."""

    last: int  # place of the last line
    follows: bool | None  # whether the next line continues it; None without one
    continued: int = 0  # place of the line that continues the lines in order
    home: bool = False  # whether the line is present that this one was written after
    again: int = 0  # place of an equal line


class _Walk:
    """The lines of a log up to now, which are all in order."""

    def __init__(self, anchor: Anchor | None) -> None:
        self.anchor = anchor
        self.last: _Link | None = None
        self.recent: dict[str, int] = {}  # digest -> place
        self.anchored: _Link | None = None
        self.beyond: _Link | None = None  # the first line after the anchored end that an ended plan cannot have

    def add(self, link: _Link) -> None:
        """Add the next line, which continues the line before it."""
        self.recent[link.digest] = link.place
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]
        if self.anchored and self.anchored.ends and not (self.beyond or link.orders):
            self.beyond = link
        if self.anchor and link.digest == self.anchor.head:
            self.anchored = link
        self.last = link

    def finish(self, fault: Fault | None, lines: int) -> Finding:
        """Return the result of the check, with the lines that the anchor proves."""
        head = None if fault or self.last is None else self.last.digest
        return Finding(lines, head, fault, self.anchored.place if self.anchored else 0)


def check(lines: Iterable[bytes], anchor: Anchor | None = None) -> Finding:
    """Check the lines of a log; return their number, the first fault, and how many lines the anchor proves.

    The lines have no line ends. Each line is read once and then dropped.
    """
    walk = _Walk(anchor)
    numbered = enumerate(lines, 1)
    links = (_read(place, raw) for place, raw in numbered)
    for link in links:
        if not link.continues(walk.last):
            later = _look_behind(islice(links, BEHIND), walk.last, link)
            later = later._replace(last=max((place for place, _ in numbered), default=later.last))
            return walk.finish(_explain(walk, link, later), later.last)
        walk.add(link)
    if walk.last is None:
        return walk.finish(Fault(1, "dropped", "There is no line, and every log has one: the creation of the plan."), 0)
    return walk.finish(_compare(walk, walk.last) if anchor else None, walk.last.place)


def ends_plan(raw: bytes) -> bool:
    """Return whether a line ends its plan."""
    return _read(0, raw).ends


def _read(place: int, raw: bytes) -> _Link:
    """Return the facts of a line; the version is 0 if no worker can have written it."""
    digest = digest_line(raw)
    try:
        line = codec.loads(raw) if raw.startswith(b"{") and len(raw) <= MAX_LINE_BYTES else None
    except codec.DecodeError:
        line = None
    if not isinstance(line, dict):
        return _Link(place, digest)
    version, prev, moves = line.get("version"), line.get("prev"), line.get("moves")
    if type(version) is not int or not isinstance(moves, list) or not isinstance(prev, str | None):
        return _Link(place, digest)
    return _Link(place, digest, prev, max(0, version), any(map(_is_end, moves)), _has_orders(line) and not moves)


def _has_orders(line: dict[str, Any]) -> bool:
    """Return whether all inputs of a line are commands, and there is at least one."""
    said = line.get("in")
    return (
        isinstance(said, list) and bool(said) and all(isinstance(one, list) and one[:1] == ["command"] for one in said)
    )


def _is_end(move: Any) -> bool:
    """Return whether a move ends the plan; a move of a step names the step first."""
    return isinstance(move, list) and len(move) == 3 and not move[0] and str(move[2]) in PLAN_ENDS


def _look_behind(rest: Iterator[_Link], before: _Link | None, wrong: _Link) -> _Later:
    """Return the facts about the `rest` of the log that explain why `wrong` comes after `before`."""
    found, last, home = _Later(wrong.place, None), wrong.place, False
    for link in rest:
        if found.follows is None:
            found = found._replace(follows=link.prev == wrong.digest)
        if not found.continued and link.continues(before):
            found = found._replace(continued=link.place)
        if link.digest == wrong.digest and not found.again:
            found = found._replace(again=link.place)
        last, home = link.place, home or link.digest == wrong.prev
    return found._replace(last=last, home=home)


def _explain(walk: _Walk, wrong: _Link, later: _Later) -> Fault:
    """Return the simplest fault that explains why `wrong` comes after the lines in order."""
    if fault := _out_of_place(walk, wrong, later):
        return fault
    before, place = walk.last, wrong.place
    if not wrong.version:
        return Fault(place, "changed", f"Line {place} is none that a worker has written{_or_else(wrong, later)}.")
    if before is None:
        if later.follows is False:
            return Fault(1, "changed", "Line 1 is not the creation of the plan, and line 2 does not continue it.")
        return Fault(
            1, "dropped", f"The log begins with version {wrong.version} of the plan: lines before it are gone."
        )
    if wrong.prev is None and wrong.version > before.version:
        return Fault(place, "changed", f"Line {place} names no line before it, as the first line of a log alone does.")
    if wrong.prev in (None, before.digest):
        return Fault(place, "changed", f"Line {place} has version {wrong.version}, and line {place - 1} a later one.")
    if wrong.version > before.version + 1:
        low, high = before.version + 1, wrong.version - 1
        gone = f"the line of version {low} is" if low == high else f"lines from version {low} to {high} are"
        why = f"Line {place} does not continue line {place - 1}: {gone} gone, or line {place - 1} was changed."
        return Fault(place, "dropped", why)
    if later.follows is False:
        return Fault(place, "changed", f"Line {place} fits neither line {place - 1} nor line {place + 1}.")
    if later.follows is None:
        why = f"Line {place - 1} was changed, or line {place}: the last line does not continue the one before it."
        return Fault(place - 1, "changed", why)
    why = f"Line {place} continues a line that is not there: line {place - 1} was changed, or the log of another plan"
    return Fault(place - 1, "changed", f"{why} begins with line {place}.")


def _out_of_place(walk: _Walk, wrong: _Link, later: _Later) -> Fault | None:
    """Return the fault if a line was added or moved; None if nothing proves this."""
    place, back = wrong.place, walk.recent.get(wrong.prev or "", wrong.place)
    if same := walk.recent.get(wrong.digest):
        return Fault(place, "added", f"Line {place} is a copy of line {same}.")
    if back < place - 1:
        return Fault(back + 1, "added", f"Line {place} continues line {back}: the lines between them were added.")
    if later.again and wrong.version:
        return Fault(place, "added", f"Line {place} is a copy of line {later.again}.")
    if not later.continued:
        return None
    before = f"continues line {place - 1}" if walk.last else "begins the log"
    if later.home:
        why = f"Line {later.continued} {before} and belongs before line {place}: one of them was moved."
        return Fault(place, "moved", why)
    return Fault(place, "added", f"Line {later.continued} {before}: the lines before it were added.")


def _or_else(wrong: _Link, later: _Later) -> str:
    """Return the other reasons why a line cannot be read, as the end of a sentence; empty if there is none."""
    other = ", or this is no file of `planner export --log`" if wrong.place == 1 else ""
    return other + (", or the file breaks off within it" if wrong.place == later.last else "")


def _compare(walk: _Walk, last: _Link) -> Fault | None:
    """Return the fault that only the anchor shows in lines that are in order; None if there is none."""
    if walk.anchored:
        if walk.beyond is None:  # a live plan has later lines, and an ended plan refuses commands
            return None
        end, place = walk.anchored.place, walk.beyond.place
        why = f"Line {end} ends the plan, and its digest is the head: only commands that it refuses follow it."
        return Fault(place, "added", why)
    known = walk.anchor.lines if walk.anchor else None
    if known is not None and last.place < known:
        why = f"The head is that of line {known}, and the log ends with line {last.place}."
        return Fault(last.place + 1, "dropped", why)
    if known is None and not last.ends:
        why = f"No line has the head as its digest: lines behind line {last.place} are gone, or one was changed."
        return Fault(last.place + 1, "dropped", why)
    why = "No line has the head as its digest: a line was changed and the later digests were rewritten"
    return Fault(last.place, "changed", f"{why}, or this is the log of another plan.")
