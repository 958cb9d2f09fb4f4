"""The work of a worker after a wake-up, in a Celery task or, while the broker is away, in a thread of the worker."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from tasks import routes
from worker.callbacks import sender
from worker.callbacks.queue import Queue
from worker.process.container import Container, container
from worker.process.partition_engines import engine_of
from worker.process.wakeup_ledger import Key
from worker.store.keys import Partition
from worker.streams.release import delete_idle_consumers

MAX_PARTITIONS = 256  # as PLANNER_PARTITIONS has it
TIDY_S = 600.0  # between looks for consumers of workers that are long gone


def do(key: Key, share: float = 1.0) -> None:
    """Do the work of a wake-up in `share` of its usual time. If some is left, record that for poller and reader.

    A connection error counts as work left: entries are pending then, and no other worker may be woken for them.
    """
    try:
        is_left = JOBS[key.task](share, *key.args)
    except (NoConnection, TookTooLong):
        _left[_place(key)] = 1
        raise
    if is_left:
        _left[_place(key)] = 1


def take_left(key: Key) -> bool:
    """Return whether this worker has recorded that such work is left, and remove the record."""
    place = _place(key)
    is_left = bool(_left[place])
    if is_left:
        _left[place] = 0
    return is_left


def is_some_left() -> bool:
    """Return whether this worker has recorded that any work is left."""
    return _left.find(b"\1") >= 0


def _place(key: Key) -> int:
    return _NUMBERS[key.task] * MAX_PARTITIONS + sum(key.args)


def plan_goals(share: float) -> bool:
    """Plan goals until none waits, first the goals that dead workers left. Return whether some may be left.

    Goals that need a drafter are planned in separate threads at the same time.
    """
    here = container()
    here.begin_drafts()
    here.goal_consumer.recover(_idle_ms(here))
    return here.goal_consumer.drain(share)


def apply_outcomes(share: float, partition: int) -> bool:
    """Apply the outcomes of a partition until none arrives. Returns whether some were read and not applied."""
    with engine_of(partition) as here:
        return here.context(partition).engine.drain(share)


def keep_up(share: float, partition: int) -> bool:
    """Process a partition's due work, and take over the entries of dead workers."""
    with engine_of(partition) as here:
        here.context(partition).engine.sweep(here.name, share)
        here.context(partition).engine.recover(_idle_ms(here))
        if time.monotonic() - here.tidied >= TIDY_S:
            here.tidied = time.monotonic()
            delete_idle_consumers(here.client, here.settings.partitions)
    return False


def obey_commands(_: float) -> bool:
    """Obey the commands about more than one plan. Returns whether some may be left."""
    return container().bulk_commands.drain()


def deliver_callbacks(_: float, partition: int) -> bool:
    """Send the callbacks about a partition's plans, in a separate thread that continues afterwards."""
    here = container()
    sender.deliver(Queue(here.callback_client, Partition(partition)), here.settings)
    return False


def complete_webhooks(share: float) -> bool:
    """Do the jobs of webhooks, first the jobs that dead workers left. Return whether some may be left."""
    here = container()
    here.webhook_jobs.recover(_idle_ms(here))
    return here.webhook_jobs.drain(share)


JOBS: dict[str, Callable[..., bool]] = {
    routes.GOALS.task: plan_goals,
    routes.OUTCOMES.task: apply_outcomes,
    routes.UPKEEP.task: keep_up,
    routes.COMMANDS.task: obey_commands,
    routes.CALLBACKS.task: deliver_callbacks,
    routes.WEBHOOKS.task: complete_webhooks,
}
_NUMBERS = {task: number for number, task in enumerate(JOBS)}
_left = mmap.mmap(-1, len(JOBS) * MAX_PARTITIONS)  # a byte for each kind of work; the processes of a pool inherit it


def _idle_ms(here: Container) -> int:
    return int(here.settings.claim_idle_s * 1000)
