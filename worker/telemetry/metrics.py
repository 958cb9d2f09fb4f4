"""The names of all metrics, in one table: what is exported, by whom, with which labels.

Workers count what they do. What all of them share, such as the length of a queue, is read from Redis and told by the
gateway and by `planner exporter`: two workers that both told it would double it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a number does: only grow, be a number of sizes, or go up and down."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Teller(StrEnum):
    """Who tells a metric."""

    WORKER = "worker"
    GATEWAY = "gateway"
    STATE = "gateway, exporter"  # what is read from Redis, the same from each of them
    ALL = "worker, gateway, exporter"


@dataclass(frozen=True, eq=False, slots=True)  # rows are looked up by the million, so by identity
class Metric:
    """A row of the table."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    teller: Teller = Teller.WORKER
    buckets: tuple[float, ...] = ()


SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)  # seconds: work of ours
LONG = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)  # seconds: work of others
COUNTER, HISTOGRAM, GAUGE = Kind

# --- counted by workers: goals and plans ---
GOALS_RECEIVED = Metric(
    "planner_goals_received_total", COUNTER, "Goals that were taken up, by how they came.", ("source",)
)
GOALS_DECIDED = Metric(
    "planner_goals_decided_total", COUNTER, "Goals that got their verdict, by kind.", ("kind", "verdict")
)
DECOMPOSE_SECONDS = Metric(
    "planner_decompose_duration_seconds",
    HISTOGRAM,
    "Time from taking up a goal to its verdict, a drafter's included.",
    ("kind",),
    buckets=(*SHORT[3:], 60, 300, 1800),
)
PLANS = Metric(
    "planner_plans_total",
    COUNTER,
    "Plans that were made: given with the goal, by a pattern, from the plan cache, or by an llm, even if its draft "
    "was of no use.",
    ("source",),
)
PLANS_ENDED = Metric("planner_plans_ended_total", COUNTER, "Plans that ended, by kind and state.", ("kind", "state"))
PLAN_SECONDS = Metric(
    "planner_plan_duration_seconds", HISTOGRAM, "Time from a plan's creation to its end.", ("kind",), buckets=LONG
)
HALTS = Metric("planner_plan_halts_total", COUNTER, "Plans that were halted, by the rule.", ("rule",))
REVISIONS = Metric(
    "planner_revisions_total",
    COUNTER,
    "Steps that were revised, by the row of the table: the failure, and how many there were.",
    ("row",),
)

# --- counted by workers: steps and outcomes ---
STEPS_DISPATCHED = Metric(
    "planner_steps_dispatched_total", COUNTER, "Attempts that were handed out.", ("queue", "risk")
)
PARALLEL_BATCHES = Metric(
    "planner_parallel_batches_total", COUNTER, "Decisions that handed out more than one step of a plan at once."
)
STEPS = Metric(
    "planner_steps_total",
    COUNTER,
    "Steps that ended: success, failed, skipped or, with their plan, halted.",
    ("status",),
)
OUTCOMES = Metric(
    "planner_outcomes_total",
    COUNTER,
    "Outcomes, by what became of them; the category is that of the failure, or none.",
    ("verdict", "category"),
)
QA_EVALUATIONS = Metric(
    "planner_qa_evaluations_total",
    COUNTER,
    "Outcomes that said whether the tests passed: passed or failed.",
    ("status",),
)
LEASES_EXPIRED = Metric("planner_lease_expired_total", COUNTER, "Attempts that ended by their clock, unreported.")
STEP_QUEUE_SECONDS = Metric(
    "planner_step_queue_seconds",
    HISTOGRAM,
    "Time of an attempt from its dispatch to its outcome, less what the controller says that it worked.",
    ("queue",),
    buckets=LONG,
)
STEP_RUN_SECONDS = Metric(
    "planner_step_run_seconds",
    HISTOGRAM,
    "Time for which a controller worked on an attempt, as it says.",
    ("queue",),
    buckets=LONG,
)
RESERVED_TOKENS = Metric(
    "planner_budget_reserved_tokens_total", COUNTER, "Tokens that were set aside for attempts.", ("kind",)
)
SPENT_TOKENS = Metric("planner_budget_spent_tokens_total", COUNTER, "Tokens that were booked.", ("kind",))
COST = Metric("planner_cost_usd_total", COUNTER, "What attempts cost, as controllers say, in US dollars.", ("kind",))
LLM_TOKENS = Metric(
    "planner_llm_tokens_total",
    COUNTER,
    "Tokens of models, as controllers say: input, output or cached.",
    ("direction",),
)

