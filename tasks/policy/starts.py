"""Starts of steps: which may run at the same time, the reservation of an attempt, and the spec for its controller.

Both `schedule.py` and `plain_success.py` start steps by these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

from msgspec import Struct

from schemas import codec
from schemas.step import SENT_OMITTED, UNSENT
from schemas.stored import Attempt
from schemas.stored.step import read_step
from schemas.times import rfc3339
from tasks.base.policy import AttemptRules
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import Snapshot, Step
from tasks.policy.flips import compared_as
from tasks.policy.pipeline import END_FIELDS, START_FIELDS
from tasks.rules import budget
from tasks.rules.risk import RISK
from tasks.rules.side_by_side import are_free, held_by

QUEUED_MS = 3_600_000  # from dispatch: an attempt that no controller ever claims
SILENT_MS = 60_000  # after the claim or the last renewal
LONGEST_SILENT_MS = 900_000  # the same for a controller that asked for more in its claim
JUDGED = 2  # runs at most by tests of the base, or by held-out ones: a failed run is repeated
RUNNING_MARGIN_MS = 900_000  # after the claim, in addition to the timeouts of the verification


class StepCard(Struct, frozen=True, gc=False):
    """The constant facts of a step for starts and successes, computed once and stored with it."""

    facts: dict[str, Any]  # as they are stored
    files: list[str]  # that an attempt holds, and patterns
    tokens: int  # expected of an attempt
    patch_cycles: int
    limits: str  # of its files, behind a comma, where it may change more than its risk allows at once
    lasts: int  # ms from dispatch to the deadline
    sent: bytes  # the spec as far as it is the same for each attempt, without the closing brace
    verification: str  # under which its flips are counted
    ends_idle: bool  # whether it has no field for which a feature has a part in its end
    starts_idle: bool  # the same of its start


Wanted: TypeAlias = tuple[Step, StepCard]


def card_of(step: Step) -> StepCard:
    """Return the constant facts of a step, which are computed once; the step's spec must have been read."""
    found: StepCard | None = step.card
    if found is not None:
        return found
    stored = read_step(step.spec or b"", step.texts)
    estimate, risk, files = stored["estimate"], stored["risk_level"], stored["allowed_files"]
    most = RISK[risk].max_files
    may_change_more = stored.get("allowed_patterns") or len(files) > most
    omitted, is_sent_whole, ends_idle, starts_idle = _shape_of(tuple(stored))
    sent = stored if is_sent_whole else {name: value for name, value in stored.items() if name not in UNSENT}
    card = step.card = StepCard(
        stored,
        held_by(stored),
        estimate["tokens"],
        estimate["patch_cycles"],
        f',"max_files":{most},"max_risk":"{risk}"' if may_change_more else "",
        max(QUEUED_MS, RUNNING_MARGIN_MS + verify_ms(stored)),
        codec.dumps(sent)[:-1] + omitted,
        compared_as(stored),
        ends_idle,
        starts_idle,
    )
    return card


def verify_ms(facts: dict[str, Any]) -> int:
    """Return how long the verification of a step may take, in ms, judgements by the same tools included."""
    by = facts.get("judged_by") or {}
    runs = 1 + JUDGED * (bool(by.get("base")) + bool(by.get("holdout")))
    seconds: int = sum(tool["timeout_s"] for tool in facts["verify_tools"])
    return 1000 * runs * seconds


@lru_cache(maxsize=256)
def _shape_of(stored: tuple[str, ...]) -> tuple[bytes, bool, bool, bool]:
    """Return facts about the names of a step's stored fields; many steps have the same names.

    The first value is JSON, after a comma, with the fields that specs add for controllers. The second one is true if
    all stored fields are sent. The others are true if no feature has a field at the step's end, or at its start.
    """
    omitted = {name: value for name, value in SENT_OMITTED.items() if name not in stored}
    return (
        b"," + codec.dumps(omitted)[1:-1] if omitted else b"",
        UNSENT.isdisjoint(stored),
        END_FIELDS.isdisjoint(stored),
        START_FIELDS.isdisjoint(stored),
    )


def fit(steps: Iterable[Wanted], busy: set[str], room: int) -> Iterator[Wanted]:
    """Yield at most `room` steps that may start at the same time; each start is applied before the next choice.

    A step waits while one of its files is `busy`: an attempt blocks its files and patterns until it ends.
    """
    waiting = iter(steps)
    while room > 0 and (wanted := next(waiting, None)):
        files = wanted[1].files
        if are_free(files, busy):
            yield wanted
            busy.update(files)
            room -= 1


def tokens_of(card: StepCard, rules: AttemptRules) -> int:
    """Return how many tokens an attempt should reserve, if so many are left."""
    return card.tokens if rules.tokens is None else min(card.tokens, rules.tokens)


def begin(
    plan: HotPlan | Snapshot,
    step: Step,
    card: StepCard,
    tokens: int,
    patch_cycles: int,
    now: int,
    until: int | None = None,
) -> Attempt:
    """Begin the next attempt of a step at `now`, with a reservation of so many tokens and patch cycles.

    The deadline is `until`, by default after `StepCard.lasts`. Times in ms.
    """
    record, status = plan.record, step.status
    status.attempt += 1
    budget.reserve(record, tokens, patch_cycles)
    # The token is derived from the plan's secret seed: not guessable, but the same in a replay of the log.
    token = f"{record.head.seed}|{step.step_id}|{status.attempt}".encode()
    attempt = plan.active[step.step_id] = Attempt(
        status.attempt,
        blake2b(token, digest_size=12).hexdigest(),
        card.facts.get("queue", "default"),
        card.files,
        tokens,
        patch_cycles,
        now,
        until or now + card.lasts,
        record.rested(now),
    )
    return attempt


def write_spec(
    plan: HotPlan | Snapshot,
    step_id: str,
    card: StepCard,
    attempt: Attempt,
    rules: AttemptRules,
    context: str,
    end: str,
    given: str = "",
) -> bytes:
    """Return the spec of an attempt as JSON; `context`, `end` (`spec_end`) and `given` are JSON."""
    mutants = f',"mutants":{rules.mutants}' if rules.mutants else ""
    return (
        card.sent
        + (
            f'{given},"plan_id":"{plan.plan_id}","attempt":{attempt.attempt},"context":{context},"limits":'
            f'{{"max_diff_lines":{rules.max_diff_lines},"tokens":{attempt.tokens},"patch_cycles":{attempt.patch_cycles}'
            f"{card.limits}{mutants}}},"
            f'"budget_remaining":{budget.remaining_fraction(plan.record)},"lease":"{attempt.lease}",'
            f'"lease_key":"{plan.lease_prefix}{step_id}","deadline":"{rfc3339(attempt.deadline)}",{end}'
        ).encode()
    )


def spec_end(plan: HotPlan | Snapshot) -> str:
    """Return the last fields of each spec of a plan, as JSON."""
    head = plan.record.head
    trace = {"traceparent": head.traceparent} if head.traceparent else {}
    return codec.dumps({"reply_to": plan.reply_to, **trace})[1:].decode()
