"""Files by which the processes of a host tell each other, and those that come after them, of the commits they know."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

log = logging.getLogger("planner.commits")

OLD_S = 7 * 86_400  # nobody can ask another host whether its process lives; one that does writes again


class Kept(BaseModel):
    """What one process knows of one partition's commits, and which process it is."""

    model_config = ConfigDict(frozen=True)

    epoch: int
    known: int
    forgotten: int
    recent: dict[str, int]
    lost: tuple[int, list[str] | None] | None
    host: str = Field(default_factory=socket.gethostname)
    pid: int = Field(default_factory=os.getpid)
    started: str = Field(default_factory=lambda: _started(os.getpid()) or "")  # another one may have its number later


class Shelf:
    """The files of one partition in `folder`; one is this object's own."""

    def __init__(self, folder: Path, partition: int) -> None:
        self._folder = folder
        self._prefix = f"commits-{partition}-"
        self._own = uuid.uuid4().hex

    def put(self, born: str, kept: Kept) -> bool:
        """Keep what is known of the data called `born`; returns whether that was possible, and says so if not."""
        path = self._folder / f"{self._prefix}{born}-{self._own}.json"
        fresh = path.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(kept.model_dump_json())
            fresh.replace(path)
        except OSError as error:
            log.warning("commits are not kept", extra={"path": str(path), "error": str(error)})
            return False
        return True

    def living(self, born: str) -> list[Kept]:
        """Read what processes know that may still live."""
        return [kept for _, kept in self._all(born) if kept and _lives(kept)]

    @contextmanager
    def left_behind(self, born: str) -> Iterator[list[Kept]]:
        """Give what processes knew that live no more; their files go once it was taken up."""
        old = time.time() - OLD_S
        found = [
            (path, kept)
            for path, kept in self._all(born)
            if kept is None or not _lives(kept) or path.stat().st_mtime < old
        ]
        yield [kept for _, kept in found if kept]
        for path, _ in found:
            path.unlink(missing_ok=True)

    def _all(self, born: str) -> Iterator[tuple[Path, Kept | None]]:
        """Yield the files of these data, but for our own; one that is damaged without what it held."""
        for path in sorted(self._folder.glob(f"{self._prefix}{born}-*.json")):
            if self._own in path.name:
                continue
            with suppress(OSError):
                try:
                    yield path, Kept.model_validate_json(path.read_bytes())
                except ValidationError:
                    yield path, None


def _lives(kept: Kept) -> bool:
    """Whether the process may still be there; of another host nobody can tell."""
    return kept.host != socket.gethostname() or _started(kept.pid) == kept.started


def _started(pid: int) -> str | None:
    """Tell when the process of this number began, in a form to be compared; None if there is none."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    try:  # where there is no /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