# --- counted by workers: their own work ---
APPLY_SECONDS = Metric(
    "planner_apply_duration_seconds", HISTOGRAM, "Time of a batch of decisions with its two round trips.", buckets=SHORT
)
DECIDE_SECONDS = Metric(
    "planner_decide_duration_seconds", HISTOGRAM, "Time of the decisions of a batch alone.", buckets=SHORT
)
COMMIT_SECONDS = Metric(
    "planner_commit_duration_seconds", HISTOGRAM, "Time for which a batch waited for its commits.", buckets=SHORT
)
COMMITS = Metric(
    "planner_commits_total", COUNTER, "Commits by result: ok, stale, claimed, gone, full or refused.", ("result",)
)
DEAD = Metric("planner_entries_dead_total", COUNTER, "Entries that were put aside, by the code of why.", ("code",))
BREAKERS = Metric(
    "planner_breakers_total",
    COUNTER,
    "Breakers of repositories that tripped or closed, and steps that they let through.",
    ("what",),
)
TAKEN_OVER = Metric("planner_entries_taken_over_total", COUNTER, "Entries that were taken over from dead workers.")
DRAFTER_CALLS = Metric(
    "planner_drafter_calls_total",
    COUNTER,
    "Questions to drafters: answered, failed or stopped.",
    ("drafter", "result"),
)
DRAFTER_SECONDS = Metric(
    "planner_drafter_duration_seconds", HISTOGRAM, "Time that a drafter took.", ("drafter",), buckets=LONG
)
DRAFTER_TOKENS = Metric("planner_drafter_tokens_total", COUNTER, "Tokens that drafters used.", ("drafter",))
CALLBACKS = Metric(
    "planner_callbacks_total",
    COUNTER,
    "Tries of callbacks: delivered, again (another try follows), failed, disabled or dropped.",
    ("result",),
)

# --- counted by gateways ---
WEBHOOKS = Metric(
    "planner_webhooks_total",
    COUNTER,
    "Webhooks by source: accepted, cancelled, the code of why one was ignored, or that of an error.",
    ("source", "result"),
    Teller.GATEWAY,
)
REQUESTS = Metric(
    "planner_http_requests_total",
    COUNTER,
    "Requests by the status of the answer, or gone where the caller hung up first.",
    ("status",),
    Teller.GATEWAY,
)

# --- shared state ---
PLANS_NOW = Metric(
    "planner_plans", GAUGE, "Plans that have not ended, by state and kind.", ("state", "kind"), Teller.STATE
)
PLANS_WAITING = Metric("planner_plans_waiting", GAUGE, "Plans that wait for a person.", (), Teller.STATE)
QUEUE_LENGTH = Metric(
    "planner_queue_length", GAUGE, "Step specs of a queue, those in hand included.", ("queue",), Teller.STATE
)
QUEUE_WAITING = Metric(
    "planner_queue_waiting", GAUGE, "Step specs of a queue that nobody has in hand.", ("queue",), Teller.STATE
)
IN_FLIGHT = Metric(
    "planner_attempts_in_flight",
    GAUGE,
    "Step specs of a queue that a controller has in hand.",
    ("queue",),
    Teller.STATE,
)
QUEUE_AGE = Metric(
    "planner_queue_oldest_age_seconds", GAUGE, "Age of the oldest step spec of a queue.", ("queue",), Teller.STATE
)
QUEUE_READERS = Metric(
    "planner_queue_readers",
    GAUGE,
    "Controllers that asked within the last minute, or have a step in hand.",
    ("queue",),
    Teller.STATE,
)
QUEUE_PAUSED = Metric(
    "planner_queue_paused", GAUGE, "1 where a command keeps a queue from getting steps.", ("queue",), Teller.STATE
)
INBOX_LENGTH = Metric(
    "planner_inbox_length",
    GAUGE,
    "Entries that workers have yet to finish: goals, outcomes, commands or webhooks.",
    ("stream",),
    Teller.STATE,
)
INBOX_AGE = Metric(
    "planner_inbox_oldest_age_seconds", GAUGE, "Age of the oldest of these entries.", ("stream",), Teller.STATE
)
DLQ_LENGTH = Metric(
    "planner_dlq_length", GAUGE, "Dead entries: goals, commands or outcomes.", ("stream",), Teller.STATE
)
SWEEP_LAG = Metric(
    "planner_sweeper_lag_seconds", GAUGE, "For how long the oldest due clock of a plan has waited.", (), Teller.STATE
)
OUTBOX_LENGTH = Metric(
    "planner_outbox_length", GAUGE, "What callbacks are to tell and nobody has taken up.", (), Teller.STATE
)
DAY_BUDGETS_GONE = Metric(
    "planner_day_budgets_exhausted",
    GAUGE,
    "Tenants or repositories whose tokens of the day are used up.",
    ("of",),
    Teller.STATE,
)
MEMORY = Metric(
    "planner_store_memory_ratio", GAUGE, "Part of the server's maxmemory in use; absent without one.", (), Teller.STATE
)
STATE_UP = Metric("planner_state_up", GAUGE, "1 where Redis told all of the above, else 0.", (), Teller.STATE)
BUILD_INFO = Metric(
    "planner_build_info", GAUGE, "Always 1; the labels say what runs.", ("version", "policy_version"), Teller.ALL
)

TABLE = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
