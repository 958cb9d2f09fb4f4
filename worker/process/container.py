"""The composition root: all objects that a Celery task uses, made once per process and thread, after the fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from redis import Redis

from tasks.features.breakers.breaker import Terms
from worker.delivered.look import Looks
from worker.drafters.consulting import Consulting
from worker.drafters.queue_artifacts import QueueArtifacts
from worker.engine.admission import Admission, Quota
from worker.engine.breakers import Breakers, note_lifted
from worker.engine.bulk_commands import BulkCommands
from worker.engine.engine import LINGER_MS, Engine
from worker.engine.goal_consumer import GoalConsumer
from worker.engine.plan_creation import PartitionContext, PlanCreation
from worker.engine.router import Router
from worker.host import garbage
from worker.process import draft_threads
from worker.settings import tools_file
from worker.settings.settings import Settings, load
from worker.store import clients, keys
from worker.store.clients import Connects
from worker.store.commits import Commits
from worker.store.dead import places
from worker.store.keys import Partition, partition_of
from worker.store.memory import ServerMemory
from worker.store.plans import PlanStore
from worker.store.policies import Policies
from worker.streams.fair_inbox import DRAFTING, DraftInbox, FairInbox
from worker.streams.inbox import Inbox, StreamEntry, worker_name
from worker.webhooks.jobs import WebhookJobs


class Container:
    """The objects that the threads of one process use, each made when it is first needed.

    Several threads may use the clients, `memory`, `quota` and `policies` at once. Only one thread at a time uses the
    engine of a partition (partition_engines.py).
    """

    def __init__(self, settings: Settings, *, is_worker: bool = False) -> None:
        self.settings = settings
        self._is_worker = is_worker  # a worker asks drafters in separate threads
        self.name = worker_name()
        self.tidied = time.monotonic()  # when idle consumers were looked for; not at once after a start
        self._connects = Connects()
        self._contexts: dict[int, PartitionContext] = {}

    @cached_property
    def client(self) -> Redis:
        """The connection to the store."""
        return clients.connect(self.settings.redis_url, LINGER_MS / 1000, connects=self._connects)

    @cached_property
    def callback_client(self) -> Redis:
        """The connections for callbacks, which several threads use; no commit uses them."""
        return clients.connect(self.settings.redis_url)

    @cached_property
    def goal_consumer(self) -> GoalConsumer:
        """Makes plans of goals; in a worker, goals that need a drafter are left to `draft_consumer`."""
        return self._goal_consumer(self.goals, self._put_aside if self._is_worker else None)

    @cached_property
    def draft_consumer(self) -> GoalConsumer:
        """Makes plans of goals that wait for a drafter."""
        return self._goal_consumer(self.drafts)

    def begin_drafts(self) -> None:
        """Start planning the goals that wait for a drafter, if there are any; returns at once."""
        if self.client.exists(keys.GOALS_DRAFTS):
            self._begin_draft()

    def _put_aside(self, entry: StreamEntry) -> None:
        self.drafts.have_wait([entry])
        self._begin_draft()  # no more is asked of the store: the goal waits already, and nothing may count against it

    def _begin_draft(self) -> None:
        draft_threads.begin(plan_draft, self.settings.drafts_at_once)

    def _goal_consumer(self, inbox: FairInbox, put_aside: Callable[[StreamEntry], None] | None = None) -> GoalConsumer:
        here = self.settings
        return GoalConsumer(
            self.client,
            inbox,
            self.plan_creation,
            admission=self.admission,
            max_bytes=here.max_goal_bytes,
            max_failures=here.max_failures,
            retention_s=here.retention_s,
            claim_idle_s=here.claim_idle_s,
            put_aside=put_aside,
        )

    @cached_property
    def plan_creation(self) -> PlanCreation:
        """Creates the plan of a goal."""
        here, catalogue = self.settings, tools_file.catalogue(self.settings.tools_file)
        partitions = here.partitions
        return PlanCreation(
            self.client,
            lambda plan_id: self.context(partition_of(plan_id, partitions)),
            self.admission,
            self.consulting,
            self.policies,
            here.cache_kept_s,
            catalogue,
        )

    @cached_property
    def admission(self) -> Admission:
        """Decides whether a plan is admitted."""
        here = self.settings
        return Admission(
            self.client,
            self.memory,
            self.quota,
            here.max_tenant_plans,
            here.switches,
        )

    @cached_property
    def policies(self) -> Policies:
        """The policies of operators for the creation of plans and for decisions."""
        return Policies(self.client)

    @cached_property
    def consulting(self) -> Consulting:
        """Asks drafters."""
        return Consulting(self.client, self.settings)

    @cached_property
    def goals(self) -> FairInbox:
        """The stream of goals."""
        return FairInbox(self.client, *self._goals(self.name))

    @cached_property
    def drafts(self) -> DraftInbox:
        """The goals that wait for a drafter."""
        return DraftInbox(self.client, *self._goals(self.name + DRAFTING))

    def _goals(self, consumer: str) -> tuple[Any, ...]:
        here = self.settings
        limits = (consumer, here.max_dead, self.memory.dead_bytes)
        return (keys.GOALS, keys.GOALS_DEAD, *limits, here.tenant_weights)

    @cached_property
    def memory(self) -> ServerMemory:
        """The memory use of the server."""
        here = self.settings
        return ServerMemory(self.client, here.max_dead_share, len(places(here.partitions)), here.partitions)

    @cached_property
    def quota(self) -> Quota:
        """The day budgets of tenants and repositories."""
        here = self.settings
        return Quota(self.client, here.partitions, here.tenant_day_tokens, here.repository_day_tokens)

    @cached_property
    def bulk_commands(self) -> BulkCommands:
        """Obeys the commands about more than one plan."""
        inbox = self._inbox(keys.COMMANDS, keys.COMMANDS_DEAD)
        return BulkCommands(self.client, inbox, self.quota, self.name, self.settings.max_failures, note_lifted)

    @cached_property
    def webhook_jobs(self) -> WebhookJobs:
        """Asks the forges about webhooks."""
        here = self.settings
        inbox = self._inbox(keys.WEBHOOK_JOBS, keys.GOALS_DEAD)
        return WebhookJobs(
            self.client,
            inbox,
            here.partitions,
            here.webhooks_file,
            here.max_failures,
            here.claim_idle_s,
            here.retention_s,
            Looks(self.client, here.partitions, here.webhooks_file).look,
        )

    def context(self, number: int) -> PartitionContext:
        """The store and the engine of a partition."""
        if number in self._contexts:
            return self._contexts[number]
        here, client, partition = self.settings, self.client, Partition(number)
        commits = Commits(client, partition, here.state, self._connects)
        store = PlanStore(client, partition, self.name, here.retention_s, commits, here.max_queue)
        outcomes = self._inbox(partition.outcomes, partition.dead)
        commands = self._inbox(partition.commands, partition.dead)
        router = Router(outcomes, commands, partition, here.partitions, here.max_failures)
        keeper = Breakers(client, partition, _terms_of(here))
        engine = Engine(
            store, router, self.quota, self.memory, self.policies, here.events_s, 86_400 * here.audit_days,
            here.keep_diffs, keeper, QueueArtifacts(here) if here.planning_debug_dir else None,
        )  # fmt: skip
        self._contexts[number] = PartitionContext(partition, store, commits, router, engine)
        return self._contexts[number]

    def _inbox(self, stream: str, dead: str) -> Inbox:
        return Inbox(self.client, stream, dead, self.name, self.settings.max_dead, self.memory.dead_bytes)


_local = threading.local()


def _terms_of(here: Settings) -> Terms:
    return Terms(here.breaker_plans, here.breaker_share, 1000 * here.breaker_window_s, 1000 * here.breaker_probe_s)


def make() -> Container:
    """Return a container of a worker, for one thread at a time."""
    made = Container(load(), is_worker=True)
    garbage.collect_seldom()
    return made


def container() -> Container:
    """Return the container of this thread; a forked process makes its own."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.pid, _local.container = os.getpid(), make()
    made: Container = _local.container
    return made


def plan_draft() -> bool:
    """Plan a goal that waits for a drafter. Returns whether there was one."""
    return container().draft_consumer.take()
