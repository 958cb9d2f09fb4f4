"""The repository's own instructions for agents, AGENTS.md and CLAUDE.md, as of the plan's first commit.

Versions from a plan or a fork are never read: an agent could write instructions for the next one there. The commit has
to be on a branch of the repository. An agent receives the instructions of the root and, for each file of its step,
those of the nearest folder above it.
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

MAX_BYTES = 32 * 1024  # of all texts for an agent
MAX_FILE_BYTES = 1024 * 1024  # of one file
MAX_COMMITS = 100_000  # of one plan
SHOWN, SHORT = 5, 12  # files that a sentence names, and characters of a commit
FILES = (b"100644", b"100755")  # modes of plain files; links are neither listed nor followed

log = logging.getLogger("planner.controller")


class Trust(StrEnum):
    """The ways to give agents a repository's instructions: as words to follow, as quoted data, or not."""

    DATA = "data"  # quoted, like all that comes from outside
    TRUSTED = "trusted"  # words of the repository's owners, which agents are asked to follow
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instructions for an agent: `text` has the content of the `files`, each below its path.

    `digest` is the digest of the text, and `digests` are those of whole files. If the agent receives no file although
    there are some, `left_out` is a sentence with the reason.
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
        """The digest of the text for the agent."""
        return f"sha256:{sha256(self.text.encode()).hexdigest()}"

    @property
    def reported(self) -> GivenInstructions | None:
        """The part of the outcome about the instructions; None without files and without a reason."""
        if not (self or self.left_out):
            return None
        return GivenInstructions(given=dict(self.digests), left_out=self.left_out or None)


NONE = Instructions()


def read_instructions(repository: Repository, spec: Spec, tip: str, trust: Trust) -> Instructions:
    """Return the repository's instructions for the step; `tip` is the commit where its attempt begins.

    If a file differs from its version in the goal, the agent receives no instructions. Raises GitError. Raises
    RemoteTrouble if a remote does not list the branches with the plan's first commit.
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
    """Return the commit where the plan begins."""
    if spec.context.base_sha:
        return repository.find(spec.context.base_sha)
    made = list(history.walk(repository.git, spec.plan_id, tip, MAX_COMMITS))
    return made[-1].parent if made else tip


def _texts(repository: Repository, base: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return the texts of the `wanted` files in a commit by path; missing and large files are left out."""
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
    """Return the texts one below the other, truncated to the limit; those nearest to the step's files have priority."""
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
