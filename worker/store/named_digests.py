"""Finds the digests of diffs and transcripts that outcomes name, in the logs of plans; it reads each line once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from worker.store import history
from worker.store.keys import PlanKeys

MOST_SEARCHED = 5000  # lines of a log, the newest
MOST_PLANS = 16  # whose digests are kept, those that were asked for last
DIGEST = "sha256:"

Named = set[tuple[str, int | None, str]]  # step, attempt (None: any), hexadecimal digest


class _Read(NamedTuple):
    lines: int  # of the log, that were read or passed over
    named: Named


class NamedDigests:
    """The digests that the outcomes of plans name. Not for several threads at once."""

    def __init__(self) -> None:
        self._plans: dict[str, _Read] = {}

    def has(self, client: Redis, k: PlanKeys, step_id: str, attempt: int, digest: str) -> bool:
        """Return whether the outcome of an attempt names `digest`; reads only lines of the log that are new here."""
        read, named = self._plans.pop(k.log, _Read(0, set()))
        length: Any = client.llen(k.log)
        if read > length:  # the server has lost lines
            read, named = 0, set()
        lines = max(read, length - MOST_SEARCHED)
        for raw in history.read_lines(client, k, lines):
            lines += 1
            named.update(_named_in(raw))
        self._plans[k.log] = _Read(lines, named)
        if len(self._plans) > MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return not named.isdisjoint({(step_id, attempt, digest), (step_id, None, digest)})


def digest_of(diff_hash: str | None) -> str:
    """Return the hexadecimal digest in a `diff_hash` of an outcome."""
    return (diff_hash or "").removeprefix(DIGEST)


def _named_in(raw: bytes) -> Iterator[tuple[str, int | None, str]]:
    if b'"diff_hash":"' not in raw and b'"sent":"' not in raw:
        return
    for step, attempt, outcome in history.outcomes_in(codec.loads(raw)):
        for digest in (outcome.get("diff_hash"), history.sent_of(outcome)):
            if digest:
                yield step, attempt, digest_of(digest)
