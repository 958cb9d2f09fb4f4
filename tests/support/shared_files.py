"""Whether plans of one repository ever worked on the same file at once, by the events on a real server."""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas import codec
from schemas.event import event_type
from schemas.stored.step import TEXTS, read_texts, unpack_step
from tests.support.recount import HOME, plans

STARTS = {event_type("step.started").encode(), event_type("step.restarted").encode()}
ENDS = {event_type(f"plan.{end}").encode() for end in ("completed", "halted", "rejected")}


def shared_files(redis: Redis) -> int:
    """Check that no two plans worked on a file at once, by the events in the order of their commits.

    A plan uses a file from its first attempt until its own end. Return the number of plans that were held for a file.
    """
    holders: dict[tuple[str, str], str] = {}
    waited: set[str] = set()
    files = files_of_steps(redis)
    entries: Any = redis.xrange(HOME.events)
    for _, fields in entries:
        data = codec.loads(fields[b"data"])
        plan_id, repo = data.get("plan_id", ""), data.get("repo", "")
        if fields[b"type"] in STARTS:
            for file in files[plan_id, data["step_id"]]:
                assert holders.setdefault((repo, file), plan_id) == plan_id, (file, data)
        elif fields[b"type"] in ENDS:
            holders = {place: holder for place, holder in holders.items() if holder != plan_id}
        elif fields[b"type"] == event_type("plan.held").encode() and data["reason"].startswith("waiting for "):
            waited.add(plan_id)
    return len(waited)


def files_of_steps(redis: Redis) -> dict[tuple[str, str], list[str]]:
    """List the files of each step of each plan."""
    found: dict[tuple[str, str], list[str]] = {}
    for plan_id in plans(redis):
        stored: Any = redis.hgetall(HOME.plan(plan_id).steps)
        texts = read_texts(stored.pop(TEXTS.encode(), None))
        for name, spec in stored.items():
            if name[:1] not in (b">", b"="):
                found[plan_id, name.decode()] = unpack_step(spec, texts)["allowed_files"]
    return found
