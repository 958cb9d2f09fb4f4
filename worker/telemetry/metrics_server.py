"""Serves metrics to Prometheus at `/metrics`, and the metrics of one worker as JSON at `/metrics.json`.

A worker also serves `/healthz` and `/readyz`, with the same result as `planner health` for that worker.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest, mmap_dict, multiprocess
from prometheus_client.metrics_core import Metric as Family

from schemas import codec
from tasks.base.errors import PlannerError
from tasks.base.policy_version import POLICY_VERSION
from worker.host import temporary
from worker.host.code_version import CODE_VERSION
from worker.telemetry.metrics import (
    BUILD_INFO,
    DECOMPOSE_SECONDS,
    PARALLEL_BATCHES,
    PLANS,
    QA_EVALUATIONS,
    REVISIONS,
    STEP_RUN_SECONDS,
    STEPS,
    Board,
    Metric,
    Names,
)

FILES: Any = mmap_dict.MmapedDict  # these have no types
SUMS: Any = multiprocess.MultiProcessCollector
log = logging.getLogger("planner.metrics")

PATIENCE_S = 5.0  # with a caller who does not finish its request
MERGE_S = 30.0  # between looks for files of processes that are gone
LE = "le"  # the label of a bucket, whose values are a fixed set
GONE = "gone"  # in place of a process's id: all ended ones

Health = Callable[[bool], Sequence[str]]  # the troubles of a worker: whether it lives, or (True) is ready
HEALTH = {"/healthz": False, "/readyz": True}
Collect = Callable[[], Iterable[Family]]


class CannotServe(PlannerError):
    """The address of the metrics cannot be listened at."""


class Counts:
    """The sums of the metrics of this process and its children, including ended children."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()  # no reads while files are merged

    def collect(self) -> Iterator[Family]:
        """Yield the sums over the metrics files of all processes."""
        with self._lock:
            begun = [path for path in self._board.folder.glob("*.db") if path.stat().st_size]  # others hold nothing yet
            yield from SUMS.merge(map(str, begun))

    def merge_gone(self) -> None:
        """Merge the files of ended processes into one, so that their number does not grow."""
        with self._lock:
            for path in self._board.folder.glob("*_*.db"):
                kind, _, pid = path.stem.partition("_")
                if pid.isdigit() and path.stat().st_size and not temporary.exists(int(pid)):
                    _move(path, self._board.folder / f"{kind}_{GONE}.db")


def _move(path: Path, target: Path) -> None:
    """Add the numbers in a metrics file to the file `target`, and delete the first one.

    A label still has at most MOST_NAMES values.
    """
    sums, known = FILES(str(target)), Names()
    try:
        for key, *_ in sums.read_all_values():
            _bounded(key, known)
        for key, value, *_ in FILES.read_all_values_from_file(str(path)):
            bounded = _bounded(key, known)
            sums.write_value(bounded, sums.read_value(bounded)[0] + value, 0.0)
    finally:
        sums.close()
    path.unlink()


def _bounded(key: str, known: Names) -> str:
    """Return the key of a number, with OTHER for each label value that `known` does not accept."""
    metric, name, labels, about = json.loads(key)
    bounds = {label: value for label, value in labels.items() if label == LE}
    named = {label: known.find((metric, label), value) for label, value in labels.items() if label != LE}
    return json.dumps([metric, name, named | bounds, about], sort_keys=True)  # as prometheus_client writes it


def build_info() -> Iterator[Family]:
    """Yield a metric with the version of the running code."""
    family = Family(BUILD_INFO.name, BUILD_INFO.help, "gauge")
    labels = {"version": CODE_VERSION, "policy_version": str(POLICY_VERSION)}
    family.add_sample(BUILD_INFO.name, labels, 1)
    yield family


class _Together:
    """The metrics of several sources, in the form that prometheus_client requires."""

    def __init__(self, tellers: Iterable[Collect]) -> None:
        self._tellers = tuple(tellers)

    def collect(self) -> Iterator[Family]:
        for teller in self._tellers:
            yield from teller()


def exposition(*tellers: Collect) -> bytes:
    """Return the metrics in the text format of Prometheus."""
    return generate_latest(_Together(tellers))


