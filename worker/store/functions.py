"""The function libraries, loaded at start, and again if a server has lost them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Self

from hiredis import pack_command
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import NoPermissionError, RedisError, ResponseError
from redis.exceptions import TimeoutError as TookTooLong

from tasks.base.errors import PlannerError
from worker.store import commit_parts
from worker.store.clients import has_several

BEGIN = "planner_begin"
COMMIT = "planner_commit"
PREFETCH = "planner_prefetch"
READ_CLAIMS = "planner_read_claims"
FORGET = "planner_forget"
RELEASE_CLAIMS = "planner_release_claims"
SET_CLAIM = "planner_set_claim"
UPKEEP = "planner_upkeep"
UNREAD = "planner_unread"
WAITING = "planner_waiting"
DUE = "planner_due"
LOOK_OVER = "planner_look_over"
TIDY = "planner_tidy"
ADD = "planner_add"
DEAD_LETTER = "planner_dead_letter"
DROP_DEAD = "planner_drop_dead"
PUBLISH_COMMAND = "planner_publish_command"
MAKE_GROUP = "planner_make_group"
COUNT = "planner_count"
REMIND = "planner_remind"
GRANT = "planner_grant"
REFILL = "planner_refill"
TOP_UP = "planner_top_up"
PAUSE_SCOPE = "planner_pause_scope"
HOLD_LOCK = "planner_hold_lock"
REMEMBER = "planner_remember"
CLAIM = "planner_claim_goal"
HAND_IN = "planner_hand_in"
REFUSE = "planner_refuse_goal"
RETRIED = "planner_note_retry"
SETTLE = "planner_settle_goal"
CONCLUDE = "planner_conclude_goal"
EPOCH = "planner_epoch"
ADD_KEY = "planner_add_key"
ROTATE_KEY = "planner_rotate_key"
TAKE = "planner_take_token"
WAIT_TURN = "planner_wait_turn"
TAKE_TURNS = "planner_take_turns"
TAKE_OVER = "planner_take_over"
TAKE_WEBHOOK = "planner_take_webhook"
SEND_COMPLETED = "planner_send_webhook"
POSTPONE = "planner_postpone_webhook"
WAKE_POSTPONED = "planner_wake_webhooks"
FOLLOW_CHANGE = "planner_follow_change"
KEEP_CHANGE = "planner_keep_change"
ANNOUNCE = "planner_announce"
FAN_OUT = "planner_fan_out"
LEASE_CALLBACK = "planner_lease_callback"
NOTE_TRY = "planner_note_try"
END_CALLBACKS = "planner_end_callbacks"
CALL_AGAIN = "planner_call_again"
CLAIM_ID = "planner_claim_id"
UNDELIVER = "planner_undeliver"
HEARTBEAT = "planner_heartbeat"
KEEP_ATTACHMENT = "planner_keep_attachment"
CHANGE_BREAKER = "planner_change_breaker"
REGISTER = "planner_register"
OWN = "planner_own"
COMMIT_PARTS = "commit_parts"  # no file in `lua/`: commit_parts.py makes it
# None has a name that a library of before 0.1.0 had: a server with those is refused (deployment.py).
LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "planner_plans": (
            *("clock", "shared", "lists", "sums", "claims_text", "file_claims", "begin"),
            *("prefetch", COMMIT_PARTS, "read_commit", "outbox", "breaker", "commit", "upkeep", "looks"),
            "announce",
        ),
        "planner_records": ("records", "turns", "hand_in"),
        "planner_webhook_jobs": ("webhooks", "delivered"),
        "planner_outbox": ("clock", "callbacks"),
        "planner_groups": ("consumers",),
        "planner_leases": ("heartbeat",),
        "planner_attachments": ("attachments",),
        "planner_api_keys": ("api_keys",),
        "planner_handouts": ("claims",),
        "planner_partitions": ("clock", "owners"),
    }
)
VERSION = 6  # version of their text; raise it with every change
MISSING = "Function not found"


class FunctionsMissing(PlannerError):
    """The server does not have the planner's functions; load them and begin again."""


@cache
def source(library: str) -> str:
    """Return the text of a library, made from its parts, which are in `lua/` except for one."""
    folder = resources.files("worker.store").joinpath("lua")
    parts = [
        commit_parts.source() if part == COMMIT_PARTS else folder.joinpath(f"{part}.lua").read_text()
        for part in LIBRARIES[library]
    ]
    return "\n".join([f"#!lua name={library}\n-- version {VERSION}", *parts])


