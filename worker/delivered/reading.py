"""Readers of both forges' answers: objects, texts and times that may be anything."""

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
    """A forge as delivered changes need it; each method raises ForgeAway or ForgeRefuses."""

    def read(self, change: DeliveredChange) -> SeenChange | None:
        """Return the change as the forge shows it; None where the branch has no pull request."""

    def failure(self, seen: SeenChange) -> Failure:
        """Return the details of red checks."""

    def stale(self, seen: SeenChange) -> Stale:
        """Return how an open change relates to its target; NO while the forge does not know yet."""

    def answer(self, change: DeliveredChange, thread: str, text: str) -> None:
        """Answer a thread of the review, unless that answer is there already."""

    def comment(self, change: DeliveredChange, text: str) -> None:
        """Comment on the change as a whole, unless that comment is there already."""

    def set_ready(self, change: DeliveredChange) -> None:
        """End the draft: the change may be reviewed and merged."""

    def run_again(self, run: str) -> None:
        """Have checks run again."""


class Writers:
    """Users who may write to a repository. The answer of a forge is kept for an hour, its refusal for five minutes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, float]] = {}  # by the address that was asked, with its end

    def may(self, place: str, ask: Callable[[], bool]) -> bool:
        """Return the answer that is known of the address `place`, else that of `ask`. An unknown user may not write."""
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
    """Return the objects of a list; none if it is no list."""
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
    """Return the time at a dotted path in ms; None where there is none."""
    try:
        return milliseconds(datetime.fromisoformat(text(value, path)))
    except ValueError:
        return None


def log_tails(forge: Forge, urls: Iterable[str]) -> str:
    """Return the ends of logs, as far as the forge gives them; raises ForgeAway."""
    return "\n".join(_tails(forge, urls))


def _tails(forge: Forge, urls: Iterable[str]) -> Iterator[str]:
    for url in urls:
        try:
            data, _ = forge.read(url, MAX_LOG_BYTES, elsewhere=True)
        except ForgeRefuses:
            continue
        yield last_lines(data.decode(errors="replace"), LOG_TAIL)


def in_order(remarks: Sequence[Remark]) -> tuple[Remark, ...]:
    """Return the remarks in the order of their last words."""
    return tuple(sorted(remarks, key=lambda each: (each.at, each.thread)))


def listing_of(forge: Forge, url: str) -> list[dict[str, Any]]:
    """Return the objects that the forge lists, none if it refuses; raises ForgeAway."""
    try:
        return dicts(forge.json(url))
    except ForgeRefuses:
        return []


def body_of(text: str) -> dict[str, str]:
    """Return a comment of ours as a request has it."""
    return {"body": f"{text}\n\n{OURS}"}


def is_there(words: str, comment: Mapping[str, Any]) -> bool:
    """Whether a comment is ours and has these words."""
    return text(comment, "body").strip() == body_of(words)["body"]
