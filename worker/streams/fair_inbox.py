"""Gives tenants turns at the stream of goals, so that one tenant's many goals do not delay the others.

This is start-time fair queueing: a tenant of weight 2 has two turns for each turn of a tenant of weight 1. Waiting
entries stay in the stream, pending with the consumer WAITING. So a dead worker loses nothing, and older versions take
them over after a while. Goals that need a drafter have separate turns, so that they delay no other goals.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from schemas import codec
from worker.store import functions
from worker.store.keys import GOALS_DRAFTS, GOALS_TURNS, GROUP, NO_TENANT
from worker.streams.inbox import BATCH_ENTRIES, Inbox, StreamEntry

WAITING = "turns"  # a consumer's name as no worker has it
DRAFTING = "-drafts"  # suffix of a consumer that asks drafters: its goals may take an hour, apart from the others
READ_S = 0.1  # reads ahead for so long at a time
READ_ENTRIES = 32  # at once: goals may be large
NAME = 200  # letters of a tenant's name at most, as goals have it


@dataclass(eq=False, repr=False)
class FairInbox(Inbox):
    """An inbox of goals that gives the tenants turns, and returns a few entries at a time.

    `weights` maps a tenant to its number of turns for each turn of a tenant of weight 1; 1 is the default.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    turns: ClassVar[str] = GOALS_TURNS

    def take(self, most: int = 1, size: int = 1) -> list[StreamEntry]:
        """Return the entries whose turns are next: at most `most`, and no further one after `size` bytes.

        New entries are read first, for up to READ_S: the next turn may be another tenant's. If there are few, all are
        returned at once.
        """
        end = time.monotonic() + READ_S
        entries = self.read(READ_ENTRIES)
        if entries and _are_few(entries, most, size) and not self.client.exists(GOALS_TURNS):
            return entries  # as nearly always
        while entries:
            self.have_wait(entries)
            entries = self.read(READ_ENTRIES) if time.monotonic() < end else []
        return self.take_turns(most, size)

    def take_turns(self, most: int, size: int) -> list[StreamEntry]:
        """Return the waiting entries whose turns are next."""
        call = ("FCALL", functions.TAKE_TURNS, 2, self.stream, self.turns, GROUP, WAITING, self.consumer, most, size)
        found = functions.call(self.client, *call, *chain.from_iterable(self.weights.items()))
        return [self.entry_of(*each) for each in found]

    def have_wait(self, entries: Sequence[StreamEntry]) -> None:
        """Add each entry to the entries that wait for a turn of its tenant."""
        named = [part for entry in entries for part in (entry.entry_id, _tenant(entry))]
        functions.call(self.client, "FCALL", functions.WAIT_TURN, 2, self.stream, self.turns, GROUP, WAITING, *named)

    def take_over(self, idle_ms: int) -> int:
        """Take over entries that another worker left for `idle_ms`, but not those that wait for their turn.

        Returns their number; read them with `after="0"`.
        """
        turns = next((each for each in (GOALS_TURNS, GOALS_DRAFTS) if self.client.exists(each)), GOALS_TURNS)
        call = ("FCALL", functions.TAKE_OVER, 2, self.stream, turns)
        return int(self._in_group(*call, GROUP, WAITING, self.consumer, idle_ms, BATCH_ENTRIES))


class DraftInbox(FairInbox):
    """The goals that wait for a drafter, filled by a FairInbox."""

    turns: ClassVar[str] = GOALS_DRAFTS

    def take(self, *_: int) -> list[StreamEntry]:
        """Return the entry whose turn is next, at most one: asking a drafter takes minutes."""
        return self.take_turns(1, 1)


def _are_few(entries: Sequence[StreamEntry], most: int, size: int) -> bool:
    return len(entries) == 1 or (len(entries) <= most and sum(entry.size for entry in entries) <= size)


def _tenant(entry: StreamEntry) -> str:
    """Return the tenant of a goal; the default one for an unreadable goal."""
    try:
        body = codec.loads(entry.data or b"")
    except codec.DecodeError:
        return NO_TENANT
    named = body.get("tenant") if isinstance(body, dict) else None
    return named[:NAME] if isinstance(named, str) and named else NO_TENANT