def load(client: Redis) -> None:
    """Load the libraries, unless a worker of a newer version has done so. The same text again changes nothing."""
    found: Any = ()
    with suppress(NoPermissionError):  # if this user may not list functions
        found = client.execute_command("FUNCTION", "LIST", "WITHCODE")
    versions: dict[str, int] = {}  # another's library has none
    for flat in found:
        code = dict(zip(flat[::2], flat[1::2], strict=True))[b"library_code"].decode()
        name, version = re.match(r"#!lua name=(\S+)", code), re.search(r"^-- version (\d+)$", code, re.MULTILINE)
        if name and version:
            versions[name[1]] = int(version[1])
    for library in LIBRARIES:
        if versions.get(library, 0) <= VERSION:
            client.function_load(source(library), replace=True)


def are_loaded(client: Redis) -> bool:
    """Return whether the server has the libraries, of any version; True if this user may not look."""
    try:
        found: Any = client.execute_command("FUNCTION", "LIST")
    except NoPermissionError:
        return True
    return LIBRARIES.keys() <= {
        dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode() for flat in found
    }


class Talk:
    """One connection that sends commands and receives their replies separately, in the same order.

    While the server works, the sender can continue. Unlike redis-py's pipeline, it never sends a command twice. An
    error reply is returned like any other reply.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._pack = getattr(self._pool, "pack", _packed)  # a cluster's pool has to know the server of each command
        self._owed = 0

    def __enter__(self) -> Self:
        self._connection = self._pool.get_connection()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if (kind and not issubclass(kind, Exception)) or not self._read_rest():
            self._connection.disconnect()
        self._pool.release(self._connection)

    def _read_rest(self) -> bool:
        """Read and drop all replies that were not received, so that none answers a later call. Return False on failure.

        A new connection would also work, but then all users of the client would compare the server's commits again.
        """
        try:
            while self._owed:
                self._read()
        except (RedisError, OSError):
            return False
        return True

    def _read(self) -> Any:
        try:
            reply = self._connection.read_response()
        except ResponseError as error:
            reply = error
        self._owed -= 1
        return reply

    def send(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands; their replies have to be received later."""
        if commands:
            self._owed += len(commands)
            self._connection.send_packed_command(self._pack(commands))

    def receive(self, count: int) -> list[Any]:
        """Return the next `count` replies. Raises FunctionsMissing if the server has lost the library."""
        replies: list[Any] = []
        for _ in range(count):
            reply = self._read()
            if isinstance(reply, ResponseError) and MISSING in str(reply):
                raise FunctionsMissing from reply
            replies.append(reply)
        return replies

    def receive_each(self, count: int) -> list[Any]:
        """Return the next `count` replies; if a server is away, its replies are the error."""
        replies: list[Any] = []
        for _ in range(count):
            try:
                replies += self.receive(1)
            except (NoConnection, TookTooLong) as error:
                self._owed -= 1
                replies.append(error)
        return replies


def _packed(commands: Sequence[tuple[Any, ...]]) -> list[bytes]:
    return [b"".join(map(pack_command, commands))]


def call(client: Redis, *command: Any) -> Any:
    """Call one function and return its reply. Raises the server's refusal."""
    with Talk(client) as talk:
        talk.send([command])
        (reply,) = talk.receive(1)
    if isinstance(reply, Exception):
        raise reply
    return reply


def call_or_load(client: Redis, *command: Any) -> Any:
    """Call one function. Loads the functions if they are missing: a gateway may start before any worker."""
    try:
        return call(client, *command)
    except FunctionsMissing:
        load(client)
        return call(client, *command)


def call_each(client: Redis, commands: Iterable[tuple[Any, ...]]) -> None:
    """Call functions one by one: a full server accepts no function inside of a transaction."""
    for command in commands:
        call(client, *command)


def ask(client: Redis, commands: Iterable[tuple[Any, ...]], *, bears: bool = False) -> dict[tuple[Any, ...], Any]:
    """Send reading commands in one round trip, each command once. Returns the reply to each.

    With `bears` the reply of a cluster's server that is away is its error. Raises the server's refusal.
    """
    asked = list(dict.fromkeys(commands))
    bears = bears and has_several(client)
    with Talk(client) as talk:
        talk.send(asked)
        replies = talk.receive_each(len(asked)) if bears else talk.receive(len(asked))
    for reply in replies:
        if isinstance(reply, Exception) and not (bears and isinstance(reply, NoConnection | TookTooLong)):
            raise reply
    return dict(zip(asked, replies, strict=True))
