"""`planner exporter`: the shared metrics of all workers for Prometheus, for installations without a gateway."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from worker.cli.console import (
    FAILED,
    OK,
    SecretsFd,
    check_redis,
    command,
    read_settings,
    refuse_server,
    refused,
)

PORT = 9465
PATIENCE_S = 2.0  # with Redis: Prometheus waits ten seconds


@command
def exporter(
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help=f"PLANNER_METRICS_PORT, {PORT} unless set; 0: any.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen at; PLANNER_METRICS_HOST, 127.0.0.1 unless set.")
    ] = None,
    secrets_fd: SecretsFd = None,
) -> int:
    """Serve the shared metrics to Prometheus: queues, plans, waiting and dead entries.

    [b]planner exporter --port 9465[/b]

    A gateway serves the same metrics at /metrics to callers with a key. The exporter needs no key, so protect its port.
    Any number of either may run. Workers serve their own counters, see PLANNER_METRICS_PORT.

    Ends on SIGTERM and Ctrl-C with 0; 1 if it cannot listen, 2 for a wrong option or setting.
    """
    settings = read_settings(secrets_fd)
    check_redis(settings)
    refuse_server(settings, writes=False)
    from worker.host.stop_signals import stop_on_signals
    from worker.settings import credentials
    from worker.store.clients import connect
    from worker.telemetry import logs
    from worker.telemetry.metrics_server import CannotServe, MetricsServer
    from worker.telemetry.shared_state import SharedState

    credentials.protect()
    logs.set_up_logs(settings.log_level)
    asked = port if port is not None else PORT if settings.metrics_port is None else settings.metrics_port
    ending = threading.Event()
    with stop_on_signals(ending), connect(settings.redis_url, patience_s=PATIENCE_S) as client:
        state = SharedState(client, settings.partitions)
        with refused("cannot_listen", exit_code=FAILED, by=CannotServe):
            server = MetricsServer(host or settings.metrics_host, asked, state.collect)
        server.start()
        ending.wait()
        server.stop()
    return OK
