"""The keys of commands, and how a command with keys of several slots is divided and its replies are joined.

A command that is not named here has one key, its first argument.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from redis.exceptions import ClusterCrossSlotError

from worker.store import functions
from worker.store.cluster.topology import slot_of

Command = tuple[Any, ...]
NOWHERE = object()  # the reply of a server that is away

# Commands without keys: those that any server answers, and those that all servers get.
ANY = frozenset(
    {"TIME", "PING", "ECHO", "ACL", "CLIENT", "COMMAND", "CONFIG", "MULTI", "EXEC", "DISCARD", "UNWATCH", "CLUSTER"}
)
ALL = frozenset({"INFO", "FUNCTION", "DBSIZE", "FLUSHALL", "FLUSHDB", "KEYS", "HELLO"})
SECOND = frozenset({"XINFO", "XGROUP", "OBJECT", "MEMORY"})  # their key is behind a word
EACH = frozenset({"EXISTS", "DEL", "UNLINK", "MGET", "WATCH", "TOUCH"})  # only keys
READS = frozenset({"XREAD", "XREADGROUP"})
SERVERS = 1024  # most servers of a cluster that SCAN can tell apart


class Part(NamedTuple):
    """A part of a command for one slot."""

    slot: int
    command: Command


class Divided(NamedTuple):
    """A command in several parts; `join` makes one reply from the replies of the parts.

    With `bears`, NOWHERE replaces the reply of a server that is away. Without `bears`, this server is an error.
    """

    parts: Sequence[Part]
    join: Callable[[Sequence[Any]], Any]
    bears: bool = False


def words_of(command: Command) -> Command:
    """Return a command with its name in upper case and split into words, such as ("XINFO", "GROUPS", key)."""
    name = command[0].decode() if isinstance(command[0], bytes) else str(command[0])
    first, *rest = name.upper().split()
    return (first, *rest, *command[1:])


def keys_of(command: Command) -> Sequence[Any]:
    """Return the keys of a command, whose name is one word in upper case."""
    name = command[0]
    if name in ANY or name in ALL:
        return ()
    if name in ("FCALL", "FCALL_RO", "EVAL", "EVALSHA"):
        return command[3 : 3 + int(command[2])]
    if name in SECOND:
        return command[2:3]
    if name in EACH:
        return command[1:]
    if name in READS:
        first = _streams_at(command)
        return command[first : first + (len(command) - first) // 2]
    return command[1:2]


def slot(key: Any) -> int:
    """Return the slot of a key of any type that redis-py accepts."""
    return slot_of(key if isinstance(key, bytes) else str(key).encode())


def one_slot(command: Command) -> int | None:
    """Return the slot of a command; None if it has no key. Raises ClusterCrossSlotError if it has several."""
    slots = {slot(key) for key in keys_of(command)}
    if len(slots) > 1:
        raise ClusterCrossSlotError(f"CROSSSLOT The keys of {command[0]} are in several slots.")
    return slots.pop() if slots else None


def divide(command: Command) -> Divided | None:
    """Return the parts of a command with keys of several slots; None if its keys are in one slot, or it has none.

    Raises ClusterCrossSlotError if it cannot be divided.
    """
    keys = keys_of(command)
    if len(keys) < 2:
        return None
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(slot(key), []).append(place)
    if len(places) == 1:
        return None
    divider = _divider(command)
    if divider is None:
        raise ClusterCrossSlotError(f"CROSSSLOT The keys of {' '.join(map(str, command[:2]))} are in several slots.")
    return divider(command, keys, places)


Places = Mapping[int, Sequence[int]]  # slot -> the places of its keys
Divider = Callable[[Command, Sequence[Any], Places], Divided]


def _divider(command: Command) -> Divider | None:
    if command[0] in ("FCALL", "FCALL_RO"):
        return FUNCTIONS.get(command[1])
    if command[0] == "MGET":
        return _each_in_order
    if command[0] in ("EXISTS", "DEL", "UNLINK", "TOUCH"):
        return _sum
    return _read if command[0] in READS else None


def _sum(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, (command[0], *(keys[place] for place in found))) for at, found in places.items()]
    return Divided(parts, sum)


def _each_in_order(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, (command[0], *(keys[place] for place in found))) for at, found in places.items()]
    return Divided(parts, lambda replies: _ordered(replies, places, len(keys), None), bears=True)


def _ordered(replies: Sequence[Any], places: Places, count: int, away: Any) -> list[Any]:
    found = [away] * count
    for reply, numbers in zip(replies, places.values(), strict=True):
        if reply is not NOWHERE:
            for place, value in zip(numbers, reply, strict=True):
                found[place] = value
    return found


def _streams_at(command: Command) -> int:
    for place, word in enumerate(command):
        if word in ("STREAMS", b"STREAMS", "streams"):
            return place + 1
    raise ClusterCrossSlotError(f"{command[0]} names no streams.")


def _read(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    first = _streams_at(command)
    head, after = command[:first], command[first + len(keys) :]
    parts = [
        Part(at, (*head, *(keys[place] for place in found), *(after[place] for place in found)))
        for at, found in places.items()
    ]
    return Divided(parts, _join_read, bears=True)


def _join_read(replies: Sequence[Any]) -> Any:
    return [stream for reply in replies if reply and reply is not NOWHERE for stream in reply] or None


def _call(command: Command, keys: Sequence[Any], args: Sequence[Any]) -> Command:
    return (*command[:2], len(keys), *keys, *args)


def _args(command: Command) -> Command:
    return command[3 + int(command[2]) :]


def _unread(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, _call(command, [keys[place] for place in found], _args(command))) for at, found in places.items()]
    return Divided(parts, lambda replies: _ordered(replies, places, len(keys), b""))


def _waiting(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, _call(command, [keys[place] for place in found], _args(command))) for at, found in places.items()]

    def join(replies: Sequence[Any]) -> list[Any]:
        return sorted(
            [places[part.slot][int(row[0]) - 1] + 1, *row[1:]]
            for part, reply in zip(parts, replies, strict=True)
            for row in (() if reply is NOWHERE else reply)
        )

    return Divided(parts, join, bears=True)


def _due(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, _call(command, [keys[place] for place in found], ())) for at, found in places.items()]

    def join(replies: Sequence[Any]) -> list[Any]:
        pairs = [(part, reply) for part, reply in zip(parts, replies, strict=True) if reply is not NOWHERE]
        firsts = [reply[0] for _, reply in pairs if reply[0]]
        due = sorted(places[part.slot][int(place) - 1] + 1 for part, reply in pairs for place in reply[1:])
        return [min(firsts, key=float, default=b""), *due]

    return Divided(parts, join, bears=True)


OF_A_PARTITION = 7  # keys, as in looks.lua


def _look_over(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    parts = [Part(at, _call(command, [keys[place] for place in found], _args(command))) for at, found in places.items()]

    def join(replies: Sequence[Any]) -> list[int]:
        return sorted(
            places[part.slot][OF_A_PARTITION * (int(number) - 1)] // OF_A_PARTITION + 1
            for part, reply in zip(parts, replies, strict=True)
            for number in (() if reply is NOWHERE else reply)
        )

    return Divided(parts, join, bears=True)


def _own(command: Command, keys: Sequence[Any], places: Places) -> Divided:
    token, lease, *acts = _args(command)
    parts = [
        Part(at, _call(command, [keys[place] for place in found], (token, lease, *(acts[place] for place in found))))
        for at, found in places.items()
    ]
    return Divided(parts, lambda replies: _ordered(replies, places, len(keys), b""), bears=True)


FUNCTIONS: Mapping[str, Divider] = {
    functions.UNREAD: _unread,
    functions.WAITING: _waiting,
    functions.DUE: _due,
    functions.LOOK_OVER: _look_over,
    functions.OWN: _own,
}

# A slot that migrates refuses a call with a key that it does not have beside one that it has, before it does anything.
# These functions use keys that they do not declare: with this key, none of them is ever interrupted by a migration.
GUARDED = frozenset(
    {
        *(functions.COMMIT, functions.PREFETCH, functions.FORGET, functions.ANNOUNCE, functions.CHANGE_BREAKER),
        *(functions.READ_CLAIMS, functions.RELEASE_CLAIMS, functions.SET_CLAIM),
        *(functions.WAIT_TURN, functions.TAKE_TURNS, functions.TAKE_OVER),
        *(functions.FAN_OUT, functions.LEASE_CALLBACK, functions.NOTE_TRY),
        *(functions.END_CALLBACKS, functions.CALL_AGAIN, functions.ADD_KEY, functions.ROTATE_KEY),
    }
)
UP_TO_TAG = re.compile(r"[^{]*\{[^}]+\}")


def guarded(command: Command) -> Command:
    """Return a call of a function in GUARDED with an added key that never exists; other commands unchanged.

    The added key is in the slot of the first key.
    """
    if command[0] != "FCALL" or command[1] not in GUARDED:
        return command
    count = int(command[2])
    return (*command[:2], count + 1, *command[3 : 3 + count], _absent(command[3]), *command[3 + count :])


def _absent(key: Any) -> str:
    text = key.decode() if isinstance(key, bytes) else str(key)
    tag = UP_TO_TAG.match(text)
    return f"{tag[0] if tag else f'{{{text}}}'}:absent"


def join_all(command: Command) -> Callable[[Sequence[Any]], Any]:
    """Return the function that joins the replies of all servers into one; it ignores servers that are away."""
    join = JOINED.get(command[0], operator.itemgetter(0))
    if command[:2] == ("FUNCTION", "LIST"):
        join = partial(min, key=len)  # one that lacks some is to get all
    return lambda replies: join([reply for reply in replies if reply is not NOWHERE])


def _fullest(replies: Sequence[bytes]) -> bytes:
    """Return the INFO reply of the server that is least safe; among equally safe ones, of the fullest one."""
    return max(replies, key=lambda reply: (*_unsafe(reply), _share(reply)))


def _number(reply: bytes, name: bytes) -> int:
    found = re.search(rb"^%s:(\d+)" % name, reply, re.MULTILINE)
    return int(found[1]) if found else 0


def _unsafe(reply: bytes) -> tuple[bool, bool]:
    policy = re.search(rb"^maxmemory_policy:(\S+)", reply, re.MULTILINE)
    return (bool(policy and policy[1] != b"noeviction"), bool(re.search(rb"^aof_enabled:0", reply, re.MULTILINE)))


def _share(reply: bytes) -> float:
    limit = _number(reply, b"maxmemory")
    used = _number(reply, b"used_memory") - _number(reply, b"mem_not_counted_for_evict")
    return used / limit if limit else 0.0


JOINED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "INFO": _fullest,
    "DBSIZE": sum,
    "KEYS": lambda replies: [key for reply in replies for key in reply],
}


def scan_at(command: Command, servers: int) -> tuple[int, Command]:
    """Return the index of the server that the cursor of a SCAN names, and the SCAN command for this server."""
    cursor, number = divmod(int(command[1]), SERVERS)
    return min(number, servers - 1), (command[0], cursor, *command[2:])


def scan_on(number: int, servers: int, replies: Sequence[Any]) -> list[Any]:
    """Return the reply of SCAN, with a cursor that names the server to ask next."""
    cursor, keys = int(replies[0][0]), replies[0][1]
    if not cursor:
        return [b"%d" % (number + 1 if number + 1 < servers else 0), keys]
    return [b"%d" % (cursor * SERVERS + number), keys]
