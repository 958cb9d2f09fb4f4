"""Collects a record of one attempt while it runs, as files for people: without secrets, and of limited size."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Any

from schemas import codec
from schemas.outcome import Outcome
from schemas.step import ROOT
from tasks.text.secrets import mask, redact
from worker.sandbox.process import TIMED_OUT, Printed

TRANSCRIPT, DIFF, VERIFICATION, DENIED = "transcript", "changes.diff", "verification.txt", "denied.txt"
SPEC, OUTCOME = "spec.json", "outcome.json"
FILES = (TRANSCRIPT, DIFF, VERIFICATION, DENIED, SPEC, OUTCOME)
MAX_FILE_BYTES = 4 * 1024 * 1024  # secrets are looked for in every byte
MAX_TOOL_BYTES = 1024 * 1024  # of one verification
ERRORS = b"\n--- standard error ---\n"
LEFT_OUT = b"\n[... %d bytes left out ...]\n"


@dataclass(slots=True)
class AttemptLog:
    """The output of the agent and the verifications, and the diff of an attempt; no file contains the `secrets`."""

    secrets: tuple[str, ...] = ()
    diff: bytes = b""
    denied: tuple[str, ...] = ()  # actions that the agent tried and was not allowed to do
    began: bool = field(default=False, init=False)  # whether an agent ran
    _transcript: bytes = field(default=b"", init=False)
    _tools: list[bytes] = field(default_factory=list, init=False)

    def add_agent(self, said: Printed) -> None:
        """Store the output of the agent."""
        errors = _excerpt(said.stderr, MAX_FILE_BYTES // 8)
        room = MAX_FILE_BYTES - len(ERRORS) - len(errors)
        self._transcript = _excerpt(said.stdout, room) + (ERRORS + errors if errors else b"")
        self.began = True

    def add_tool(self, argv: Sequence[str], said: Printed, folder: str = ROOT) -> None:
        """Store the output and exit code of the verification `argv` in a folder of the clone."""
        ends = {None: "was abandoned", TIMED_OUT: f"exit code {TIMED_OUT}, out of time"}
        end = ends.get(said.exit_code, f"exit code {said.exit_code}")
        place = "" if folder == ROOT else f"{folder} "
        head = f"{place}$ {shlex.join(argv)}\n{end} after {said.seconds:.1f} s\n\n"
        self._tools.append(os.fsencode(head) + _excerpt(said.stdout, MAX_TOOL_BYTES))

    @property
    def transcript(self) -> bytes:
        """The output of the agent, without secrets."""
        return _without(redact, self._transcript, self.secrets)

    def excerpt(self, most: int) -> bytes:
        """Return the start and the end of the agent's output, at most `most` bytes."""
        return _excerpt(BytesIO(self.transcript), most)

    def files(self, spec: bytes, outcome: Outcome | None) -> dict[str, bytes]:
        """Return the other files of the attempt's record by name; `outcome` is None for an abandoned attempt."""
        tools = _excerpt(BytesIO(b"\n".join(self._tools)), MAX_FILE_BYTES)
        said = outcome.model_dump(mode="json", exclude_none=True) if outcome else None
        found = {
            DIFF: _without(mask, _excerpt(BytesIO(self.diff), MAX_FILE_BYTES), self.secrets),
            VERIFICATION: _without(redact, tools, self.secrets),
            DENIED: _without(
                redact, "".join(f"{each}\n" for each in self.denied).encode(errors="replace"), self.secrets
            ),
            SPEC: self._json(codec.loads(spec)),
            OUTCOME: self._json(said) if said else b"",
        }
        return {name: data for name, data in found.items() if data}

    def _json(self, document: dict[str, Any]) -> bytes:
        """Return a message as JSON without its lease, because a lease lets its reader act as the controller."""
        document.pop("lease", None)
        return _without(mask, codec.pretty(document), self.secrets)


def digest(data: bytes) -> str:
    """Return the digest of a file in the form of outcomes: `sha256:` and hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _excerpt(file: IO[bytes], most: int) -> bytes:
    """Return at most `most` bytes of `file`: its start and its end, in whole lines if it has lines."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= most:
        return file.read()
    room = (most - len(LEFT_OUT) - len(str(size))) // 2
    head = file.read(room)
    file.seek(size - room)
    end = file.read()
    head = head[: head.rfind(b"\n") + 1] or head
    end = end[end.find(b"\n") + 1 :] or end
    return head + LEFT_OUT % (size - len(head) - len(end)) + end


def _without(take_out: Any, data: bytes, secrets: Iterable[str]) -> bytes:
    text: str = take_out(data.decode(errors="surrogateescape"), secrets)
    return text.encode(errors="surrogateescape")
