"""Edits the message of a dead entry in the operator's editor, until a worker could read it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.envelope import DATA, Problem
from schemas.goal import Goal
from worker.cli.console import FAILED, USAGE, Failure, say
from worker.client.redis_planner import RedisPlanner
from worker.host.terminal import confirm
from worker.render.plan import plain
from worker.store import goal_record, keys
from worker.store.dead import Dead
from worker.streams.decode import read_command, read_goal, read_outcome
from worker.streams.inbox import StreamEntry


def edit(link: RedisPlanner, dead: Dead, *, ask: bool) -> bytes:
    """Return the edited message. Raises Failure if nothing was saved, or the message cannot be read.

    With `ask` the operator may correct an unreadable message.
    """
    text = _written_as(dead.data, codec.pretty)
    while True:
        text = _in_editor(text)
        data = _written_as(text, codec.dumps)  # without the layout for people
        trouble = _check(link, dead, data)
        if trouble is None:
            return data
        if not ask:
            raise Failure(trouble, USAGE)
        say(plain(trouble.detail))
        for error in trouble.errors:
            say(plain(f"  {error.pointer or '/'}  {error.message} ({error.code})"))
        if not confirm("Edit it again?", default=True):
            raise Failure(trouble, USAGE)


def _check(link: RedisPlanner, dead: Dead, data: bytes) -> Problem | None:
    entry = StreamEntry(dead.origin, dead.source.encode(), {**dead.again(data), DATA: data})
    if dead.origin == keys.GOALS:
        goal = read_goal(entry, link.settings.max_goal_bytes)
        return goal if isinstance(goal, Problem) else _conflict(link, entry, goal[0], goal[1])
    found = read_outcome(entry) if dead.origin.endswith(":outcomes") else read_command(entry)
    return found if isinstance(found, Problem) else None


def _conflict(link: RedisPlanner, entry: StreamEntry, goal: Goal, digest: str) -> Problem | None:
    """Return a problem if the goal's id was used with another body before."""
    name = goal.goal_id or entry.field("id") or ""
    known = goal_record.read(link.client, keys.goal_id(name, goal.tenant))
    if known is None or known[2] == digest:
        return None
    detail = f"The goal id {name} was used before, with another body: give this one a goal_id of its own."
    return Problem.of("goal_conflict", detail, status=409)


def _in_editor(text: bytes) -> bytes:
    """Return `text` after the user has edited it in a private file."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "entry.json")
        file.write_bytes(text)
        before = file.stat().st_mtime_ns
        try:
            code = subprocess.call([*shlex.split(editor), str(file)])  # noqa: S603 (the operator's own editor)
        except (OSError, ValueError) as error:
            raise Failure.of("no_editor", f"The editor {editor!r} does not start: {error}", USAGE) from error
        if code:
            raise Failure.of("not_edited", f"The editor ended with {code}; nothing was sent.", FAILED)
        if file.stat().st_mtime_ns == before:
            raise Failure.of("not_edited", "Nothing was saved, so nothing was sent.", FAILED)
        return file.read_bytes()


def _written_as(data: bytes, encode: Callable[[Any], bytes]) -> bytes:
    """Return JSON in the form that `encode` writes; other data stay unchanged, and a later check reports them."""
    try:
        return encode(codec.loads(data))
    except (codec.DecodeError, codec.EncodeError):
        return data
