"""All our keys, as functions; docs/wire.md names the public ones. All keys of a plan are in one cluster slot."""

from __future__ import annotations

import re
from binascii import crc_hqx
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from schemas.contract import streams

GOALS = streams.GOALS
GOALS_DEAD = "{planner:goals}:dead"
GOALS_STATS = "{planner:goals}:stats"
GOALS_FAILURES = "{planner:goals}:failures"
GOALS_DRAFTS = "{planner:goals}:drafts"  # the same of goals that wait until a drafter can be asked
GOALS_TURNS = "{planner:goals}:turns"  # which tenants' goals wait, and when each has its turn; see lua/turns.lua
COMMANDS = streams.COMMANDS
COMMANDS_DEAD = "{planner:commands}:dead"
COMMANDS_STATS = "{planner:commands}:stats"
COMMANDS_KNOWN = "{planner:commands}:known"
COMMANDS_FAILURES = "{planner:commands}:failures"
COMMANDS_LOCK = "{planner:commands}:lock"
WEBHOOK_JOBS = streams.WEBHOOK_JOBS.format()
WEBHOOK_LATER = "{planner:goals}:webhook:later"  # sorted set: jobs that are tried again, by when
WEBHOOK_WITHDRAWN = "{planner:goals}:webhook:withdrawn"  # sorted set: goals that were overtaken, by since when
WEBHOOK_STATS = "{planner:goals}:webhook:stats"  # hash: results of deliveries, by source
WEBHOOK_FAILURES = "{planner:goals}:webhook:failures"
DELIVERED = "{planner:goals}:delivered"
ENDPOINTS = "planner:endpoints"  # hash id -> JSON: endpoints of callbacks; their secrets are encrypted
ENDPOINTS_OFF = "planner:endpoints:off"  # hash id -> why it is switched off
DEPLOYMENT = "planner:server"  # hash {partitions, layout}: what all who use this server agree on
WORKERS = "planner:workers"  # sorted set: the workers that own partitions, by when each was last there
API_KEYS = "planner:{keys}:all"  # sorted set: the keys of the gateway by the time at which they expire
QUEUE_OWNERS = "planner:{keys}:queues"  # hash: queue -> the tenant that it belongs to, empty for a shared one
CLAIMED_QUEUES = "planner:{claims}:streams"  # set: the streams of step specs that gateways have read
AUDIT = "planner:{audit}:acts"  # stream: acts of persons and keys; see worker/store/audit.py
AUDIT_REFUSALS = "planner:{audit}:refusals"  # the same for refusals
POLICY_TEXTS = "planner:{policies}:texts"  # hash: digest -> the text of a policy; none is ever changed
POLICIES_CURRENT = "planner:{policies}:current"  # hash: `all` and `tenant:T` -> the digest of the policy in force
POLICY_HISTORY = "planner:{policies}:history"  # list: policies that were put in force, with time and actor
NO_TENANT = "default"  # whose goals name none
BUCKETS = 256  # of plan ids and repositories; there are never more partitions
GROUP = "planner"
CONTROLLERS = "controllers"
GATEWAYS = "planner-gateway"  # the consumer of that group that all gateways are
TAG = re.compile(r"\{([^}]+)\}")
PLAN_ID = re.compile(r"plan_[0-9a-f]{2}-[0-9a-f]{32}")


def goal_id(goal: str, tenant: str = NO_TENANT) -> str:
    """Hash {plan_id, verdict, reason, digest, ...}: the idempotency record of a tenant's goal."""
    if tenant == NO_TENANT:
        return f"{{planner:goals}}:id:{goal}"
    return f"{{planner:goals}}:of:{quote(tenant, safe='')}:id:{goal}"


def api_key(key_id: str = "") -> str:
    """Hash {key, secret, tenant, queues}: a key of the gateway, and the digest of its secret."""
    return f"planner:{{keys}}:key:{key_id}"


def older_secret(key_id: str) -> str:
    """String: the digest of the secret that a key had before its rotation, for as long as that counts too."""
    return f"planner:{{keys}}:older:{key_id}"


def page_session(digest: str) -> str:
    """Hash {key_id, secret}: which key signed in on the page, by the digest of the session's token."""
    return f"planner:{{keys}}:session:{digest}"


def claim_id(key_id: str, claim: str) -> str:
    """String: the caller that makes a claim at a gateway; later, the steps that the claim received."""
    return f"planner:{{claims}}:id:{key_id}:{claim}"


def token_bucket(name: str) -> str:
    """Hash {left, at}: the remaining requests of a rate."""
    return f"planner:{{keys}}:rate:{name}"