class _Handler(BaseHTTPRequestHandler):
    """Answers a request of Prometheus."""

    timeout = PATIENCE_S
    server: MetricsServer

    def do_GET(self) -> None:
        """Answer."""
        try:
            path = self.path.partition("?")[0]
            troubles = self.server.troubles(path)
            answer = self.server.answer(path)
            status, media, body = (200, *answer) if answer else (404, "text/plain", b"See /metrics.\n")
            if troubles is not None:
                status, body = (503, f"Not well: {'; '.join(troubles)}.\n".encode()) if troubles else (200, b"Well.\n")
        except Exception:  # otherwise it would go unnoticed: a failed scrape looks like a process that is away
            log.exception("metrics failed")
            status, media, body = 500, "text/plain", b"The log says why.\n"
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a scrape comes every few seconds."""


class MetricsServer(ThreadingHTTPServer):
    """Listens at an address, and serves in a separate thread."""

    daemon_threads = True

    def __init__(
        self, host: str, port: int, *tellers: Collect, counts: Counts | None = None, health: Health | None = None
    ) -> None:
        self._tellers = (build_info, *tellers, *((counts.collect,) if counts else ()))
        self._counts = counts
        self._health = health
        self._merged = time.monotonic()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise CannotServe(f"Cannot serve metrics at {host}, port {port}: {why}.") from error
        os.register_at_fork(after_in_child=self.socket.close)  # or a child would keep the port

    @property
    def port(self) -> int:
        """The port that is listened at."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Serve until the process ends, or `stop`."""
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()
        log.info("metrics served", extra={"address": self.server_address[0], "port": self.port})

    def stop(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()

    def troubles(self, path: str) -> Sequence[str] | None:
        """Return the worker's troubles for `/healthz` or `/readyz`; None for another path, or if this is no worker."""
        if self._health is None or path not in HEALTH:
            return None
        return self._health(HEALTH[path])

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Return the media type and the body for a path; None if the path does not exist."""
        if path == "/metrics":
            return CONTENT_TYPE_LATEST, exposition(*self._tellers)
        if path == "/metrics.json" and self._counts:
            return "application/json", codec.pretty(averages(self._counts.collect()))
        return None

    def service_actions(self) -> None:
        """Merge files of ended processes from time to time."""
        if self._counts and time.monotonic() - self._merged >= MERGE_S:
            self._merged = time.monotonic()
            try:
                self._counts.merge_gone()
            except Exception:  # which would end the thread that serves
                log.exception("metrics failed")

    def handle_error(self, *_: Any) -> None:
        """Log that a request failed; a closed connection is no failure."""
        log.debug("metrics not served", exc_info=True)


def averages(families: Iterable[Family]) -> dict[str, Any]:
    """Return the JSON object of `/metrics.json`: counts, rates and averages. A rate or average without data is null."""
    samples = [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]

    def by(metric: Metric, label: str) -> dict[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for name, labels, value in samples:
            if name == metric.name:
                found[labels[label].partition(":")[0]] += int(value)
        return dict(sorted(found.items()))

    def total(name: str) -> float:
        return sum(value for each, _, value in samples if each == name)

    plans, steps = by(PLANS, "source"), by(STEPS, "status")
    return {
        "plans": plans,
        "steps": steps,
        "revisions": int(total(REVISIONS.name)),
        "revisions_by_category": by(REVISIONS, "row"),
        "qa_evaluations": by(QA_EVALUATIONS, "status"),
        "parallel_batches": int(total(PARALLEL_BATCHES.name)),
        "cache_hit_rate": _share(plans, "cache"),
        "step_success_rate": _share(steps, "success"),
        "avg_plan_time_ms": _average(total(f"{DECOMPOSE_SECONDS.name}_sum"), total(f"{DECOMPOSE_SECONDS.name}_count")),
        "avg_step_time_ms": _average(total(f"{STEP_RUN_SECONDS.name}_sum"), total(f"{STEP_RUN_SECONDS.name}_count")),
    }


def _share(counts: Mapping[str, int], name: str) -> float | None:
    total = sum(counts.values())
    return counts.get(name, 0) / total if total else None


def _average(seconds: float, count: float) -> float | None:
    return 1000 * seconds / count if count else None
