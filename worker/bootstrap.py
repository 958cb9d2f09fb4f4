"""The composition root: everything a Celery task works with, made once per process and thread, after the fork."""

from __future__ import annotations

import gc
import os
import threading
from functools import cached_property

from redis import Redis

from worker import clients, tools_file
from worker.decomposer import Decomposer, Home
from worker.engine import LINGER_MS, Engine
from worker.inbox import Inbox, worker_name
from worker.intake import Intake
from worker.settings import Settings, load
from worker.store import keys
from worker.store.keys import Partition, partition_of
from worker.store.plans import PlanStore


class Services:
    """What one thread of one process works with; clients are not shared across threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = worker_name()
        self._homes: dict[int, Home] = {}

    @cached_property
    def client(self) -> Redis:
        """The connection to the store."""
        return clients.connect(self.settings.redis_url, LINGER_MS / 1000)

    @cached_property
    def decomposer(self) -> Decomposer:
        """What turns goals into plans."""
        return Decomposer(
            self.client,
            self.goals,
            lambda plan_id: self.home(partition_of(plan_id, self.settings.partitions)),
            max_bytes=self.settings.max_goal_bytes,
            max_failures=self.settings.max_failures,
            retention_s=self.settings.retention_s,
            catalogue=tools_file.catalogue(self.settings.tools_file),
        )

    @cached_property
    def goals(self) -> Inbox:
        """The stream of goals."""
        return Inbox(self.client, keys.GOALS, keys.GOALS_DEAD, self.name)

    def home(self, number: int) -> Home:
        """The store and the engine of a partition."""
        if number not in self._homes:
            partition = Partition(number)
            store = PlanStore(self.client, partition, self.name, self.settings.retention_s)
            inbox = Inbox(self.client, partition.outcomes, partition.dead, self.name)
            orders = Inbox(self.client, partition.commands, partition.dead, self.name)
            intake = Intake(inbox, orders, self.client, partition, self.settings.partitions, self.settings.max_failures)
            engine = Engine(store, intake, self.client, partition)
            self._homes[number] = Home(partition, store, engine)
        return self._homes[number]


_local = threading.local()


def services() -> Services:
    """The services of this thread; a process that was forked makes its own."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.pid, _local.services = os.getpid(), Services(load())
        gc.freeze()  # what was imported stays; what a batch makes is gone with it, so collect seldom
        gc.set_threshold(50_000, 20, 20)
    made: Services = _local.services
    return made
