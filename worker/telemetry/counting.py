"""Counts what this process does, where somebody asks for that: numbers in a file that a killed process leaves behind.

Until `HERE.start()` nothing is counted. The files are those of prometheus_client's multiprocess mode, one for each
process of a pool; the process that serves them (metrics_server.py) adds them up.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from worker.host import temporary
from worker.telemetry.metrics import Metric

MOST_NAMES = 50  # values of a label in one process; what comes beyond is OTHER
OTHER = "other"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,63}")
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable where prometheus_client looks for it
PREFIX = "planner-metrics-"

Labels = tuple[str, ...]


class Tally:
    """What was counted and is not in the file yet: each of `events` once. Not for several threads at once."""

    __slots__ = ("counts", "events", "sizes")

    def __init__(self) -> None:
        self.events: list[tuple[Metric, Labels]] = []
        self.counts: defaultdict[tuple[Metric, Labels], float] = defaultdict(float)
        self.sizes: defaultdict[tuple[Metric, Labels], list[float]] = defaultdict(list)


class Names:
    """The values that each label of each metric has had, at most MOST_NAMES of them."""

    def __init__(self) -> None:
        self._names: defaultdict[tuple[Any, str], set[str]] = defaultdict(set)

    def find(self, label: tuple[Any, str], value: str) -> str:
        """Return the value, which is known from now on; OTHER where it is no name, or one too many."""
        names = self._names[label]
        if value not in names:
            if len(names) >= MOST_NAMES or not NAME.fullmatch(value):
                return OTHER
            names.add(value)
        return value


class Board:
    """The numbers of this process, in `folder`; a process that is forked goes on in a file of its own."""

    def __init__(self, folder: Path) -> None:
        from prometheus_client import values

        os.environ[FOLDER] = str(folder)
        self.folder = folder
        self.lock = threading.Lock()
        library: Any = values  # which has no types
        self._number = library.MultiProcessValue()
        self._numbers: dict[tuple[Any, ...], Any] = {}
        self._names = Names()
        os.register_at_fork(
            before=self.lock.acquire, after_in_parent=self.lock.release, after_in_child=self.lock.release
        )

    def take(self, tally: Tally) -> None:
        """Add a tally, which is empty then."""
        with self.lock:
            for (metric, labels), by in chain(tally.counts.items(), Counter(tally.events).items()):
                self._counter(metric, self._bounded(metric, labels)).inc(by)
            for (metric, labels), sizes in tally.sizes.items():
                total, buckets = self._histogram(metric, self._bounded(metric, labels))
                total.inc(sum(sizes))
                for place, times in Counter(map(partial(bisect_left, metric.buckets), sizes)).items():
                    buckets[place].inc(times)
        tally.counts.clear()
        tally.events.clear()
        tally.sizes.clear()

    def _counter(self, metric: Metric, labels: Labels) -> Any:
        if (metric, labels) not in self._numbers:
            name = metric.name.removesuffix("_total")
            made = self._number("counter", name, metric.name, metric.labels, labels, metric.help)
            self._numbers[metric, labels] = made
        return self._numbers[metric, labels]

    def _histogram(self, metric: Metric, labels: Labels) -> Any:
        if (metric, labels) not in self._numbers:
            name, common = metric.name, ("histogram", metric.name)
            total = self._number(*common, f"{name}_sum", metric.labels, labels, metric.help)
            bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
            names = (*metric.labels, "le")
            buckets = [self._number(*common, f"{name}_bucket", names, (*labels, le), metric.help) for le in bounds]
            self._numbers[metric, labels] = total, buckets
        return self._numbers[metric, labels]

    def _bounded(self, metric: Metric, labels: Labels) -> Labels:
        """Put OTHER in the place of what is no name, and of names beyond MOST_NAMES."""
        find = self._names.find
        return tuple(find((metric, label), value) for label, value in zip(metric.labels, labels, strict=True))


class Counting:
    """Whether this process and those forked from it count, and where."""

    def __init__(self) -> None:
        self.board: Board | None = None

    def start(self) -> Board:
        """Count from now on, in a new folder; those of processes that are gone are removed.

        Raises OSError where there is no place for temporary files.
        """
        if self.board is None:
            temporary.remove_left_behind(PREFIX)
            self.board = Board(Path(tempfile.mkdtemp(prefix=temporary.prefix(PREFIX))))
            atexit.register(_remove, self.board.folder, os.getpid())
        return self.board

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count what happens now and then; what happens with every outcome goes through a tally."""
        if self.board:
            tally = Tally()
            tally.counts[metric, labels] = by
            self.board.take(tally)

    def observe(self, metric: Metric, size: float, *labels: str) -> None:
        """Note a size, such as how many seconds something took."""
        if self.board:
            tally = Tally()
            tally.sizes[metric, labels] = [size]
            self.board.take(tally)


HERE = Counting()


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
