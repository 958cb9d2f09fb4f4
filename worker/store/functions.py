"""The function libraries: loaded at start, and again where a server has lost them."""

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
from redis.exceptions import NoPermissionError, ResponseError

from tasks.base.errors import PlannerError

BEGIN = "planner_begin_4"
COMMIT = "planner_commit_7"
PLAIN_COMMITS = "planner_commits_3"
PREFETCH = "planner_prefetch_1"
LIST = "planner_list_1"
READ_CLAIMS = "planner_read_claims_2"
RELEASE_FILES = "planner_release_files_1"
UPKEEP = "planner_upkeep_1"
TIDY = "planner_tidy_1"
ADD = "planner_add_1"
DEAD_LETTER = "planner_bury_2"
DROP_DEAD = "planner_unbury_1"
PUBLISH_COMMAND = "planner_order_1"
MAKE_GROUP = "planner_group_1"
COUNT = "planner_count_1"
REMIND = "planner_remind_1"
GRANT = "planner_grant_1"
REFILL = "planner_refill_1"
TOP_UP = "planner_top_up_1"
STAND = "planner_stand_1"
HOLD = "planner_hold_1"
KNOW = "planner_know_1"
CLAIM = "planner_claim_1"
REFUSE = "planner_refuse_1"
RETRIED = "planner_retried_1"
SETTLE = "planner_settle_2"
CONCLUDE = "planner_conclude_1"
EPOCH = "planner_epoch_1"
ADD_KEY = "planner_key_add_1"
ROTATE_KEY = "planner_key_rotate_1"
TAKE = "planner_take_1"
WAIT_TURN = "planner_wait_turn_1"
TAKE_TURNS = "planner_take_turns_1"
TAKE_OVER = "planner_take_over_1"
TAKE_WEBHOOK = "planner_webhook_1"
SEND_COMPLETED = "planner_webhook_send_1"
POSTPONE = "planner_webhook_postpone_1"
WAKE_POSTPONED = "planner_webhook_wake_1"
FAN_OUT = "planner_fan_out_1"
LEND = "planner_lend_1"
NOTE_TRY = "planner_note_try_1"
END_CALLBACKS = "planner_end_callbacks_1"
CALL_AGAIN = "planner_call_again_1"
CLAIM_ID = "planner_claim_id_1"
UNDELIVER = "planner_undeliver_1"
HEARTBEAT = "planner_heartbeat"
CHANGE_BREAKER = "planner_breaker_1"
ATTEND = "planner_attend_1"
OWN = "planner_own_1"
LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "planner_1": (
            *("clock", "shared", "lists", "sums", "claims_text", "file_claims", "failures", "begin"),
            *("prefetch", "commit", "older_commits", "plain_commits", "breaker", "upkeep"),
        ),
        "planner_aside_1": ("aside", "turns"),
        "planner_webhooks_1": ("webhooks",),
        "planner_callbacks_1": ("clock", "callbacks"),
        "planner_consumers": ("consumers",),
        "planner_heartbeat": ("heartbeat",),
        "planner_keys": ("api_keys",),
        "planner_claims": ("claims",),
        "planner_owners": ("clock", "owners"),
    }
)
VERSION = 34  # of their text; to be raised with every change of it
MISSING = "Function not found"


class FunctionsMissing(PlannerError):
    """The server does not have the planner's functions; load them and begin anew."""


@cache
def source(library: str) -> str:
    """Put a library together from its parts in `lua/`."""
    folder = resources.files("worker.store").joinpath("lua")
    parts = [folder.joinpath(f"{part}.lua").read_text() for part in LIBRARIES[library]]
    return "\n".join([f"#!lua name={library}\n-- version {VERSION}", *parts])


def load(client: Redis) -> None:
    """Load the libraries, unless a worker of a newer version has.

    The same text again changes nothing.
    """
    found: Any = ()
    with suppress(NoPermissionError):  # to look at what is there
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
    """Tell whether the server has the libraries, of whatever version; where nobody may look they count as there."""
    try:
        found: Any = client.execute_command("FUNCTION", "LIST")
    except NoPermissionError:
        return True
    return LIBRARIES.keys() <= {
        dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode() for flat in found
    }


class Talk:
    """One connection on which commands are sent and replies read, each when it suits.

    Their order is the same. A pipeline without its costs per command and without retries; while the server works on
    what was sent, the sender can go on. An error reply is returned like any other.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._owed = 0

    def __enter__(self) -> Self:
        self._connection = self._pool.get_connection()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind or self._owed:
            self._connection.disconnect()  # what is still on its way must not answer a later call
        self._pool.release(self._connection)

    def send(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send commands; their replies are owed."""
        if commands:
            self._owed += len(commands)
            self._connection.send_packed_command([b"".join([pack_command(command) for command in commands])])

    def receive(self, count: int) -> list[Any]:
        """Read the next `count` replies; raises FunctionsMissing where the server has lost the library."""
        replies: list[Any] = []
        for _ in range(count):
            try:
                replies.append(self._connection.read_response())
            except ResponseError as error:
                if MISSING in str(error):
                    raise FunctionsMissing from error
                replies.append(error)
        self._owed -= count
        return replies


def call(client: Redis, *command: Any) -> Any:
    """Call one function and return its reply; raises what the server refuses."""
    with Talk(client) as talk:
        talk.send([command])
        (reply,) = talk.receive(1)
    if isinstance(reply, Exception):
        raise reply
    return reply


def ask(client: Redis, commands: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
    """Send what only reads in one round trip, each command once; returns the reply to each.

    Raises what the server refuses.
    """
    asked = list(dict.fromkeys(commands))
    with Talk(client) as talk:
        talk.send(asked)
        replies = talk.receive(len(asked))
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return dict(zip(asked, replies, strict=True))
