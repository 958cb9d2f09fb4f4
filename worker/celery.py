"""The Celery app: each route of `tasks/routes.py` as a task, and the ingress as a bootstep.

`celery -A worker worker` runs it; `planner worker` only adds the right flags.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, signals
from kombu import Exchange, Queue

from tasks.routes import ROUTES
from worker import telemetry
from worker.bootstrap import services
from worker.ingress import Ingress
from worker.settings import load

settings = load()

app = Celery("planner", broker=settings.broker)
app.conf.update(
    # Exchange and key are named, or every queue would be bound to the default one and get every nudge.
    task_queues=[Queue(route.task, Exchange(route.task), routing_key=route.task) for route in ROUTES],
    task_default_queue=ROUTES[0].task,
    task_routes={route.task: {"queue": route.task} for route in ROUTES},
    task_ignore_result=True,
    task_acks_late=True,  # a nudge that is lost with its worker comes again; one that comes twice finds nothing to do
    task_reject_on_worker_lost=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "visibility_timeout": 3600,
    },
)
app.steps["worker"].add(Ingress)


@app.task(name="planner.decompose")
def decompose() -> None:
    """Plan goals until none waits, those of dead workers first; goes on in a next task when its time is over."""
    here = services()
    here.decomposer.recover(int(here.settings.claim_idle_s * 1000))
    if here.decomposer.drain():
        decompose.apply_async()


@app.task(name="planner.outcomes")
def drain(partition: int) -> None:
    """Apply the outcomes of a partition until none comes; goes on in a next task when its time is over."""
    if services().home(partition).engine.drain():
        drain.apply_async((partition,))


@app.task(name="planner.upkeep")
def sweep(partition: int) -> None:
    """Hand out a partition's due work, and take over what dead workers had read."""
    here = services()
    here.home(partition).engine.sweep(here.name)
    here.home(partition).engine.recover(int(here.settings.claim_idle_s * 1000))


@signals.setup_logging.connect
def _logs(**_: Any) -> None:
    telemetry.set_up_logs(settings.log_level)


@signals.worker_init.connect
def _in_the_worker(**_: Any) -> None:
    telemetry.set_up_sentry(settings)


@signals.worker_process_init.connect
def _in_each_child(**_: Any) -> None:
    telemetry.set_up_sentry(settings)
