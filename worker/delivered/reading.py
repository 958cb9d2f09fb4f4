"""Reads the answers of both forges: objects, texts and times that may be missing or of any type."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from schemas.stored.delivered import DeliveredChange
from schemas.times import milliseconds
from tasks.delivered.seen import Failure, Remark, SeenChange, Stale
from tasks.text.fields import last_lines
from worker.webhooks.forge import Forge, ForgeRefuses

MAX_LOG_BYTES = 8 * 1024 * 1024
LOG_TAIL = 16_000  # bytes of one failed job
MOST_LOGS = 3
ANSWER_S, REFUSAL_S, MOST_WRITERS = 3600.0, 300.0, 10_000
OURS = "<!-- planner -->"  # a mark in each answer of ours


class ChangeReader(Protocol):
    """The operations on a delivered change at a forge. Each raises ForgeAway or ForgeRefuses."""

    def read(self, change: DeliveredChange) -> SeenChange | None:
        """Return the change as the forge shows it; None if its branch has no pull request."""

    def failure(self, seen: SeenChange) -> Failure:
        """Return the names, failing tests and logs of the failed checks."""

    def stale(self, seen: SeenChange) -> Stale:
        """Return whether an open change conflicts with its target branch or is behind it; NO if that is unknown."""

    def answer(self, change: DeliveredChange, thread: str, text: str) -> None:
        """Answer a thread of the review, unless the answer exists already."""

    def comment(self, change: DeliveredChange, text: str) -> None:
        """Comment on the change as a whole, unless the same comment exists already."""

    def set_ready(self, change: DeliveredChange) -> None:
        """Mark a draft as ready for review."""

    def run_again(self, run: str) -> None:
        """Run the checks named `run` again."""


class Writers:
    """Remembers which users may write to a repository: a forge's answer for an hour, its refusal for five minutes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, float]] = {}  # by the address that was asked, with its end

    def may(self, place: str, ask: Callable[[], bool]) -> bool:
        """Return the remembered answer for the address `place`, else of `ask`; False if the forge refuses."""
        now = time.monotonic()
        found = self._known.get(place)
        if found is None or found[1] < now:
            try:
                found = ask(), now + ANSWER_S
            except ForgeRefuses:
                found = False, now + REFUSAL_S
            if len(self._known) >= MOST_WRITERS:
                self._known.clear()
            self._known[place] = found
        return found[0]


def dicts(found: Any) -> list[dict[str, Any]]:
    """Return the objects in a list, without other items; empty if `found` is no list."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def at(value: Any, path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(value: Any, path: str) -> str:
    """Return the text at a dotted path; empty if there is none."""
    found = at(value, path)
    return found if isinstance(found, str) else ""


def time_of(value: Any, path: str) -> int | None:
    """Return the time at a dotted path in ms; None if there is none."""
    try:
        return milliseconds(datetime.fromisoformat(text(value, path)))
    except ValueError:
        return None


def log_tails(forge: Forge, urls: Iterable[str]) -> str:
    """Return the ends of the logs that the forge returns; empty without any. Raises ForgeAway."""
    return "\n".join(_tails(forge, urls))


def _tails(forge: Forge, urls: Iterable[str]) -> Iterator[str]:
    for url in urls:
        try:
            data, _ = forge.read(url, MAX_LOG_BYTES, elsewhere=True)
        except ForgeRefuses:
            continue
        yield last_lines(data.decode(errors="replace"), LOG_TAIL)


def in_order(remarks: Sequence[Remark]) -> tuple[Remark, ...]:
    """Return the remarks by the time of their last comment, the oldest first."""
    return tuple(sorted(remarks, key=lambda each: (each.at, each.thread)))


def listing_of(forge: Forge, url: str) -> list[dict[str, Any]]:
    """Return the objects of a list at the forge; empty if the forge refuses. Raises ForgeAway."""
    try:
        return dicts(forge.json(url))
    except ForgeRefuses:
        return []


def body_of(text: str) -> dict[str, str]:
    """Return the request body for a comment, with the mark of the planner's own comments."""
    return {"body": f"{text}\n\n{OURS}"}


def is_there(words: str, comment: Mapping[str, Any]) -> bool:
    """Return whether a comment is the planner's own and has exactly the text `words`."""
    return text(comment, "body").strip() == body_of(words)["body"]
