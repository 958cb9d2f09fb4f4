"""The repository's own instructions for agents, AGENTS.md and CLAUDE.md, as the plan's first commit has them.

What a plan or a fork has made of them is never read: an agent could write orders for the next one there. The commit has
to be on a branch of the repository. An agent is given those of the root and, of each file that its step is about, those
of the nearest folder above it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from schemas.outcome import GivenInstructions
from tasks.text.fields import fit, make_legible, whole_lines
from tasks.toolchain.instructions import candidates, choose, digests_of, paths_of
from worker.controller import history
from worker.controller.repository import Repository
from worker.controller.wire import Spec

MAX_BYTES = 32 * 1024  # of all that an agent is given
MAX_FILE_BYTES = 1024 * 1024  # of one that is read
MAX_COMMITS = 100_000  # of one plan
SHOWN, SHORT = 5, 12  # files that a sentence names, and characters of a commit
FILES = (b"100644", b"100755")  # modes; a link is none, nor is what it leads to read

log = logging.getLogger("planner.controller")


class Trust(StrEnum):
    """What an operator lets the instructions of a repository be for agents."""

    DATA = "data"  # quoted, like all that comes from outside
    TRUSTED = "trusted"  # the words of those who own the repository, which agents are asked to follow
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The texts of the files, each under its path; `digest` is of that text, `digests` are of whole files.

    `left_out` is a sentence: why the agent gets no file although there are some.
    """

    trust: Trust = Trust.OFF
    files: tuple[str, ...] = ()
    text: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    left_out: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def digest(self) -> str:
        """Return the digest of what an agent is given."""
        return f"sha256:{sha256(self.text.encode()).hexdigest()}"

    @property
    def reported(self) -> GivenInstructions | None:
        """Return the part of the outcome about them; None without files and without a reason."""
        if not (self or self.left_out):
            return None
        return GivenInstructions(given=dict(self.digests), left_out=self.left_out or None)


NONE = Instructions()


def read_instructions(repository: Repository, spec: Spec, tip: str, trust: Trust) -> Instructions:
    """Read what the repository asks of those who do the step; `tip` is where its attempt begins.

    Nothing is given where a file is not as the goal has it that the spec comes from.
    Raises GitError, and RemoteTrouble where a remote does not say which branches the plan's first commit is on.
    """
    if trust is Trust.OFF:
        return NONE
    base, named = _base(repository, spec, tip), spec.context.instructions
    if not repository.has_on_a_branch(base):
        found = _left_out(spec, base, "it is on no branch", "Instructions are not given: {base} is on no branch.")
        return found if named else NONE
    changed = list(paths_of(spec.allowed_files, spec.allowed_patterns))
    paths = [*changed, *(place.path for place in spec.focus)]
    there = _texts(repository, base, candidates(paths))
    known = {path: there[path] for path in choose(paths, there)}
    if named is not None:
        digests = digests_of(there)
        both = choose(changed, {*there, *(named.keys() & {*candidates(changed)})})
        if wrong := [path for path in both if named.get(path) != digests.get(path)]:
            sentence = f"Instructions are not given, since the goal has others: {', '.join(wrong[:SHOWN])} at {{base}}."
            return _left_out(spec, base, "they differ from the goal's", sentence)
        known = {path: text for path, text in known.items() if named.get(path) == digests[path]}
    first = {text: path for path, text in reversed(known.items())}  # of the same text but one
    given = {path: text for path, text in known.items() if first[text] == path}
    text = _joined(given, trust)
    return Instructions(trust, tuple(given), text, digests_of(given)) if text else NONE


def _left_out(spec: Spec, base: str, why: str, sentence: str) -> Instructions:
    log.warning("instructions_left_out", extra={**spec.ids, "commit": base, "why": why})
    return Instructions(left_out=sentence.format(base=base[:SHORT]))


def _base(repository: Repository, spec: Spec, tip: str) -> str:
    """Return the commit that the plan begins with."""
    if spec.context.base_sha:
        return repository.find(spec.context.base_sha)
    made = list(history.walk(repository.git, spec.plan_id, tip, MAX_COMMITS))
    return made[-1].parent if made else tip


def _texts(repository: Repository, base: str, wanted: Iterable[str]) -> dict[str, str]:
    """Read those `wanted` files that a commit has, but for large ones."""
    found: dict[str, str] = {}
    how = ("--literal-pathspecs", "ls-tree", "-z", "--long", "--full-tree")
    for line in repository.git(*how, base, "--", *wanted).split(b"\0"):
        about, _, raw = line.partition(b"\t")
        mode, _, blob, size = (*about.split(), b"", b"", b"", b"")[:4]
        if mode in FILES and int(size) <= MAX_FILE_BYTES:
            text = repository.git("cat-file", "blob", blob.decode())
            found[raw.decode(errors="replace")] = text.decode(errors="replace")
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
