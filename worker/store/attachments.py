"""Diffs of attempts, apart from log and plan: taken off their stream, kept by digest, bounded in bytes and days.

A diff is known by its SHA-256, which an accepted outcome names as its `diff_hash`. So nobody can put another one in its
place, and who may see a plan may see its diffs.
"""

from __future__ import annotations

import hashlib
import logging
from base64 import b64encode
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import ValidationError
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.attachment import Attachment, Kind
from schemas.contract.streams import MOST_WAITING
from schemas.stored import PlanHead
from tasks.text.diffs import FileDiff, read_diff
from tasks.text.secrets import mask
from worker.store import functions
from worker.store.clients import now_ms
from worker.store.keys import Partition, partition_of

MOST_BYTES = 64 * 1024 * 1024  # of all partitions
MOST_OF_A_TENANT = MOST_BYTES // 2
REFUSED_FROM = 0.7  # of maxmemory
MOST_FILES = 500  # of a diff, with figures
TAKEN = 32  # entries at a time
DIGEST = "sha256:"

log = logging.getLogger("planner.attachments")


class FileFigures(NamedTuple):
    """What a diff did to a file."""

    path: str
    kind: str
    added: int
    removed: int


class KeptDiff(NamedTuple):
    """What is known of a diff: its files, its bytes, and the diff itself where it was read and is kept."""

    files: tuple[FileFigures, ...]
    size: int
    text: bytes | None = None


def digest_of(diff_hash: str | None) -> str:
    """Return the hexadecimal digest that an outcome names."""
    return (diff_hash or "").removeprefix(DIGEST)


def message(plan_id: str, step_id: str, attempt: int, content: bytes, kind: Kind = "diff") -> bytes:
    """Write an attachment of an attempt."""
    about = {"plan_id": plan_id, "step_id": step_id, "attempt": attempt, "kind": kind}
    return codec.dumps({**about, "content": b64encode(content).decode()})


def send(client: Redis, partitions: int, plan_id: str, data: bytes) -> None:
    """Put an attachment on its stream, from which the oldest go where nobody takes them."""
    home = Partition(partition_of(plan_id, partitions))
    client.xadd(home.attachments, {"data": data}, maxlen=MOST_WAITING, approximate=False)


def read(
    client: Redis, partitions: int, plan_id: str, tenant: str, digests: Collection[str], *, texts: int = 0
) -> dict[str, KeptDiff]:
    """Read what is known of the diffs of a plan with these digests, by digest; empty if the user may not read them.

    Those of the first `texts` are read themselves. Of one that is still on the
    stream only the figures are read.
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


def take(client: Redis, home: Partition, retention_s: int, share: int, *, keep: bool, is_full: bool) -> None:
    """Take what waits off the stream of a partition, one of `share`, and keep it: figures alone unless `keep`.

    Nothing is kept where the server is full. A diff is kept without its secrets, and only if the tenant's share has
    room for it.
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
        bounds = (now, now - 1000 * retention_s, MOST_BYTES // share, most_of_a_tenant, attempt)
        call = (functions.KEEP_ATTACHMENT, len(keys), *keys, entry, field, figures, text, *bounds)
        try:
            functions.call(client, "FCALL", *call)
        except ResponseError as error:  # of a server that is full or cannot write: clocks go on all the same
            log.warning("attachment_refused", extra={"reason": str(error)})
            return
        if is_full:
            log.warning("attachment_refused", extra={"reason": "memory"})


def _waiting(client: Redis, home: Partition) -> Iterator[tuple[bytes, Attachment | None]]:
    """Yield the oldest entries of a stream, None for one that cannot be read."""
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
