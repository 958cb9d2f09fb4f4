"""The commit journal: files in which a host's processes tell which commits they know.

Those that come after them read it too.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from worker.host import processes

log = logging.getLogger("planner.commits")

OLD_S = 7 * 86_400  # nobody can ask another host whether its process lives; one that does writes again


class JournalRecord(BaseModel):
    """What one process knows of one partition's commits, and which process it is.

    A newer version may add to it.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    known: int
    forgotten: int
    recent: dict[str, int]
    lost: tuple[int, list[str] | None] | None
    host: str = Field(default_factory=lambda: socket.gethostname())
    pid: int = Field(default_factory=os.getpid)
    started: str = Field(default_factory=lambda: processes.start_time(os.getpid()) or "")  # its number may come again

    @field_validator("lost", mode="before")
    @classmethod
    def _known_elements(cls, value: Any) -> Any:
        return value[:2] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class OtherJournal:
    """The file of another process; nobody can say of another host whether that lives."""

    path: Path
    kept: JournalRecord
    lives: bool

    def forget(self) -> None:
        """Remove the file, now that every plan has heard of its loss.

        It stays where its process has written another one meanwhile.
        """
        with suppress(OSError, ValidationError):
            if JournalRecord.model_validate_json(self.path.read_bytes()) == self.kept:
                self.path.unlink()


class CommitJournal:
    """The files of one partition in `folder`; one is this object's own."""

    def __init__(self, folder: Path, partition: int) -> None:
        self._folder = folder
        self._prefix = f"commits-{partition}-"
        self._own = uuid.uuid4().hex

    def put(self, data_id: str, kept: JournalRecord) -> bool:
        """Keep what is known of the data called `data_id`.

        Returns whether that was possible, and says so if not.
        """
        path = self._folder / f"{self._prefix}{data_id}-{self._own}.json"
        fresh = path.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(kept.model_dump_json())
            fresh.replace(path)
        except OSError as error:
            log.warning("commits are not kept", extra={"path": str(path), "error": str(error)})
            return False
        return True

    def others(self, data_id: str) -> list[OtherJournal]:
        """Read what other processes know of the data called `data_id`; removes files that are damaged."""
        found = []
        for path in sorted(self._folder.glob(f"{self._prefix}{data_id}-*.json")):
            if self._own in path.name:
                continue
            with suppress(OSError):
                try:
                    kept = JournalRecord.model_validate_json(path.read_bytes())
                except ValidationError:
                    path.unlink()
                else:
                    is_foreign = kept.host != socket.gethostname()  # of another host nobody can tell who lives
                    lives = is_foreign or processes.start_time(kept.pid) == kept.started
                    found.append(OtherJournal(path, kept, lives and path.stat().st_mtime > time.time() - OLD_S))
        return found