def webhook(what: str, digest: str) -> str:
    """Return the key for a webhook: the goal of a `delivery`, `body` or `coalesce`, or the `latest` of its kind.

    The first three are strings; the last is a hash {order, goal, tenant}.
    """
    return f"{{planner:goals}}:webhook:{what}:{digest}"


def delivered(plan_id: str) -> str:
    """Hash {version, change}: the change that a plan has delivered."""
    return f"{DELIVERED}:{plan_id}"


def delivered_open(repository: str) -> str:
    """Sorted set: plans whose change is open at its forge -> when it was looked at, in ms."""
    return f"{DELIVERED}:open:{repository}"


def delivered_turn(repository: str) -> str:
    """String: the plan whose change lands again now; each repository has at most one."""
    return f"{DELIVERED}:turn:{repository}"


def delivered_by(digest: str) -> str:
    """String: the plan that delivered the change of a branch or commit; `digest` is of tenant, repository and name."""
    return f"{DELIVERED}:by:{digest}"


def worker_version(token: str) -> str:
    """String: the version of a worker that is there."""
    return f"{WORKERS}:{token}"


def stats_of(dead: str) -> str:
    """Hash: the counters of a dead stream."""
    return dead.removesuffix("dead") + "stats"


def day_grants(day: int, scope: str) -> str:
    """Hash {granted, extra}: tokens that partitions received of a scope's day budget, and tokens of its top-ups."""
    return f"planner:granted:{day}:{scope}"


def bucket(name: str) -> str:
    """Return the bucket (00 to ff) that a name always has: a repository's name, or a random one for a plan without."""
    return f"{crc_hqx(name.encode(), 0) % BUCKETS:02x}"


def partition_of(plan_id: str, partitions: int) -> int:
    """Return the partition of a plan, from the bucket in its id: so the id is enough for routing."""
    return int(plan_id[5:7], 16) % partitions


def tag_of(key: str) -> str:
    """Return the part of a key that determines its slot in a cluster: keys with the same one are in one slot."""
    found = TAG.search(key)
    return found[1] if found else key


def list_name(name: str) -> str:
    """Return the name of a list of plans for keys, without spaces: the lists of a plan are separated by spaces."""
    return quote(name, safe=":/")


class PlanKeys(NamedTuple):
    """The keys of one plan, in the order of the Redis functions' arguments."""

    plan: str
    steps: str
    status: str
    ready: str
    active: str
    todo: str
    log: str


