"""Defines all metrics in one table: their names, kinds, labels, and the processes that export them.

Workers count their own work. The gateway and `planner exporter` read shared state from Redis, such as the length of a
queue. Workers do not export this state: with two workers, Prometheus would count the state twice.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from worker.host import temporary

MOST_NAMES = 50  # values of a label in one process; further ones are OTHER
OTHER = "other"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,63}")
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable where prometheus_client looks for it
PREFIX = "planner-metrics-"

Labels = tuple[str, ...]


class Kind(StrEnum):
    """The kind of a metric: a counter that only grows, a histogram of sizes, or a gauge."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Teller(StrEnum):
    """The kind of process that exports a metric."""

    WORKER = "worker"
    GATEWAY = "gateway"
    STATE = "gateway, exporter"  # read from Redis, the same from each of them
    ALL = "worker, gateway, exporter"


@dataclass(frozen=True, eq=False, slots=True)  # rows are looked up by the million, so by identity
class Metric:
    """A metric: name, kind, help text, labels, the processes that export it, and the upper bounds of its histogram."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    teller: Teller = Teller.WORKER
    buckets: tuple[float, ...] = ()


SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)  # seconds: work of ours
LONG = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)  # seconds: work of others

DAYS = tuple(86_400 * days for days in (0.04, 0.25, 1, 2, 3, 5, 7, 14, 30, 60))  # seconds: until people have merged


def _counter(name: str, about: str, *labels: str, teller: Teller = Teller.WORKER) -> Metric:
    return Metric(name, Kind.COUNTER, about, labels, teller)


def _histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, about, labels, buckets=buckets)


def _gauge(name: str, about: str, *labels: str, teller: Teller = Teller.STATE) -> Metric:
    return Metric(name, Kind.GAUGE, about, labels, teller)


# --- counted by workers: goals and plans ---
GOALS_RECEIVED = _counter("planner_goals_received_total", "Goals that were taken up, by how they came.", "source")
GOALS_DECIDED = _counter("planner_goals_decided_total", "Goals that got their verdict, by kind.", "kind", "verdict")
DECOMPOSE_SECONDS = _histogram(
    "planner_decompose_duration_seconds",
    "Time from taking up a goal to its verdict, a drafter's included.",
    (*SHORT[3:], 60, 300, 1800),
    "kind",
)
PLANS = _counter(
    "planner_plans_total",
    "Plans made: given with the goal, by a pattern, from the plan cache, or by an llm, even if its draft is unusable.",
    "source",
)
PLANS_ENDED = _counter("planner_plans_ended_total", "Plans that ended, by kind and state.", "kind", "state")
PLAN_SECONDS = _histogram("planner_plan_duration_seconds", "Time from a plan's creation to its end.", LONG, "kind")
HALTS = _counter("planner_plan_halts_total", "Plans that were halted, by the rule.", "rule")
REVISIONS = _counter(
    "planner_revisions_total",
    "Steps that were revised, by the row of the table: the failure, and how many there were.",
    "row",
)

CHANGES = _counter(
    "planner_delivered_changes_total", "Delivered changes that came into a state: MERGED, REVERTED and others.", "state"
)
CHANGE_SECONDS = _histogram("planner_delivered_merge_seconds", "Time from a delivery until it was merged.", DAYS)
CHANGE_ROUNDS = _counter(
    "planner_delivered_rounds_total", "Follow-up plans: for red checks, a review, or a target that moved.", "why"
)

# --- counted by workers: steps and outcomes ---
STEPS_DISPATCHED = _counter("planner_steps_dispatched_total", "Attempts that were handed out.", "queue", "risk")
PARALLEL_BATCHES = _counter(
    "planner_parallel_batches_total", "Decisions that handed out more than one step of a plan at once."
)
STEPS = _counter(
    "planner_steps_total", "Steps that ended: success, failed, skipped or, with their plan, halted.", "status"
)
OUTCOMES = _counter(
    "planner_outcomes_total",
    "Outcomes by verdict; the category is that of the failure, or none.",
    "verdict",
    "category",
)
QA_EVALUATIONS = _counter(
    "planner_qa_evaluations_total", "Outcomes that reported a result of tests: passed or failed.", "status"
)
LEASES_EXPIRED = _counter("planner_lease_expired_total", "Attempts that ended by their clock, unreported.")
STEP_QUEUE_SECONDS = _histogram(
    "planner_step_queue_seconds",
    "Time of an attempt from its dispatch to its outcome, less the work time that its controller reports.",
    LONG,
    "queue",
)
STEP_RUN_SECONDS = _histogram(
    "planner_step_run_seconds", "Time for which a controller worked on an attempt, as it reports.", LONG, "queue"
)
RESERVED_TOKENS = _counter("planner_budget_reserved_tokens_total", "Tokens that were set aside for attempts.", "kind")
SPENT_TOKENS = _counter("planner_budget_spent_tokens_total", "Tokens that were booked.", "kind")
COST = _counter("planner_cost_usd_total", "Cost of attempts in US dollars, as controllers report.", "kind")
LLM_TOKENS = _counter(
    "planner_llm_tokens_total", "Tokens of models, as controllers report: input, output or cached.", "direction"
)

# --- counted by workers: their own work ---
APPLY_SECONDS = _histogram(
    "planner_apply_duration_seconds", "Time of a batch of decisions with its two round trips.", SHORT
)
DECIDE_SECONDS = _histogram("planner_decide_duration_seconds", "Time of the decisions of a batch alone.", SHORT)
COMMIT_SECONDS = _histogram("planner_commit_duration_seconds", "Time for which a batch waited for its commits.", SHORT)
COMMITS = _counter("planner_commits_total", "Commits by result: ok, stale, claimed, gone, full or refused.", "result")
DEAD = _counter("planner_entries_dead_total", "Entries that were put aside, by the code of why.", "code")
BREAKERS = _counter(
    "planner_breakers_total",
    "Breakers of repositories that tripped or closed, and steps that they let through.",
    "what",
)
TAKEN_OVER = _counter("planner_entries_taken_over_total", "Entries that were taken over from dead workers.")
DRAFTER_CALLS = _counter(
    "planner_drafter_calls_total", "Questions to drafters: answered, failed or stopped.", "drafter", "result"
)
DRAFTER_SECONDS = _histogram("planner_drafter_duration_seconds", "Time that a drafter took.", LONG, "drafter")
DRAFTER_TOKENS = _counter("planner_drafter_tokens_total", "Tokens that drafters used.", "drafter")
CALLBACKS = _counter(
    "planner_callbacks_total",
    "Tries of callbacks: delivered, again (another try follows), failed, disabled or dropped.",
    "result",
)

# --- counted by gateways ---
WEBHOOKS = _counter(
    "planner_webhooks_total",
    "Webhooks by source: accepted, cancelled, the code of why one was ignored, or that of an error.",
    "source",
    "result",
    teller=Teller.GATEWAY,
)
REQUESTS = _counter(
    "planner_http_requests_total",
    "Requests by the status of the answer, or gone where the caller hung up first.",
    "status",
    teller=Teller.GATEWAY,
)

# --- shared state ---
PLANS_NOW = _gauge("planner_plans", "Plans that have not ended, by state and kind.", "state", "kind")
PLANS_WAITING = _gauge("planner_plans_waiting", "Plans that wait for a person.")
QUEUE_LENGTH = _gauge("planner_queue_length", "Step specs of a queue, those in hand included.", "queue")
QUEUE_WAITING = _gauge("planner_queue_waiting", "Step specs of a queue that no controller has claimed.", "queue")
IN_FLIGHT = _gauge("planner_attempts_in_flight", "Step specs of a queue that a controller has in hand.", "queue")
QUEUE_AGE = _gauge("planner_queue_oldest_age_seconds", "Age of the oldest step spec of a queue.", "queue")
QUEUE_READERS = _gauge(
    "planner_queue_readers", "Controllers that asked within the last minute, or have a step in hand.", "queue"
)
QUEUE_PAUSED = _gauge("planner_queue_paused", "1 where a command keeps a queue from getting steps.", "queue")
INBOX_LENGTH = _gauge(
    "planner_inbox_length", "Entries that workers have yet to finish: goals, outcomes, commands or webhooks.", "stream"
)
INBOX_AGE = _gauge("planner_inbox_oldest_age_seconds", "Age of the oldest of these entries.", "stream")
DLQ_LENGTH = _gauge("planner_dlq_length", "Dead entries: goals, commands or outcomes.", "stream")
SWEEP_LAG = _gauge("planner_sweeper_lag_seconds", "For how long the oldest due clock of a plan has waited.")
OUTBOX_LENGTH = _gauge("planner_outbox_length", "Messages for callbacks that no process has taken.")
DAY_BUDGETS_GONE = _gauge(
    "planner_day_budgets_exhausted", "Tenants or repositories whose tokens of the day are used up.", "of"
)
MEMORY = _gauge("planner_store_memory_ratio", "Part of the server's maxmemory in use; absent without one.")
STATE_UP = _gauge("planner_state_up", "1 if Redis returned all of the above, else 0.")
BUILD_INFO = _gauge(
    "planner_build_info", "Always 1; the labels name the versions.", "version", "policy_version", teller=Teller.ALL
)

TABLE = tuple(value for value in list(vars().values()) if isinstance(value, Metric))


class Tally:
    """Counts that are not in the metrics file yet; an item of `events` counts as 1. Not for several threads at once."""

    __slots__ = ("counts", "events", "sizes")

    def __init__(self) -> None:
        self.events: list[tuple[Metric, Labels]] = []
        self.counts: defaultdict[tuple[Metric, Labels], float] = defaultdict(float)
        self.sizes: defaultdict[tuple[Metric, Labels], list[float]] = defaultdict(list)


class Names:
    """The label values that are in use; each label of a metric has at most MOST_NAMES."""

    def __init__(self) -> None:
        self._names: defaultdict[tuple[Any, str], set[str]] = defaultdict(set)

    def find(self, label: tuple[Any, str], value: str) -> str:
        """Return the value and remember it; OTHER if the value is no valid name, or the label has MOST_NAMES others."""
        names = self._names[label]
        if value not in names:
            if len(names) >= MOST_NAMES or not NAME.fullmatch(value):
                return OTHER
            names.add(value)
        return value


class Board:
    """The metrics of this process, stored in files in `folder`; a forked process writes a separate file."""

    def __init__(self, folder: Path) -> None:
        from prometheus_client import values

        os.environ[FOLDER] = str(folder)
        self.folder = folder
        self.lock = threading.Lock()
        library: Any = values  # it has no types
        self._number = library.MultiProcessValue()
        self._numbers: dict[tuple[Any, ...], Any] = {}
        self._names = Names()
        os.register_at_fork(
            before=self.lock.acquire, after_in_parent=self.lock.release, after_in_child=self.lock.release
        )

    def take(self, tally: Tally) -> None:
        """Add the counts of a tally to the metrics, and empty the tally."""
        with self.lock:
            for (metric, labels), by in chain(tally.counts.items(), Counter(tally.events).items()):
                self._counter(metric, self._bounded(metric, labels)).inc(by)
            for (metric, labels), sizes in tally.sizes.items():
                total, buckets = self._histogram(metric, self._bounded(metric, labels))
                total.inc(sum(sizes))
                for place, times in Counter(map(partial(bisect_left, metric.buckets), sizes)).items():
                    buckets[place].inc(times)
        tally.counts.clear()
        tally.events.clear()
        tally.sizes.clear()

    def _counter(self, metric: Metric, labels: Labels) -> Any:
        if (metric, labels) not in self._numbers:
            name = metric.name.removesuffix("_total")
            made = self._number("counter", name, metric.name, metric.labels, labels, metric.help)
            self._numbers[metric, labels] = made
        return self._numbers[metric, labels]

    def _histogram(self, metric: Metric, labels: Labels) -> Any:
        if (metric, labels) not in self._numbers:
            name, common = metric.name, ("histogram", metric.name)
            total = self._number(*common, f"{name}_sum", metric.labels, labels, metric.help)
            bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
            names = (*metric.labels, "le")
            buckets = [self._number(*common, f"{name}_bucket", names, (*labels, le), metric.help) for le in bounds]
            self._numbers[metric, labels] = total, buckets
        return self._numbers[metric, labels]

    def _bounded(self, metric: Metric, labels: Labels) -> Labels:
        """Return the labels with OTHER for invalid names, and for names beyond MOST_NAMES."""
        find = self._names.find
        return tuple(find((metric, label), value) for label, value in zip(metric.labels, labels, strict=True))


class Counting:
    """The switch for metrics in this process and in processes forked from it: off until `start`."""

    def __init__(self) -> None:
        self.board: Board | None = None

    def start(self) -> Board:
        """Enable metrics, with a new folder for their files. Return the board; folders of ended processes are removed.

        Raises OSError if there is no place for temporary files.
        """
        if self.board is None:
            temporary.remove_left_behind(PREFIX)
            self.board = Board(Path(tempfile.mkdtemp(prefix=temporary.prefix(PREFIX))))
            atexit.register(_remove, self.board.folder, os.getpid())
        return self.board

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count a rare event at once; for events of every outcome, use a Tally."""
        if self.board:
            tally = Tally()
            tally.counts[metric, labels] = by
            self.board.take(tally)

    def observe(self, metric: Metric, size: float, *labels: str) -> None:
        """Add a size, such as a duration in seconds, to a histogram."""
        if self.board:
            tally = Tally()
            tally.sizes[metric, labels] = [size]
            self.board.take(tally)


HERE = Counting()


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
