"""A small file that proves that a worker process is alive; written about every second, and read by `planner health`."""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from worker.host import temporary
from worker.settings.settings import Settings
from worker.store.memory import refused_at

log = logging.getLogger("planner.status")

FRESH_S = 15.0  # longer than one look at stalled servers
LAG_S = 10.0  # a timer that is due for longer shows that no worker sweeps


class Status(BaseModel):
    """The state of a worker process, as the process reports it. Times are seconds since 1970 on the host's clock."""

    model_config = ConfigDict(frozen=True)

    pid: int
    host: str
    started: float
    beat: float
    streams: dict[str, float]  # that it consumes, each with the last beat of the thread that watches it
    store: bool  # whether it answered at the last look
    broker: bool
    sweep_lag_s: float | None  # how long the oldest due timer has waited; None where it is not known
    refused: str | None = None  # why the store does not serve us, where that is more than being away
    owned: tuple[int, ...] = ()  # the partitions whose owner it is
    memory: float | None = None  # share of the store's maxmemory in use; None where it is not known

    def lives(self, now: float) -> bool:
        """Return whether the process exists, and wrote its file recently."""
        return now - self.beat < FRESH_S and temporary.exists(self.pid)

    def troubles(self, now: float) -> list[str]:
        """Return the causes that keep the worker from its work; empty if it is ready."""
        short = refused_at(self.memory or 0)
        silent = [stream for stream, beat in self.streams.items() if now - beat >= FRESH_S]
        said = {
            "it consumes nothing": not self.streams,
            f"nobody watches {', '.join(silent)}": bool(silent),
            self.refused or "the store does not answer": not self.store,
            f"the store's memory is {self.memory or 0:.0%} full: {short}": bool(short),
            f"due timers wait for {self.sweep_lag_s or 0:.0f} s": (self.sweep_lag_s or 0) >= LAG_S,
        }
        return [trouble for trouble, there in said.items() if there]


class StatusFile:
    """The file of this process. If it cannot be written, the worker logs that once and continues."""

    def __init__(self, settings: Settings) -> None:
        self._path = _path(settings)
        self._broken = False

    def write(self, status: Status) -> None:
        """Replace the file's content atomically."""
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(status.model_dump_json())
            fresh.replace(self._path)
        except OSError as error:
            if not self._broken:
                log.warning("no state directory", extra={"path": str(self._path.parent), "error": str(error)})
            self._broken = True


def remove(settings: Settings) -> None:
    """Remove the file of this process."""
    with suppress(OSError):
        _path(settings).unlink(missing_ok=True)


def living_workers(settings: Settings) -> list[Status]:
    """Return the status of this host's live workers, and remove the files of ended ones."""
    living = []
    with suppress(OSError):
        for path in sorted(settings.state.glob(f"worker-{socket.gethostname()}-*.json")):
            with suppress(OSError, ValidationError):
                status = Status.model_validate_json(path.read_bytes())
                if not temporary.exists(status.pid):
                    path.unlink()
                elif status.lives(time.time()):
                    living.append(status)
    return living


def _path(settings: Settings) -> Path:
    return settings.state / f"worker-{socket.gethostname()}-{os.getpid()}.json"
