"""The Celery app: each route of `tasks/routes.py` is a task, and the planner's life cycle is a bootstep.

`celery -A worker worker` runs it; `planner worker` only adds the right flags.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any, NoReturn

from billiard import pool as process_pool
from celery import Celery, signals
from kombu import Exchange, Queue
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from tasks.routes import GOALS, ROUTES, Route
from worker.callbacks import sender
from worker.host import terminal
from worker.host.stop_signals import heard
from worker.process import draft_threads, jobs, shutdown, solo_pool
from worker.process.lifecycle import Ingress
from worker.process.wakeup import SHARE
from worker.process.wakeup_ledger import Key
from worker.settings import cluster, credentials, redis_tls, sentinel
from worker.settings.settings import WrongSettings, load
from worker.store import commits
from worker.streams import release
from worker.telemetry import errors, logs, tracing
from worker.telemetry.metrics import HERE
from worker.telemetry.outage import SaidSeldom

WRONG_SETTINGS = 2  # exit code: a restart does not help

log = logging.getLogger("planner.celery")


def _refuse(error: Exception) -> NoReturn:
    terminal.line(str(error), err=True)
    sys.exit(WRONG_SETTINGS)


def celery_settings(url: str) -> dict[str, Any]:
    """Return Celery's settings for the broker at `url`."""
    return {
        "broker_url": sentinel.broker_url(url),
        "broker_use_ssl": redis_tls.options(url) or False,  # of sentinels, whose URLs kombu does not read whole
        "broker_transport_options": {
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
            "visibility_timeout": 3600,
            "max_retries": 0,  # of one publish; the consumer's connection is tried for ever
            **sentinel.broker_options(url),
        },
    }


NO_BROKER = (
    "PLANNER_BROKER_URL is missing: PLANNER_REDIS_URL names a cluster, which Celery cannot use as its broker. "
    "Name a single server."
)

try:
    settings = load()
    if cluster.is_cluster(settings.broker):
        raise WrongSettings(NO_BROKER)
except WrongSettings as error:  # `celery -A worker` would show where it was raised, and the sentence last
    _refuse(error)

app = Celery("planner")
app.conf.update(
    # Exchange and key are named, or every queue would be bound to the default one and get every wake-up.
    task_queues=[Queue(route.task, Exchange(route.task), routing_key=route.task) for route in ROUTES],
    task_default_queue=GOALS.task,
    task_routes={route.task: {"queue": route.task} for route in ROUTES},
    task_ignore_result=True,
    task_acks_late=True,  # a wake-up of a lost worker is delivered again; a double one finds nothing to do
    task_reject_on_worker_lost=True,
    task_publish_retry=False,
    task_serializer="json",
    accept_content=["json"],
    worker_consumer="worker.process.broker_consumer:Consumer",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,  # a full broker refuses; that is no reason to end
    **celery_settings(settings.broker),
)
app.steps["worker"].add(Ingress)

# If a child takes a task in the moment when the pool closes, the parent forgets it, and the child would
# wait 30 s until its result is read. Our results are not needed: 2 s are enough.
process_pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 20


def _bind(route: Route) -> None:
    """Create the Celery task of a route; its argument is the number of a partition, if the route has partitions."""

    def run(self: Any, *args: int) -> None:
        """Do the work until its time is over; poller and reader notice the rest."""
        key, share = Key(route.task, args), float(self.request.get(SHARE) or 1)
        if solo_pool.HERE.is_used and route.task in solo_pool.SLOW:  # it does not block a worker with one slot
            solo_pool.HERE.plan(_try, key, share)
        else:
            _try(key, share)

    app.task(name=route.task, bind=True)(run)


def _try(key: Key, share: float) -> None:
    """Do the work; if the store goes away, nothing is lost, and poller and reader report it and wait."""
    try:
        jobs.do(key, share)
    except (NoConnection, TookTooLong) as error:
        log.info("interrupted", extra={"error": str(error)})


for _route in ROUTES:
    _bind(_route)


@signals.setup_logging.connect
def _logs(**_: Any) -> None:
    logs.set_up_logs(settings.log_level)
    seldom = SaidSeldom()
    for name in ("celery.worker.consumer.consumer", "celery.worker.consumer.connection", "kombu.transport.redis"):
        logging.getLogger(name).addFilter(seldom)


@signals.celeryd_init.connect
def _before_anything_is_forked(**_: Any) -> None:
    if signal.SIGINT not in heard(signal.SIGINT):  # Celery would end at it all the same, and has no setting for that
        from celery.apps import worker

        worker.install_worker_int_handler = lambda _: None
    if url := os.environ.get("CELERY_BROKER_URL"):  # the option --broker of celery itself
        try:
            app.conf.update(celery_settings(settings.with_tls(url)))
        except ValueError as error:
            _refuse(error)
    if settings.metrics_port is not None:
        try:
            HERE.start()
        except OSError as error:
            sys.exit(f"PLANNER_METRICS_PORT: there is no place for temporary files: {error}.")
    credentials.protect()
    try:
        errors.start(settings)
        tracing.start(settings, "planner-worker")
    except (errors.CannotReport, tracing.CannotTrace) as error:
        _refuse(error)


@signals.worker_init.connect
@signals.worker_process_init.connect
def _in_the_worker_and_each_child(**_: Any) -> None:
    errors.start(settings)


@signals.worker_process_shutdown.connect
def _at_the_end_of_a_child(**_: Any) -> None:
    draft_threads.stop()
    sender.stop()
    tracing.stop()
    commits.close_all()  # a child ends without the functions registered for an interpreter's end
    release.release_own_claims(settings)


@signals.worker_shutting_down.connect
def _when_asked_to_stop(exitcode: int, **_: Any) -> None:
    shutdown.within(settings.stop_s, exitcode, settings)
    draft_threads.end()


@signals.worker_shutdown.connect
def _at_the_end(**_: Any) -> None:
    draft_threads.stop()
    sender.stop()
    tracing.stop()
    shutdown.tidy_up(settings)
