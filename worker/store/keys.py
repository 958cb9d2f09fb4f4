"""Every key of ours, as functions; docs/wire.md names the public ones.

All keys of a plan lie in one cluster slot.
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from schemas.contract import streams

GOALS = streams.GOALS
GOALS_DEAD = "{planner:goals}:dead"
GOALS_STATS = "{planner:goals}:stats"
GOALS_FAILURES = "{planner:goals}:failures"
COMMANDS = streams.COMMANDS
COMMANDS_DEAD = "{planner:commands}:dead"
COMMANDS_STATS = "{planner:commands}:stats"
COMMANDS_KNOWN = "{planner:commands}:known"
COMMANDS_FAILURES = "{planner:commands}:failures"
COMMANDS_LOCK = "{planner:commands}:lock"
DEPLOYMENT = "planner:deployment"  # hash {partitions, layout}: what all who use this server agree on
GROUP = "planner"
CONTROLLERS = "controllers"


def goal_id(goal: str) -> str:
    """Hash {plan_id, verdict, reason, digest}: the idempotency record of a goal."""
    return f"{{planner:goals}}:id:{goal}"


def stats_of(dead: str) -> str:
    """Hash: the counters that stand beside a dead stream."""
    return dead.removesuffix("dead") + "stats"


def day_grants(day: int, scope: str) -> str:
    """Hash {granted, extra}: what partitions got of a scope's budget on a day.

    `extra` is what it was topped up by, in tokens.
    """
    return f"planner:granted:{day}:{scope}"


def bucket(name: str) -> str:
    """The fixed bucket (00..ff) of a repository, or of a plan that has none."""
    return f"{crc_hqx(name.encode(), 0) % 256:02x}"


def partition_of(plan_id: str, partitions: int) -> int:
    """The partition of a plan, from its bucket.

    Whoever has the id can route to it.
    """
    return int(plan_id[5:7], 16) % partitions


class PlanKeys(NamedTuple):
    """The keys of one plan, in the order in which the functions take them."""

    plan: str
    steps: str
    status: str
    ready: str
    active: str
    todo: str
    log: str


@dataclass(frozen=True)
class Partition:
    """The keys of one partition, each made once: every outcome names most of them."""

    number: int

    @cached_property
    def tag(self) -> str:
        """The hash tag that keeps them in one slot."""
        return f"planner:{{{self.number}}}:"

    def stream(self, address: str) -> str:
        """Name the stream that this partition has at `address`; one without partitions keeps its name."""
        return address.format(partition=f"{{{self.number}}}")

    @cached_property
    def outcomes(self) -> str:
        """Stream: what controllers report."""
        return self.stream(streams.OUTCOMES)

    @cached_property
    def commands(self) -> str:
        """Stream: the commands of operators about single plans."""
        return self.stream(streams.PLAN_COMMANDS)

    @cached_property
    def events(self) -> str:
        """Capped stream: what the planner tells of itself."""
        return self.stream(streams.EVENTS)

    @cached_property
    def dead(self) -> str:
        """Stream: entries that could not be read, each with its problem."""
        return self.stream(streams.DEAD)

    @cached_property
    def timers(self) -> str:
        """Sorted set: every clock of the partition by its due time."""
        return self.tag + "timers"

    @cached_property
    def plans(self) -> str:
        """Sorted set: every plan of the partition by its creation time."""
        return self.tag + "plans"

    @cached_property
    def sweep(self) -> str:
        """Hash: who hands out due work at the moment, and when nobody did."""
        return self.tag + "sweep"

    @cached_property
    def scopes(self) -> str:
        """Hash: standing commands, by command and scope, and how many there were."""
        return self.tag + "scopes"

    @cached_property
    def grants(self) -> str:
        """Hash: what of the day budgets is left here, by scope."""
        return self.tag + "grants"

    @cached_property
    def tenants(self) -> str:
        """Hash: tenant -> how many of its plans have not ended."""
        return self.tag + "tenants"

    @cached_property
    def commits(self) -> str:
        """Hash: how many commits there were, and since when."""
        return self.tag + "commits"

    @cached_property
    def stats(self) -> str:
        """Hash: counters of verdicts, dead entries and unknown fields."""
        return self.tag + "stats"

    @cached_property
    def failures(self) -> str:
        """Hash: entry -> how often deciding about it failed."""
        return self.tag + "failures"

    def recall(self, name: str) -> str:
        """Hash of counters: what plans leave to those that come after them.

        One for a kind, tenant and repository.
        """
        return f"{self.tag}recall:{name}"

    def drafts(self, plan_id: str) -> str:
        """Hash: what a drafter was asked about a plan, and its answers.

        n:asked -> digest, n:answer -> JSON.
        """
        return f"{self.tag}draft:{plan_id}"

    def steps(self, queue: str) -> str:
        """Stream: step specs for the controllers of a queue."""
        return streams.STEPS.format(partition=f"{{{self.number}}}", queue=queue)

    def lease_prefix(self, plan_id: str) -> str:
        """What the lease keys of a plan begin with; the step id follows."""
        return f"{self.tag}lease:{plan_id}:"

    def plan(self, plan_id: str) -> PlanKeys:
        """Make the keys of a plan."""
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
