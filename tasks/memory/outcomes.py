"""Results of a repository's attempts: how one is recorded, and which records a new plan reads.

A record is a JSON array of at most `MAX_RECORD` bytes. Records belong to a tenant, a repository name and a fingerprint
of its manifests, so a fork under another name adds none. Titles and names are texts from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from schemas import codec
from schemas.goal import Goal
from schemas.times import DAY_MS
from tasks.memory.flaky_tests import MAX_DAYS

MAX_RECORD = 256  # bytes: 2000 records, which commit.lua keeps of a fingerprint, are 512 kB
MOST_READ = 256  # the newest records, read when a plan is created: its creation waits for them
MAX_TITLE, MOST_FILES, MOST_TOOLS, MOST_TESTS = 80, 3, 6, 2
_PROJECT = re.compile(r"""^\s*(?:"name"\s*:|name\s*=|module(?=\s))\s*["']?([^\s"',]+)""", re.MULTILINE)


class Place(NamedTuple):
    """Where the attempts of a plan are recorded: the `name` of the list, and the `kind` of its task."""

    name: str
    kind: str


class Attempted(NamedTuple):
    """A record: the subject of a step, and the result of an attempt; `category` is empty for a success."""

    day: int  # since 1970
    kind: str
    title: str
    files: Sequence[str]
    tools: Sequence[str]  # of its verification
    tokens: int
    category: str = ""
    tests: Sequence[str] = ()  # that failed


def fingerprint_of(goal: Goal) -> str:
    """Return the hash of manifest paths, the project's name and the test command, as 24 hex digits.

    The project's name comes from the manifest nearest to the root, else from the repository. So a new version of a
    project has the same fingerprint.
    """
    manifests = goal.context.manifests
    nearest = sorted(manifests, key=lambda path: (path.count("/"), path))
    named = next((found[1] for path in nearest if (found := _PROJECT.search(manifests[path]))), goal.context.repo)
    parts = [sorted(manifests), named, goal.context.test_command]
    return blake2b(codec.dumps(parts), digest_size=12).hexdigest()


@lru_cache(maxsize=1024)  # all plans of a repository have the same one
def list_of(tenant: str, repo: str, fingerprint: str) -> str:
    """Return the name of the list of a repository's records."""
    return f"{_plain(tenant)}:{_plain(repo)}:{fingerprint}"


def read_list(name: str) -> tuple[str, str, str]:
    """Return the tenant, the repository and the fingerprint in the name of a list."""
    tenant, repo, fingerprint = name.split(":")
    return unquote(tenant), unquote(repo), fingerprint


def _plain(text: str) -> str:
    return quote(text, safe="", errors="replace")


def place_of(head: Any) -> Place | None:
    """Return where the attempts of a plan with this head are recorded; None if they are not."""
    about = head.memory
    return Place(list_of(head.tenant, head.repo, about["fingerprint"]), about["kind"]) if about else None


def write_record(
    place: Place, facts: Mapping[str, Any], tokens: int, now: int, category: str = "", tests: Sequence[str] = ()
) -> bytes:
    """Return the record of an attempt of a step with these `facts`, which ended at `now` (ms).

    It keeps within its size by leaving out files and shortening the title.
    """
    title, files = facts["title"][:MAX_TITLE], facts["allowed_files"][:MOST_FILES]
    known = facts["verify_tools"][:MOST_TOOLS]
    # Every outcome passes here, so work that needs no call is done without one.
    tools = [tool["tool"] for tool in known] if known[1:] else known and [known[0]["tool"]]
    record = [now // DAY_MS, place.kind, title, files, tools, tokens]
    if category:
        record += (category, tests) if tests else (category,)
    raw = codec.dumps(record)
    return _shorten(record) if raw[MAX_RECORD:] else raw


def _shorten(record: list[Any]) -> bytes:
    """Leave out tests, then files, then the end of the title, then tools, until the record fits."""
    record, room = record[:7], MAX_RECORD
    while len(raw := codec.dumps(record)) > room and record[3]:
        record[3] = record[3][:-1]
    if len(raw) > room:
        record[2] = record[2][: MAX_TITLE // 8]
    while len(raw := codec.dumps(record)) > room and record[4]:
        record[4] = record[4][:-1]
    return raw


def read_records(raw: Iterable[bytes], now: int) -> list[Attempted]:
    """Decode the records that are not too old at `now` (ms), newest first; invalid ones are skipped."""
    oldest = now // DAY_MS - MAX_DAYS
    return [record for one in raw if (record := _read(one)) and record.day >= oldest]


@lru_cache(maxsize=8192)  # plans of a repository read the same records
def _read(raw: bytes) -> Attempted | None:
    try:
        record = Attempted(*codec.loads(raw))
        record = record._replace(files=tuple(record.files), tools=tuple(record.tools), tests=tuple(record.tests))
    except (ValueError, TypeError):
        return None
    return record if type(record.day) is int and isinstance(record.title, str) else None
