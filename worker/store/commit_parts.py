"""Defines the named parts of a commit in one table: Python writes a commit by this table, and Lua reads it.

A part has rows. A row is one argument with words, separated by spaces, and one argument for each text. Lua checks each
row when it reads the row, before anything is written.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_DIGITS = 15  # of an integer: Lua's numbers are exact up to 2^53, which has 16
KINDS = {  # kind of a word: Python's format, and Lua's pattern
    "word": ("%s", "(%S+)"),
    "count": ("%d", "(%d+)"),
    "integer": ("%d", "(%-?%d+)"),
    "maybe": ("%s", "([%-%d]%d*)"),  # an integer, or NONE
    "flag": ("%d", "([01])"),
}
NONE = "-"
CANCELLED, DONE, FAILED = 1, 2, 3  # ends of attempts; 0 for one that no counter includes
NUMBERS = {"count", "integer", "maybe"}


class Part(NamedTuple):
    """The columns of a part of a commit: `kinds` are the types of `words`, in the same order.

    Lua returns each row of a part as a table. For a flat part (`is_flat`) it returns the unchanged arguments, which go
    into a Redis command.
    """

    name: str
    words: tuple[str, ...]
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    is_flat: bool

    @property
    def size(self) -> int:
        """Number of arguments of a row."""
        return bool(self.words) + len(self.texts)

    @property
    def form(self) -> str:
        """The words of a row as a format: `%d` for a number, so that any other value fails."""
        return " ".join(KINDS[kind][0] for kind in self.kinds)

    @property
    def lua(self) -> str:
        """The entry of PARTS in Lua: `read` returns the row that begins at args[i], or false if it is invalid."""
        entry = f"  {self.name} = {{size = {self.size}, is_flat = {str(self.is_flat).lower()}"
        if self.is_flat and not self.words:
            return entry + "},"
        typed = zip(self.words, self.kinds, strict=True)
        wrong = [f"not {word}" for word in self.words[:1]]
        wrong += [f"#{word} > {MAX_DIGITS}" for word, kind in typed if kind in NUMBERS]
        lines = [entry + ", read = function(args, i)"]
        if self.words:
            pattern = " ".join(KINDS[kind][1] for kind in self.kinds)
            lines.append(f"    local {', '.join(self.words)} = string.match(args[i], '^{pattern}$')")
            lines.append(f"    if {' or '.join(wrong)} then return false end")
        columns = [f"{word} = {word}" for word in self.words]
        columns += [f"{text} = args[i + {place}]" for place, text in enumerate(self.texts, bool(self.words))]
        lines.append(f"    return {'true' if self.is_flat else '{' + ', '.join(columns) + '}'}")
        return "\n".join([*lines, "  end},"])


def _part(name: str, words: str = "", texts: str = "", *, is_flat: bool = False) -> Part:
    named = [word.partition(":") for word in words.split()]
    kinds = tuple(kind or "word" for _, _, kind in named)
    return Part(name, tuple(name for name, _, _ in named), kinds, tuple(texts.split()), is_flat)


PARTS = {
    part.name: part
    for part in (
        _part("field", "", "name value", is_flat=True),  # of the plan's hash
        _part("status", "", "step record", is_flat=True),
        _part("spec", "", "field value", is_flat=True),  # of the steps' hash
        _part("ready", "index:count", "step", is_flat=True),  # added
        _part("unready", "", "step", is_flat=True),
        _part(
            "ended", "step queue entry result:count"
        ),  # an attempt, with the entry of its spec; see CANCELLED, DONE, FAILED
        _part("start", "step queue attempt:count lease tokens:count", "spec record"),
        _part("undone", "items:count"),  # taken from the head of todo
        _part("todo", "step window:count", is_flat=True),
        _part("log", "", "line", is_flat=True),
        _part("event", "", "type data", is_flat=True),
        _part("ack", "stream entry"),
        _part("wake", "due:count"),  # of the plan's timer; 0 for never. Without this it stays
        _part("tenant", "", "name"),  # of a plan that begins or ends
        _part("guard", "step renewed:count"),  # as it was read: an attempt that expires must still be silent
        _part("action", "step action"),  # the answer of planner_heartbeat from now on
        _part("calls", "step calls:count"),  # of tools, at which planner_heartbeat answers `cancel` to the new attempt
        _part("taken", "tokens:integer left:maybe", "scope"),  # and the remaining grant at the decision
        _part("recall", "name seen:maybe change:maybe", "field"),  # its value at the decision; NONE deletes it
        _part("used", "name tokens:count"),  # by an attempt, for the estimates of later plans
        _part("memory", "name", "record"),  # the record of an attempt; '' only renews the list's expiry
        _part("list", "", "name", is_flat=True),  # all lists that the plan is in from now on; without this as it was
        _part("kept", "name most:count kept_s:count plan", "field value"),  # '' deletes the entry of that plan
        _part("sum", "", "series figures"),  # of a plan that ends; see sums.lua
        _part("claim", "name", "file seen claim where"),  # see file_claims.lua
        _part("keep", "name", "file"),  # delivered by a plan that ends; see file_claims.lua
        _part("failure", "", "series failure"),  # a counted failure of a repository
        _part("probe", "", "series news"),  # the result of a probe step
    )
}


def source() -> str:
    """Return the table as Lua."""
    terms = f"local NONE, MAX_DIGITS = '{NONE}', {MAX_DIGITS}"
    return "\n".join(
        ["-- Made by worker/store/commit_parts.py", terms, "local PARTS = {", *(p.lua for p in PARTS.values()), "}"]
    )
