"""Start and end of a worker process: a bootstep with poller, reader and watchdog."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from celery import bootsteps
from celery.concurrency.solo import TaskPool
from celery.exceptions import WorkerShutdown
from celery.worker import state

from tasks import routes
from tasks.base.errors import PlannerError
from tasks.policy.pipeline import ADVICE
from tasks.routes import ROUTES
from worker import drafters
from worker.host import open_files
from worker.process import shutdown, solo_pool
from worker.process.hands import Hands
from worker.process.ownership import Ownership
from worker.process.poller import Poller
from worker.process.reader import Reader
from worker.process.readiness import wait_for_servers
from worker.process.wakeup import Wakeups, own_queue
from worker.process.wakeup_ledger import Ledger
from worker.process.watchdog import Beat, Watchdog, WorkerPool
from worker.process.watches import by_slot, watches
from worker.settings import cluster
from worker.settings.settings import Settings, load
from worker.store.keys import Partition
from worker.streams.inbox import worker_name
from worker.telemetry.metrics import CALLBACKS, HALTS, HERE, TABLE, Kind, Tally, Teller
from worker.telemetry.outage import Outage
from worker.webhooks.sources_file import SourcesFile

log = logging.getLogger("planner.lifecycle")

CANNOT_START = 1  # exit code
JOIN_S = 5.0  # time for a thread that works by itself or hangs
TERMINATE_S = 10.0  # from the warm shutdown of a worker that is stuck to its hard end
FILES = 200  # files of an idle worker process, with a reserve for callbacks, logs and modules
FILES_OF_A_SLOT = 16
FILES_OF_A_DRAFT = 8
FILES_OF_A_PARTITION = 6  # in a cluster, where each has a poller and a reader
GIVEN_UP = ("failed", "disabled")


class Ingress(bootsteps.StartStopStep):
    """Starts the threads that watch the streams of this worker's queues, and stops them before the pool drains."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._threads: Sequence[Poller | Reader] = ()
        self._watchdog: Watchdog | None = None
        self._ownership: Ownership | None = None
        with suppress(
            PlannerError
        ):  # `start` reports it; the pool forks before that, and its processes inherit the limit
            open_files.raise_limit(_files(load(), parent.concurrency))

    def start(self, parent: Any) -> None:
        """Check the servers and start the threads. If that fails, the worker ends with an error message."""
        try:
            settings = load()
            store, broker = Outage("store"), Outage("broker")
            consumed = frozenset(parent.app.amqp.queues.consume_from)
            if routes.GOALS.task in consumed:
                drafters.check(settings)
                drafters.warn()
                drafters.tidy_up(settings)
            if routes.WEBHOOKS.task in consumed and settings.webhooks_file:
                SourcesFile.read(settings.webhooks_file)
            open_files.require(_files(settings, parent.pool.num_processes))
            has_parts = any(route.per_partition and route.task in consumed for route in ROUTES)
            parts = [Partition(number) for number in range(settings.partitions if has_parts else 0)]
            swept = parts if routes.OUTCOMES.task in consumed else []
            pool, terminate = partial(_pool, parent), partial(_terminate, settings)
            self._watchdog = Watchdog(settings, broker, self._beats, pool, terminate, swept, self._owned)
            self._watchdog.start()
            _serve_metrics(settings, self._watchdog.troubles)
            wait_for_servers(settings, store)
        except PlannerError as error:
            log.critical("cannot start", extra={"reason": str(error)})
            raise WorkerShutdown(CANNOT_START) from error
        ledger = Ledger(parent.pool.num_processes)
        parent.consumer.notify(ledger.note_received)
        solo_pool.HERE.is_used = isinstance(parent.pool, TaskPool)
        self._ownership = ownership = Ownership(settings, worker_name(), [part.number for part in swept])
        own = own_queue(parent.app, ownership.token) if swept else None
        wakeups = Wakeups(parent.app, broker, ledger, partial(_requests, parent), solo_pool.HERE, own)
        both = (settings.redis_url, store, wakeups, ownership, Hands())
        watched, idle_ms = watches(consumed, parts), int(settings.claim_idle_s * 1000)
        if cluster.is_cluster(settings.redis_url):  # a read cannot wait for several slots
            pollers = [Poller(*both, some, idle_ms, slot) for slot, some in by_slot(watched).items()]
            readers = [Reader(*both, [part], part.tag) for part in swept]
        else:
            pollers = [Poller(*both, watched, idle_ms)]
            readers = [Reader(*both, swept)] if swept else []
        self._threads = [*pollers, *readers]
        ownership.start()
        for one in self._threads:
            one.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 (Celery's signature)
        """Stop reading work, and release the partitions; running work continues to its end."""
        if self._watchdog:
            self._watchdog.stop()
        for one in self._threads:
            one.stop()
        for one in self._threads:
            one.join(JOIN_S)
        if self._ownership:
            self._ownership.stop()

    def _beats(self) -> list[Beat]:
        return [beat for one in self._threads if one.ident for beat in one.beats()]

    def _owned(self) -> tuple[int, ...]:
        return self._ownership.owned if self._ownership else ()


def _files(settings: Settings, slots: int) -> int:
    """Return the number of open files that a worker process needs; docs/workers.md has the formula."""
    parts = settings.partitions if cluster.is_cluster(settings.redis_url) else 0
    return FILES + FILES_OF_A_SLOT * slots + FILES_OF_A_DRAFT * settings.drafts_at_once + FILES_OF_A_PARTITION * parts


def _serve_metrics(settings: Settings, health: Callable[[bool], Sequence[str]]) -> None:
    """Serve this worker's metrics to Prometheus, if it has any. Raises CannotServe."""
    if settings.metrics_port is not None and HERE.board:
        from worker.telemetry.metrics_server import Counts, MetricsServer

        HERE.board.take(zeros())
        MetricsServer(settings.metrics_host, settings.metrics_port, counts=Counts(HERE.board), health=health).start()


def _requests(parent: Any) -> dict[str, Any] | None:
    """Return the wake-ups that this worker has received, by id; None while the broker is away."""
    consumer = getattr(parent, "consumer", None)
    return state.requests if getattr(consumer, "connection", None) else None


def _pool(parent: Any) -> WorkerPool:
    try:
        info = parent.pool.info
    except AttributeError:  # the pool has ended, the worker is about to
        info = {}
    pids = {os.getpid(), *info.get("processes", ())}
    tasks = {request.id: request.name for request in tuple((_requests(parent) or {}).values())}
    return WorkerPool(int(info.get("max-concurrency", 1)), frozenset(pids), tasks)


def _terminate(settings: Settings, reason: str) -> None:
    log.critical("watchdog ends the worker", extra={"reason": reason, "exit_code": shutdown.STUCK})
    shutdown.within(min(TERMINATE_S, settings.stop_s), shutdown.STUCK, settings)
    state.should_stop = shutdown.STUCK


def zeros() -> Tally:
    """Return a tally with the value 0 for counters, so that Prometheus sees them before their first event."""
    made = Tally()
    unlabelled = [
        each for each in TABLE if each.kind is Kind.COUNTER and each.teller is Teller.WORKER and not each.labels
    ]
    for metric, labels in (
        *((metric, ()) for metric in unlabelled),
        *((HALTS, (rule,)) for rule in ADVICE),
        *((CALLBACKS, (result,)) for result in GIVEN_UP),
    ):
        made.counts[metric, labels] = 0.0
    return made
