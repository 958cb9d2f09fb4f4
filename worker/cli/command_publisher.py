"""Publishing an order, and waiting for the event that answers it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from worker.cli.console import FAILED, OK, USAGE, Failure, Link, linked, say, say_json
from worker.cli.plan_argument import find
from worker.cli.target import Aim

if TYPE_CHECKING:
    from redis import Redis

PATIENCE_S = 10.0
REFUSED = "dev.planner.command.refused.v1"


def send(name: str, about: Aim, reason: str, actor: str | None, as_json: bool, **more: Any) -> int:
    """Publish an order and tell what became of it; exit code 1 where it was refused."""
    import getpass

    from schemas.command import CommandName

    with linked(block_s=PATIENCE_S) as link:
        plan_id = find(link, about.plan).plan_id if about.plan else None
        said = {"reason": reason, "actor": actor or getpass.getuser(), "plan_id": plan_id, "target": about.target}
        told = _publish(link, command=CommandName(name), scope=about.scope, **said, **more)
    obeyed = told["type"] != REFUSED
    if as_json:
        say_json(told)
    else:
        say(f"{name}: done" if obeyed else f"{name}: refused, {told['data'].get('reason')}")
    return OK if obeyed else FAILED


def _publish(link: Link, **said: Any) -> dict[str, Any]:
    """Put an order where it is obeyed, and wait for the event that answers it."""
    import uuid

    from pydantic import ValidationError

    from schemas import codec
    from schemas.command import Command
    from worker.store import keys
    from worker.store.keys import Partition, partition_of

    try:
        order = Command(command_id=uuid.uuid4().hex, **said)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise Failure.of("wrong_order", f"That is no order: {wrong}.", USAGE) from error
    home = Partition(partition_of(order.plan_id, link.partitions) if order.plan_id else 0)
    last: Any = link.client.xrevrange(home.events, count=1)
    after = last[0][0] if last else b"0"
    stream = home.commands if order.plan_id else keys.COMMANDS
    _add(link.client, stream, codec.encode(order, exclude_none=True))
    return _await(link, home.events, after, order.command_id)


def _add(client: Redis, stream: str, order: bytes) -> None:
    """Put an order into its stream: on a server whose memory is full by the function that may, for it may end plans."""
    from redis.exceptions import NoPermissionError, OutOfMemoryError

    from worker.store import functions
    from worker.store.functions import FunctionsMissing

    try:
        client.xadd(stream, {"data": order})
    except OutOfMemoryError as full:
        try:
            functions.call(client, "FCALL", functions.ORDER, 1, stream, order)
        except (FunctionsMissing, NoPermissionError):
            raise full from None


def _await(link: Link, events: str, after: bytes, command_id: str) -> dict[str, Any]:
    """Wait for the event that answers the order."""
    from schemas import codec

    end = time.monotonic() + PATIENCE_S
    while (left := end - time.monotonic()) > 0:
        reply: Any = link.client.xread({events: after}, count=100, block=max(1, int(1000 * left)))
        for entry, fields in [pair for _, found in reply or () for pair in found]:
            after, data = entry, codec.loads(fields[b"data"])
            if data.get("command_id") == command_id:
                return {"type": fields[b"type"].decode(), "data": data}
    raise Failure.of("no_answer", f"No worker took the order in {PATIENCE_S:g} s. Is one running (`planner worker`)?")
