"""The claims of plans on a repository's files, as `lua/file_claims.lua` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.plan import OverlapView
from tasks.features import overlaps
from tasks.plan.changeset import claims_name
from tasks.plan.file_claims import FileClaims
from tasks.plan.snapshot import NOTE
from worker.store import functions
from worker.store.keys import Partition

JUST_MERGED_MS = 86_400_000
OVERLAPS = NOTE + overlaps.NOTE  # the field of a plan's steps with its overlaps


class ClaimsAsk(NamedTuple):
    """The files whose claims a plan has to read, in addition to its own files.

    With `deep`, the claims of each plan that it waits for are read, too. This finds circles of plans that wait for each
    other.
    """

    tenant: str
    repo: str
    files: Sequence[str] = ()
    deep: bool = False

    def more(self, before: ClaimsAsk | None) -> ClaimsAsk:
        """Return a question for the files of this one and of the earlier question `before`."""
        if before is None:
            return self
        return self._replace(files=sorted({*self.files, *before.files}), deep=self.deep or before.deep)


def read_call(partition: Partition, ask: ClaimsAsk, plan_id: str = "") -> tuple[Any, ...]:
    """Return the call that reads claims for a plan, which may not exist yet."""
    keys = (partition.timers, partition.claims_of(claims_name(ask.tenant, ask.repo)))
    return ("FCALL", functions.READ_CLAIMS, len(keys), *keys, plan_id, int(ask.deep), *ask.files)


def release(client: Redis, partition: Partition, plan_id: str, *, is_merged: bool = False) -> None:
    """Release the files that an ended plan still claims, because its change is merged or closed.

    With `is_merged`, its claim on its goal stays for JUST_MERGED_MS under another name, so that duplicates are found.
    """
    window = JUST_MERGED_MS if is_merged else 0
    functions.call_or_load(client, "FCALL", functions.RELEASE_CLAIMS, 1, partition.timers, plan_id, window)


def set_claim(client: Redis, partition: Partition, repository: tuple[str, str], mark: str, plan_id: str) -> None:
    """Make a plan the only one with the claim `mark`, which is no file; with "" no plan has this claim.

    A plan that keeps no files after its end does not receive the claim. `repository` is the tenant and the name.
    """
    about = (claims_name(*repository), mark, plan_id)
    functions.call_or_load(client, "FCALL", functions.SET_CLAIM, 1, partition.timers, *about)


def read_overlaps(note: bytes | None) -> tuple[OverlapView, ...]:
    """Return the overlaps that a plan met; empty if it met none."""
    return tuple(
        OverlapView(file=each["file"], plans=each["plans"], circle=each.get("circle", False))
        for each in codec.loads(note or b"[]")
    )


def decode(reply: Any, ask: ClaimsAsk | None = None, plan_id: str = "") -> FileClaims:
    """Return the claims in a reply to the question `ask` of a plan.

    Without `ask`, the reply contains all claims that count.
    """
    files, plans = reply
    names = [file.decode() for file in files[::3]]
    found = FileClaims(
        {name: claims.decode() for name, claims in zip(names, files[1::3], strict=True)},
        {
            plan.decode(): [file.decode() for file in theirs]
            for plan, theirs in zip(plans[::2], plans[1::2], strict=True)
        },
        marks={name: mark.decode() for name, mark in zip(names, files[2::3], strict=True)},
    )
    if ask is None:
        return found
    found = replace(found, asked=frozenset(ask.files), deep=ask.deep)
    return found.short_for(plan_id, ask.files) if ask.deep else found
