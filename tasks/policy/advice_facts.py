"""The facts at the end of a plan, and the phrases of advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import RiskLevel
from schemas.base import StepState as S
from schemas.goal import Limits
from schemas.stored import Attempt, PlanRecord
from tasks.base.policy import Policy
from tasks.plan.snapshot import Lease, Step
from tasks.policy.pre_steps import retries_for_mends

MOST_NAMED = 3  # errors, files, attempts or steps in one sentence
AGAIN = "send the goal again under a new goal_id"
OPEN = (S.PENDING.value, S.BLOCKED.value, S.ACTIVE.value)
OVER = (S.DONE.value, S.FAILED.value, S.SKIPPED.value)
# The largest value of each limit in a goal.
MOST = MappingProxyType(
    {
        name: next(each.le for each in field.metadata if hasattr(each, "le"))
        for name, field in Limits.model_fields.items()
    }
)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts at the end of a plan; `steps` are the steps that the decision has read.

    `rested` is how long the plan was stopped, in ms. `held` are the attempts that ended in this decision. `allowed` are
    the goal's files, if the plan has them. `outside` are files outside of its step that an attempt touched. `cause` is
    the cause of a rejection. `stands` is true if the command that ended the plan also ends its successors.
    """

    plan: PlanRecord
    evidence: Mapping[str, Any]
    now: int
    rested: int
    steps: Mapping[str, Step]
    active: Mapping[str, Attempt]
    leases: Mapping[str, Lease]
    held: Mapping[str, Attempt]
    ready: tuple[Step, ...]
    allowed: frozenset[str] | None
    outside: tuple[str, ...]
    stands: bool
    validation_mode: str | None
    cause: str
    policy: Policy

    @property
    def step(self) -> Step | None:
        """The step that fired the rule, if it was read."""
        found = self.steps.get(str(self.evidence.get("step_id", "")))
        return found if found and found.spec is not None else None

    @property
    def failed(self) -> list[list[Any]]:
        """The failures that led to the end, oldest first: step, attempt, category and time."""
        known = self.evidence.get("failed", self.plan.counters.failed)
        return [entry for entry in known if entry[2] in set(C)]

    @property
    def goes_on(self) -> bool:
        """Whether a step would start if the rule had not ended the plan."""
        step = self.step
        others = self.ready or self.active or self.plan.backoffs or self.plan.waits
        if others or step is None or step.status.state == S.DONE:
            return True
        return has_retry(step, category_of(step, self.failed), self.failed, self.policy)


def has_retry(step: Step, category: str, failed: Iterable[list[Any]], policy: Policy) -> bool:
    """Return whether `step` may be tried again after it failed with `category`; see `retries`."""
    return step.status.failures <= retries(step, category, failed, policy)


def retries(step: Step, category: str, failed: Iterable[list[Any]], policy: Policy) -> int:
    """Return how often `step`, which failed with `category`, may be retried.

    Its own limit and its risk bound the retries, and each repair adds one. If the policy bounds the retries after this
    category, only failures of the category among `failed` count for this bound.
    """
    allowed: int = min(step.facts["retry_limit"], policy.attempts[RiskLevel(step.facts["risk_level"])].retries)
    if category in policy.retries:
        alike = sum(entry[0] == step.step_id and entry[2] == category for entry in failed)
        allowed = min(allowed, step.status.failures - alike + policy.retries[category])
    return allowed + retries_for_mends(step.facts)


def retries_of(step: Step, failed: Iterable[list[Any]], policy: Policy) -> dict[str, Any]:
    """Return how often `step` was tried, and how often it could be, for the explanation of a halt."""
    told = list(failed)
    return {
        "step_id": step.step_id,
        "category": category_of(step, told),
        "failures": step.status.failures,
        "retry_limit": step.facts["retry_limit"],
        "most_retries": most_retries_of(step, told, policy),
    }


def category_of(step: Step, failed: Iterable[list[Any]]) -> str:
    """Return the category of the last known failure of `step`; empty if there is none."""
    return str(next((entry[2] for entry in reversed(list(failed)) if entry[0] == step.step_id), ""))


def most_retries_of(step: Step, failed: Iterable[list[Any]], policy: Policy) -> int:
    """Return how often `step` may be retried without regard to its `retry_limit`."""
    return policy.most_retries(step.facts["risk_level"], category_of(step, failed))


def listing(names: Iterable[Any]) -> str:
    """Return the first MOST_NAMED of `names` and the number of the others, as a text."""
    told = [str(name) for name in names]
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return ", ".join(told[:MOST_NAMED]) + more


def raise_limit(facts: Facts, name: str, value: int) -> str:
    """Return the advice to raise the limit `name` to `value`, and to retry if no other step could start.

    Empty if no goal may set `value`, or if no step could start even then.
    """
    if value > MOST[name]:
        return ""
    told = higher_limit(facts, name, value)
    if facts.goes_on:
        return told
    retry = allow_more_retries(facts.step, facts.failed, facts.policy) if facts.step else ""
    return f"{retry}, and {told}" if retry else ""


def higher_limit(facts: Facts, name: str, value: int) -> str:
    """Return the advice to raise a limit to `value`, with the bound of the plan's policy if that is lower."""
    head, told = facts.plan.head, f"raise limits.{name} from {facts.plan.limits[name]} to at least {value}"
    rules = facts.policy.rules_of(head.kind, head.tenant, head.repo)
    most = min((each.most[name] for each in rules if name in each.most), default=value)
    if most >= value:
        return told
    return f"{told} (its policy allows {most} at most: an operator has to apply another one first)"


def sentence(*parts: str) -> str:
    """Join alternatives to one sentence; every alternative would help."""
    told = ", or ".join(filter(None, parts))
    return f"{told[:1].upper()}{told[1:]}."


def allow_more_retries(step: Step, failed: Iterable[list[Any]], policy: Policy) -> str:
    """Return the advice to give a step all retries that its risk allows; empty if it had all."""
    limit, most = step.facts["retry_limit"], most_retries_of(step, failed, policy)
    if limit >= most or step.facts["inserted_by"]:
        return ""
    risk = step.facts["risk_level"]
    return f"supply the steps, and give {step.step_id} a retry_limit of {most} instead of {limit} ({risk} allows it)"
