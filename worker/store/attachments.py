"""Diffs and transcripts of attempts, stored by digest apart from log and plan, and limited in bytes and days.

A diff is identified by its SHA-256, which an accepted outcome names as its `diff_hash`. So no caller can replace it,
and a user who may see a plan may see its diffs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import ValidationError
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.attachment import Attachment
from schemas.stored import PlanHead
from tasks.text.diffs import FileDiff, read_diff
from tasks.text.secrets import mask
from worker.store import functions
from worker.store.clients import now_ms
from worker.store.keys import Partition, partition_of
from worker.store.named_digests import NamedDigests, digest_of

MOST_BYTES = 64 * 1024 * 1024  # of all partitions
MOST_OF_A_TENANT = MOST_BYTES // 2
REFUSED_FROM = 0.7  # of maxmemory
MOST_FILES = 500  # of a diff, with figures
TAKEN = 32  # entries at a time
NO_PLACE = -1  # an attempt has all attachments that it may have

log = logging.getLogger("planner.attachments")


class FileFigures(NamedTuple):
    """The changes of a diff to one file, in numbers."""

    path: str
    kind: str
    added: int
    removed: int


class KeptDiff(NamedTuple):
    """A diff that is stored: the changed files, the size, and the text if it was requested and is stored."""

    files: tuple[FileFigures, ...]
    size: int
    text: bytes | None = None


def read(
    client: Redis, partitions: int, plan_id: str, tenant: str, digests: Collection[str], *, texts: int = 0
) -> dict[str, KeptDiff]:
    """Return the diffs of a plan with these digests, by digest; an empty dict if this user may not read diffs.

    Only the first `texts` diffs contain their text. A diff that no worker has stored yet has only its figures.
    """
    home, found = Partition(partition_of(plan_id, partitions)), dict[str, KeptDiff]()
    wanted = list(dict.fromkeys(digests))
    with suppress(NoPermissionError):
        found = _kept(client, home, [_field(tenant, plan_id, digest) for digest in wanted], texts)
    with suppress(NoPermissionError):
        for _, one in _waiting(client, home) if len(found) < len(wanted) else ():
            digest = _digest(one) if one and one.plan_id == plan_id else ""
            if one and digest in wanted and digest not in found:
                found[digest] = KeptDiff(_files_of(one), 0)
    return found


def _kept(client: Redis, home: Partition, fields: list[str], texts: int) -> dict[str, KeptDiff]:
    if not fields:
        return {}
    raw: Any = client.hmget(home.attachments_kept, [*fields, *(f"{field} diff" for field in fields[:texts])])
    found = {}
    for field, figures, text in zip_longest(fields, raw[: len(fields)], raw[len(fields) :]):
        if figures:
            size, files = codec.loads(figures)
            found[field.rpartition(" ")[2]] = KeptDiff(tuple(FileFigures(*each) for each in files), size, text)
    return found


def read_transcript(
    client: Redis, partitions: int, plan_id: str, tenant: str, attempt: Mapping[str, Any]
) -> bytes | None:
    """Return the agent's output that an attempt's controller sent; None if it is not stored.

    `attempt` is an attempt of a plan's history.
    """
    sent = digest_of((attempt.get("transcript") or {}).get("sent"))
    found = read(client, partitions, plan_id, tenant, [sent], texts=1) if sent else {}
    return found[sent].text if sent in found else None


def take(
    client: Redis,
    home: Partition,
    retention_s: int,
    share: int,
    named: NamedDigests,
    *,
    keep: bool,
    is_full: bool,
) -> None:
    """Store the attachments that wait in a partition's stream; without `keep`, store only their figures.

    Nothing is stored if the server is full. A diff is stored without its secrets. A tenant's diffs may fill its limit,
    divided by `share`, the number of partitions. At most three attachments of one kind are stored for an attempt. The
    attachment that the attempt's outcome names then replaces the oldest of them.
    """
    most_of_a_tenant = MOST_OF_A_TENANT // share
    kept = (home.attachments_kept, home.attachments_order, home.attachments_sizes, home.attachments_attempts)
    keys = (home.attachments, *kept)
    for entry, one in _waiting(client, home):
        head: Any = client.hget(home.plan(one.plan_id).plan, "head") if one and not is_full else None
        field, figures, text, attempt = "- - -", b"", b"", ""
        if one and head:
            files = _files_of(one)
            text = _masked(one.content) if keep and len(one.content) <= most_of_a_tenant else b""
            figures = codec.dumps([len(text), [list(each) for each in files]])
            field = _field(PlanHead.decode(head).tenant, one.plan_id, _digest(one))
            attempt = f"{one.plan_id} {one.step_id} {one.attempt} {one.kind}"
        now = now_ms(client)
        bounds = (now, now - 1000 * retention_s, MOST_BYTES // share, most_of_a_tenant)
        call = (functions.KEEP_ATTACHMENT, len(keys), *keys, entry, field)
        try:
            if functions.call(client, "FCALL", *call, figures, text, *bounds, attempt, "0") == NO_PLACE and one:
                is_named = named.has(client, home.plan(one.plan_id), one.step_id, one.attempt, _digest(one))
                figures = figures if is_named else b""
                functions.call(client, "FCALL", *call, figures, text, *bounds, attempt, "1")
        except ResponseError as error:  # of a server that is full or cannot write: clocks go on all the same
            log.warning("attachment_refused", extra={"reason": str(error)})
            return
        if is_full:
            log.warning("attachment_refused", extra={"reason": "memory"})


def _waiting(client: Redis, home: Partition) -> Iterator[tuple[bytes, Attachment | None]]:
    """Yield the oldest entries of a partition's stream, each with its attachment; None for an unreadable one."""
    entries: Any = client.xrange(home.attachments, count=TAKEN)
    for entry, fields in entries:
        try:
            yield entry, Attachment.model_validate(codec.loads(fields.get(b"data", b"")))
        except (codec.DecodeError, ValidationError):
            yield entry, None


def _files_of(one: Attachment) -> tuple[FileFigures, ...]:
    return _figures(read_diff(one.content)) if one.kind == "diff" else ()


def _masked(diff: bytes) -> bytes:
    return mask(diff.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _figures(files: list[FileDiff]) -> tuple[FileFigures, ...]:
    return tuple(FileFigures(each.path, each.kind, each.added, each.removed) for each in files[:MOST_FILES])


def _digest(one: Attachment) -> str:
    return hashlib.sha256(one.content).hexdigest()


def _field(tenant: str, plan_id: str, digest: str) -> str:
    return f"{quote(tenant, safe='')} {plan_id} {digest}"
