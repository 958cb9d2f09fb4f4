"""The repository's own instructions for agents, AGENTS.md and CLAUDE.md, as the plan's first commit has them.

What a plan or a fork has made of them is never read: an agent could write orders for the next one there. The commit has
to be on a branch of the repository. An agent is given those of the root and, of each file that its step is about, those
of the nearest folder above it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from tasks.text.fields import fit, make_legible, whole_lines
from worker.controller import history
from worker.controller.repository import Repository
from worker.controller.wire import Spec

NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES = 32 * 1024  # of all that an agent is given
MAX_FILE_BYTES = 1024 * 1024  # of one that is read
MAX_COMMITS = 100_000  # of one plan
WILD = re.compile(r"[*?]")
FILES = (b"100644", b"100755")  # modes; a link is none, nor is what it leads to read

log = logging.getLogger("planner.controller")


class Trust(StrEnum):
    """What an operator lets the instructions of a repository be for agents."""

    DATA = "data"  # quoted, like all that comes from outside
    TRUSTED = "trusted"  # the words of those who own the repository, which agents are asked to follow
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the files say, each under its path; the digest is of that text."""

    trust: Trust = Trust.OFF
    files: tuple[str, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def digest(self) -> str:
        """Return the digest of what an agent is given."""
        return f"sha256:{sha256(self.text.encode()).hexdigest()}"


NONE = Instructions()


def read_instructions(repository: Repository, spec: Spec, tip: str, trust: Trust) -> Instructions:
    """Read what the repository asks of those who do the step; `tip` is where its attempt begins.

    Raises GitError, and RemoteTrouble where a remote does not say which branches the plan's first commit is on.
    """
    if trust is Trust.OFF:
        return NONE
    base = _base(repository, spec, tip)
    if not repository.has_on_a_branch(base):
        log.warning("instructions_left_out", extra={**spec.ids, "commit": base, "why": "it is on no branch"})
        return NONE
    found = dict(_texts(repository, base, _about(spec)))
    text = _joined(found, trust)
    return Instructions(trust, tuple(found), text) if text else NONE


def _base(repository: Repository, spec: Spec, tip: str) -> str:
    """Return the commit that the plan begins with."""
    if spec.context.base_sha:
        return repository.find(spec.context.base_sha)
    made = list(history.walk(repository.git, spec.plan_id, tip, MAX_COMMITS))
    return made[-1].parent if made else tip


def _about(spec: Spec) -> Iterator[str]:
    """Yield the files that a step is about, and of its patterns the folders that they begin with."""
    yield from spec.allowed_files
    yield from (place.path for place in spec.focus)
    for pattern in spec.allowed_patterns:
        fixed = WILD.split(pattern, maxsplit=1)[0]
        yield f"{fixed.rpartition('/')[0]}/*"


def _texts(repository: Repository, base: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of the root, then those nearest above each of the paths; the same text but once."""
    chains = [_folders_above(path) for path in dict.fromkeys(paths)]
    folders = list(dict.fromkeys(["", *(folder for chain in chains for folder in chain)]))
    there = _listed(repository, base, folders)
    chosen = dict.fromkeys([""])
    for chain in chains:
        chosen |= dict.fromkeys([next((folder for folder in chain if folder in there), "")])
    seen = set()
    for folder in chosen:
        for name, blob in sorted(there.get(folder, {}).items()):
            if blob not in seen:
                seen.add(blob)
                yield f"{folder}{name}", repository.git("cat-file", "blob", blob).decode(errors="replace")


def _folders_above(path: str) -> list[str]:
    """List the folders that a path lies in, the nearest first and the root left out."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) + "/" for count in range(len(parts), 0, -1) if "" not in parts[:count]]


def _listed(repository: Repository, base: str, folders: Iterable[str]) -> dict[str, dict[str, str]]:
    """Say which of the files each folder has, by folder and name their blobs."""
    wanted = [f"{folder}{name}" for folder in folders for name in NAMES]
    found: dict[str, dict[str, str]] = {}
    how = ("--literal-pathspecs", "ls-tree", "-z", "--long", "--full-tree")
    for line in repository.git(*how, base, "--", *wanted).split(b"\0"):
        about, _, raw = line.partition(b"\t")
        mode, _, blob, size = (*about.split(), b"", b"", b"", b"")[:4]
        if mode in FILES and int(size) <= MAX_FILE_BYTES:
            folder, slash, name = raw.decode(errors="replace").rpartition("/")
            found.setdefault(folder + slash, {})[name] = blob.decode()
    return found


def _joined(found: dict[str, str], trust: Trust) -> str:
    """Put the texts below each other, cut to what an agent is given: those nearest to its files are kept first."""
    left, kept = MAX_BYTES, dict.fromkeys(found, "")
    for path in reversed(found):
        heading = f"{path}:\n"
        room = left - len(heading.encode())
        if room <= 0:
            break
        text = whole_lines(make_legible(found[path]).strip(), 2 * MAX_BYTES)
        text = fit(text, room, whole_lines) if trust is Trust.DATA else whole_lines(text, room)
        kept[path] = heading + text
        left -= len(kept[path].encode()) + 2
    return "\n\n".join(filter(None, kept.values()))
