"""Looks like one connection to a cluster: it sends each command to the server of its slot.

Replies come in the order of the commands. Nothing is ever sent twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.exceptions import ClusterCrossSlotError, ClusterDownError, RedisError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong
from redis.retry import Retry

from worker.settings.cluster import Address
from worker.store.cluster import commands
from worker.store.cluster.commands import NOWHERE, Command, Divided, Part
from worker.store.cluster.obstacles import MOVING, SlotMoved

if TYPE_CHECKING:
    from worker.store.cluster.client import ClusterPool

LOST = (NoConnection, TookTooLong, OSError)
LOOK_S = 0.05  # between looks at streams of several slots


class Owed(NamedTuple):
    """A reply to read: the servers that send its parts, and the function that joins the parts."""

    places: Sequence[Address]
    join: Callable[[Sequence[Any]], Any] | None = None  # None: the only reply
    bears: bool = False  # a server that is away is left out
    again: Command | None = None  # a read that is repeated until news come
    until: float = 0.0


class Channel:
    """Acts as one connection: takes a connection to each server that a command concerns from the pool."""

    retry = Retry(NoBackoff(), 0)
    db = 0
    host = port = None

    def __init__(self, pool: ClusterPool) -> None:
        self._pool = pool
        self._topology = pool.topology
        self._lines: dict[Address, Connection] = {}
        self._unread: dict[Address, int] = {}
        self._lost: dict[Address, Exception] = {}
        self._owed: deque[Owed] = deque()
        self._watched: Address | None = None  # the server that a WATCH was sent to

    # sending

    def pack_command(self, *command: Any) -> list[Command]:
        """Return a command, which is encoded when its server is known."""
        return [command]

    def pack_commands(self, found: Iterable[Command]) -> list[Command]:
        """Return commands, which are encoded when their servers are known."""
        return list(found)

    def send_command(self, *command: Any, **_: Any) -> None:
        """Send one command."""
        self.send_packed_command([command])

    def send_packed_command(self, found: Sequence[Command], **_: Any) -> None:
        """Send commands, grouped by server. If a server is away, reading its replies raises the error."""
        self._topology.refresh()
        words = [commands.words_of(command) for command in found]
        is_whole = words and words[0][0] == "MULTI"
        for address, its in (self._transaction(words) if is_whole else self._separate(words)).items():
            self._send(address, its)

    def _transaction(self, words: Sequence[Command]) -> dict[Address, list[Command]]:
        slots = {at for at in map(commands.one_slot, words) if at is not None}
        if len(slots) > 1:
            raise ClusterCrossSlotError("CROSSSLOT The keys of a transaction are in several slots.")
        address = self._topology.of(slots.pop()) if slots else self._watched or self._topology.any()
        if self._watched not in (None, address):
            raise SlotMoved("The slot of a transaction has moved since its keys are watched.")
        self._watched = None
        self._owed.extend(Owed((address,)) for _ in words)
        return {address: [commands.guarded(command) for command in words]}

    def _separate(self, words: Sequence[Command]) -> dict[Address, list[Command]]:
        outgoing: dict[Address, list[Command]] = {}
        for command in words:
            owed, parts = self._route(command, next(iter(outgoing), None))
            for address, part in parts:
                outgoing.setdefault(address, []).append(commands.guarded(part))
            self._owed.append(owed)
        return outgoing

    def _route(self, command: Command, near: Address | None) -> tuple[Owed, list[tuple[Address, Command]]]:
        """Return the reply to expect for a command, and the command to send to each server.

        A command without keys may go to `near`, a server that also receives other commands.
        """
        servers = self._topology.servers
        if command[0] in commands.ALL:
            owed = Owed(servers, commands.join_all(command), bears=True)
            return owed, [(address, command) for address in servers]
        if command[0] == "SCAN":
            number, part = commands.scan_at(command, len(servers))
            join = partial(commands.scan_on, number, len(servers))
            return Owed((servers[number],), join), [(servers[number], part)]
        if divided := commands.divide(command):
            return self._divided(command, divided)
        at = commands.one_slot(command)
        if at is not None:
            address = self._topology.of(at)
        else:
            address = self._watched or self._held() or near or self._topology.any()
        if command[0] in ("WATCH", "UNWATCH"):
            self._watched = address if command[0] == "WATCH" else None
        return Owed((address,)), [(address, command)]

    def _held(self) -> Address | None:
        """Return the server of this channel's only connection; None if there are several connections or none."""
        return next(iter(self._lines)) if len(self._lines) == 1 else None

    def _divided(self, command: Command, divided: Divided) -> tuple[Owed, list[tuple[Address, Command]]]:
        wait_ms, parts = _without_block(divided.parts)
        places = [(self._topology.of(part.slot), part.command) for part in parts]
        again, until = (command, time.monotonic() + wait_ms / 1000) if wait_ms is not None else (None, 0.0)
        return Owed([address for address, _ in places], divided.join, divided.bears, again, until), places

    def _send(self, address: Address, its: Sequence[Command]) -> None:
        self._unread[address] = self._unread.get(address, 0) + len(its)
        if address in self._lost:
            return
        if self._topology.hangs(address):
            self._lost[address] = TookTooLong(f"{address.host}:{address.port} answered nothing shortly ago.")
            return
        try:
            line = self._lines.get(address)
            if line is None:
                line = self._lines[address] = self._pool.line(address)
            line.send_packed_command(line.pack_commands(its), check_health=False)
        except LOST as error:
            self._lose(address, error)

    def _lose(self, address: Address, error: Exception) -> None:
        self._lost[address] = error
        self._topology.lose(address, hangs=isinstance(error, TookTooLong | TimeoutError))

    # receiving

    def read_response(self, **_: Any) -> Any:
        """Return the next reply. Raises NoConnection if a server is away or does not serve the slot."""
        if not self._owed:  # an earlier error was one of the replies
            raise NoConnection("No server of the cluster owes a reply.")
        owed = self._owed.popleft()
        if owed.join is None:
            return self._read(owed.places[0])
        replies: list[Any] = []
        borne: list[Exception] = []
        refused: list[Exception] = []
        for address in owed.places:  # all are read, whatever one says
            try:
                replies.append(self._read(address))
            except (RedisError, OSError) as error:
                (borne if owed.bears and isinstance(error, LOST) else refused).append(error)
                replies.append(NOWHERE)
        if refused or len(borne) == len(replies):
            raise (refused or borne)[0]
        found = owed.join(replies)
        return self._look_again(owed.again, owed.until) if owed.again and not found else found

    def _look_again(self, command: Command, until: float) -> Any:
        """Repeat a read of several slots that found nothing, until its time is over."""
        left = until - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(LOOK_S, left))
        self.send_packed_command([command])
        self._owed.append(self._owed.pop()._replace(until=until))
        return self.read_response()

    def _read(self, address: Address) -> Any:
        self._unread[address] -= 1
        if lost := self._lost.get(address):
            raise type(lost)(*lost.args) if isinstance(lost, RedisError) else NoConnection(str(lost))
        try:
            return self._lines[address].read_response()
        except MOVING as error:
            if isinstance(error, ClusterDownError):
                self._topology.lose(address)  # it may lack the others, whose slots are newer
            self._topology.doubt(has_moved=True)
            raise SlotMoved(f"{address.host}:{address.port}: {type(error).__name__}: {error}") from error
        except LOST as error:
            self._lose(address, error)
            raise

    def can_read(self, timeout: float = 0) -> bool:
        """Return whether the next reply begins within `timeout` seconds. Raises NoConnection."""
        if not self._owed:
            return False
        address = self._owed[0].places[0]
        if address in self._lost or self._owed[0].again:
            return True
        try:
            return bool(self._lines[address].can_read(timeout))
        except LOST as error:
            self._lose(address, error)
            raise

    # the rest of a connection

    def connect(self) -> None:
        """Do nothing: each server is connected when it is needed."""

    def should_reconnect(self) -> bool:
        """Return False: the pool looks at each connection."""
        return False

    def disconnect(self, *_: Any) -> None:
        """Close the connections that owe replies, are lost, or watch keys."""
        for address, line in self._lines.items():
            if self._unread.get(address) or address in self._lost or address == self._watched:
                line.disconnect()
        self._watched = None
        self._owed.clear()
        self._unread.clear()
        self._lost.clear()

    def give_back(self) -> None:
        """Return all connections to their pools."""
        self.disconnect()
        for address, line in self._lines.items():
            self._pool.take_back(address, line)
        self._lines.clear()


def _without_block(parts: Sequence[Part]) -> tuple[float | None, Sequence[Part]]:
    """Return how long a read waits, in ms, and its parts without the BLOCK option; None if the read does not wait."""
    words = parts[0].command
    if words[0] not in commands.READS:
        return None, parts
    at = next((place for place, word in enumerate(words) if word in ("BLOCK", b"BLOCK")), None)
    if at is None:
        return None, parts
    wait = float(words[at + 1])
    return wait or float("inf"), [Part(slot, (*command[:at], *command[at + 2 :])) for slot, command in parts]
