"""The Celery app: each route of `tasks/routes.py` as a task, and the planner's own life cycle as a bootstep.

`celery -A worker worker` runs it; `planner worker` only adds the right flags.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from kombu import Exchange, Queue
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from tasks.routes import ROUTES
from worker import duties, ending, handback, sentinel, telemetry
from worker.lifecycle import Ingress
from worker.outage import SaidSeldom
from worker.settings import load

log = logging.getLogger("planner.celery")
settings = load()

app = Celery("planner", broker=sentinel.broker_url(settings.broker))
app.conf.update(
    # Exchange and key are named, or every queue would be bound to the default one and get every nudge.
    task_queues=[Queue(route.task, Exchange(route.task), routing_key=route.task) for route in ROUTES],
    task_default_queue=ROUTES[0].task,
    task_routes={route.task: {"queue": route.task} for route in ROUTES},
    task_ignore_result=True,
    task_acks_late=True,  # a nudge that is lost with its worker comes again; one that comes twice finds nothing to do
    task_reject_on_worker_lost=True,
    task_publish_retry=False,  # what a task leaves is seen by the watch, so its own nudge is not worth waiting for
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,  # a full broker refuses; that is no reason to end
    broker_transport_options={
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "visibility_timeout": 3600,
        "max_retries": 0,  # of one publish; the consumer's connection is tried for ever
        **sentinel.broker_options(settings.broker),
    },
)
app.steps["worker"].add(Ingress)


@app.task(name="planner.decompose")
def decompose() -> None:
    """Plan goals; goes on in a next task when its time is over."""
    if _do(duties.decompose):
        _go_on(decompose)


@app.task(name="planner.outcomes")
def drain(partition: int) -> None:
    """Apply the outcomes of a partition; goes on in a next task when its time is over."""
    if _do(duties.outcomes, partition):
        _go_on(drain, partition)


@app.task(name="planner.upkeep")
def sweep(partition: int) -> None:
    """Hand out a partition's due work, and take over what dead workers had read."""
    _do(duties.upkeep, partition)


@app.task(name="planner.orders")
def obey() -> None:
    """Obey the orders about more than one plan; goes on in a next task when its time is over."""
    if _do(duties.orders):
        _go_on(obey)


def _do(duty: Callable[..., bool], *args: int) -> bool:
    """Do a duty; where the store goes away under it nothing is lost, and the watches say so and wait."""
    try:
        return duty(*args)
    except (NoConnection, TookTooLong) as error:
        log.info("interrupted", extra={"error": str(error)})
        return False


def _go_on(task: Any, *args: int) -> None:
    """Send the next nudge; where the broker does not take it, the watch sees what is left."""
    try:
        task.apply_async(args)
    except task.OperationalError as error:
        log.debug("no next nudge", extra={"error": str(error)})


@signals.setup_logging.connect
def _logs(**_: Any) -> None:
    telemetry.set_up_logs(settings.log_level)
    seldom = SaidSeldom()
    for name in ("celery.worker.consumer.consumer", "celery.worker.consumer.connection", "kombu.transport.redis"):
        logging.getLogger(name).addFilter(seldom)


@signals.worker_init.connect
def _in_the_worker(**_: Any) -> None:
    telemetry.set_up_sentry(settings)


@signals.worker_process_init.connect
def _in_each_child(**_: Any) -> None:
    telemetry.set_up_sentry(settings)


@signals.worker_process_shutdown.connect
def _at_the_end_of_a_child(**_: Any) -> None:
    handback.hand_back_own(settings)


@signals.worker_shutting_down.connect
def _when_asked_to_stop(exitcode: int, **_: Any) -> None:
    ending.within(settings.stop_s, exitcode, settings)


@signals.worker_shutdown.connect
def _at_the_end(**_: Any) -> None:
    ending.tidy_up(settings)
