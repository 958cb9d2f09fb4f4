"""Attachments on their way to the planner: their message and their stream."""

from __future__ import annotations

from base64 import b64encode

from redis import Redis

from schemas import codec
from schemas.attachment import Kind
from schemas.contract.streams import MOST_WAITING
from worker.store.keys import Partition, partition_of


def message(plan_id: str, step_id: str, attempt: int, content: bytes, kind: Kind = "diff") -> bytes:
    """Return the message of an attempt's attachment."""
    about = {"plan_id": plan_id, "step_id": step_id, "attempt": attempt, "kind": kind}
    return codec.dumps({**about, "content": b64encode(content).decode()})


def send(client: Redis, partitions: int, plan_id: str, data: bytes) -> None:
    """Add an attachment to its stream. If no worker takes them, the oldest ones are removed."""
    home = Partition(partition_of(plan_id, partitions))
    client.xadd(home.attachments, {"data": data}, maxlen=MOST_WAITING, approximate=False)