class Partition:
    """The keys of one partition, each made once, because every outcome uses most of them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tag = f"planner:{{{number}}}:"  # the hash tag keeps them in one slot
        # streams
        self.outcomes = self.stream(streams.OUTCOMES)  # what controllers report
        self.commands = self.stream(streams.PLAN_COMMANDS)  # of operators, about single plans
        self.events = self.stream(streams.EVENTS)  # events for readers; capped
        self.outbox = self.stream(streams.OUTBOX)  # notifications for callbacks; only commits write them
        self.dead = self.stream(streams.DEAD)  # entries that could not be read, each with its problem
        self.attachments = self.stream(streams.ATTACHMENTS)  # diffs of attempts, until they are taken
        # sorted sets
        self.timers = self.tag + "timers"  # every clock of the partition by its due time
        self.plans = self.tag + "plans"  # every plan of the partition by its creation time
        self.callbacks = self.stream(streams.CALLBACKS)  # endpoint -> when its next delivery is due
        # strings
        self.owner = self.tag + "owner"  # the worker that drains this partition; see lua/owners.lua
        self.outbox_open = self.outbox + ":open"  # there where there is an endpoint; commits put nothing there without
        # hashes
        self.listed = self.plans + ":listed"  # plan -> the lists that it is in
        self.sweep = self.tag + "sweep"  # the worker that sweeps at the moment, and times without any
        self.scopes = self.tag + "scopes"  # standing commands, by command and scope, and how many there were
        self.grants = self.tag + "grants"  # what of the day budgets is left here, by scope
        self.tenants = self.tag + "tenants"  # tenant -> how many of its plans have not ended
        self.commits = self.tag + "commits"  # how many commits there were, and since when
        self.claims = (
            self.tag + "claims"
        )  # plan -> its repository and the files that it claims; see lua/file_claims.lua
        self.stats = self.tag + "stats"  # counters of verdicts, dead entries and unknown fields
        self.breakers = self.tag + "breaker"  # breakers of repositories that have tripped, by tenant with repository
        self.breakers_due = self.breakers + ":due"  # sorted set: when each is to be looked at; see lua/breaker.lua
        self.probes = self.breakers + ":probes"  # results of their probe steps
        self.failures = self.tag + "failures"  # entry -> how often deciding about it failed
        self.attachments_kept = self.attachments + ":kept"  # diffs and their figures, by tenant, plan and digest
        self.attachments_order = self.attachments + ":order"  # sorted set: the same by when they were taken
        self.attachments_attempts = self.attachments + ":attempts"  # plan, step, attempt and kind -> what is kept of it
        self.attachments_sizes = self.attachments + ":sizes"  # bytes of all of them (''), and of each tenant

    def stream(self, address: str) -> str:
        """Return the stream of this partition at `address`; an address without partitions is unchanged."""
        return address.format(partition=f"{{{self.number}}}")

    def list_of(self, name: str) -> str:
        """Sorted set: the plans of the list `name`, by their creation time (see tasks/plan/lifecycle.py)."""
        return f"{self.plans}:{list_name(name)}"

    def used(self, name: str) -> str:
        """List: the tokens that the last attempts of a mode on a queue used, newest first."""
        return f"{self.tag}used:{name}"

    def memory(self, name: str) -> str:
        """List: the recorded attempts of a repository's steps, newest first (see tasks/memory/outcomes.py)."""
        return f"{self.tag}memory:{name}"

    def memories(self, tenant: str) -> str:
        """Sorted set: the names of a tenant's lists of recorded attempts, by the time of their last use.

        `tenant` is quoted as in the names of these lists.
        """
        return f"{self.tag}memories:{tenant}"

    def worked(self, day: int) -> str:
        """Hash: how many attempts of each controller were done or failed on this day since 1970; see lua/commit.lua."""
        return f"{self.tag}worked:{day}"

    @property
    def remembering(self) -> str:
        """Sorted set: the quoted names of tenants with recorded attempts, by the time of their last use."""
        return f"{self.tag}memories"

    def recall(self, name: str) -> str:
        """Hash: the counters that plans of a kind, tenant and repository leave to later plans."""
        return f"{self.tag}recall:{name}"

    @property
    def recalled(self) -> str:
        """Sorted set: the names of the hashes of `recall`, by the time when a counter was last raised."""
        return f"{self.tag}recalled"

    def kept(self, name: str) -> str:
        """Hash: failed diffs or cached drafts of a tenant's repository; `:order` after the name lists its fields."""
        return f"{self.tag}kept:{name}"

    def sums(self, period: str, number: int) -> str:
        """Hash: what plans that ended in the hour or the day of this number since 1970 used; see lua/sums.lua."""
        return f"{self.tag}sums:{period}:{number}"

    @property
    def claims_kept(self) -> str:
        """Sorted set: ended plans that still claim the files that they delivered -> the end of that in ms."""
        return f"{self.claims}:kept"

    def claims_of(self, name: str) -> str:
        """Hash: file of a repository -> the plans that claim it, in their order (see tasks/plan/file_claims.py)."""
        return f"{self.claims}:{name}"

    def counted_failures(self, series: str) -> str:
        """Sorted set: failures of a tenant's repository by their times; see lua/breaker.lua."""
        return f"{self.breakers}:failed:{series}"

    def chunks(self, tenant: str) -> str:
        """Hash: chunks of a tenant's commits -> their summaries; `:order` behind it lists them by age."""
        return f"{self.tag}chunks:{quote(tenant, safe='')}"

    def drafts(self, plan_id: str) -> str:
        """Hash of questions to a drafter about a plan: n:asked -> digest, n:answer -> JSON."""
        return f"{self.tag}draft:{plan_id}"

    def steps(self, queue: str) -> str:
        """Stream: step specs for the controllers of a queue."""
        return streams.STEPS.format(partition=f"{{{self.number}}}", queue=queue)

    def lease_prefix(self, plan_id: str) -> str:
        """Return the prefix of a plan's lease keys; the step id follows."""
        return f"{self.tag}lease:{plan_id}:"

    def plan(self, plan_id: str) -> PlanKeys:
        """Return the keys of a plan."""
        base = f"{self.tag}plan:{plan_id}"
        return PlanKeys(
            base,
            base + ":steps",
            base + ":status",
            base + ":ready",
            base + ":active",
            base + ":todo",
            base + ":log",
        )


def home_of(plan_id: str, partitions: int) -> Partition:
    """Return the partition of a plan, with its keys."""
    return _partition(partition_of(plan_id, partitions))


@lru_cache(BUCKETS)
def _partition(number: int) -> Partition:
    return Partition(number)
