"""Draft, judge, repair, fall back: how a plan is drafted outside the planner, once for all kinds and all drafters.

There are two ways to ask. The worker asks a drafter of its own before there is a plan (`WorkerCycle`), again and again
up to the attempts. Or a controller answers the step that asks (`draft_step`, the drafter `queue`): then the retries of
that step ask again, and read what was wrong as the failure before (`QueueCycle`). A kind brings the same `judge` to
both, so that an answer is worth the same whoever gave it. Nothing is kept here: what a worker's drafter has said so
far comes with the `Setting`, and what a step needs stands in the strategy state of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from schemas.base import MODE_OF_TYPE, StepState, StepType
from schemas.envelope import FieldError, field_error
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.rules.budget import limits_of
from tasks.rules.risk import estimate
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, End, Expansion, Rejected
from tasks.rules.validation import MAX_RETRIES

NONE, QUEUE = "none", "queue"  # drafters that strategies know by name; all others are asked by the worker
FAILED = "planning_failed"  # the reason where there is no plan since nothing but a draft is wanted
MAX_ATTEMPTS = 1 + MAX_RETRIES  # of a step
CHARACTERS_A_TOKEN = 4

Plan = TypeVar("Plan")  # what an answer of use is read as


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """The operator's settings PLANNER_PLANNING_<NAME> that every kind with a drafter reads."""

    max_attempts: int = 2  # at a draft; at least one is made
    validation_mode: str | None = None  # None: as the kind has it
    fallback: bool = True  # the templates stand in for a draft that is of no use
    schema_in_prompt: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DraftOptions:
        """Read the options of a goal's setting; what is not there has its default."""
        usual = cls()
        return cls(
            max_attempts=max(1, int(options.get("max_attempts", usual.max_attempts))),
            validation_mode=options.get("validation_mode"),
            fallback=options.get("fallback", "template") == "template",
            schema_in_prompt=bool(options.get("schema_in_prompt", usual.schema_in_prompt)),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is of no use, and all that its drafter should mend."""

    errors: tuple[FieldError, ...]

    @property
    def message(self) -> str:
        """All that is wrong, in a line."""
        return "; ".join(f"{error.pointer}: {error.message}" for error in self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCycle(Generic[Plan]):
    """What a kind brings for a drafter that the worker asks."""

    attempts: int
    ask: Consult  # the first question
    judge: Callable[[Any], Plan | Refusal]  # an answer
    silence: Callable[[str], FieldError]  # what is wrong where the call failed, of its error
    repair: Callable[[Drafted, Refusal], Consult | None]  # the next question; None: it is no use to ask again
    accept: Callable[[Plan, Sequence[Drafted]], Answer]  # the last answer's plan, and all that was said
    fall_back: Callable[[Refusal, Sequence[Drafted]], Answer]

    def answer(self, drafted: Sequence[Drafted]) -> Answer:
        """Ask, ask again, take the answer that is of use, or fall back."""
        if not drafted:
            return self.ask
        found = self.read(drafted[-1])
        if not isinstance(found, Refusal):
            return _paid(self.accept(found, drafted), drafted)
        again = self.repair(drafted[-1], found) if len(drafted) < self.attempts else None
        return again or _paid(self.fall_back(found, drafted), drafted)

    def read(self, said: Drafted) -> Plan | Refusal:
        """Judge what was said; a call that failed is refused, too."""
        return self.judge(said.output) if said.error is None else Refusal((self.silence(said.error),))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCycle(Generic[Plan]):
    """What a kind brings for a controller that answers the step which asks."""

    judge: Callable[[Any], Plan | Refusal]
    accept: Callable[[Plan, End], Expansion | None]
    fall_back: Callable[[End, Refusal | None], Expansion | None]  # None: the step has no answer at all

    def refusal(self, output: Any) -> Refusal | None:
        """Return what is wrong with an answer, for the next attempt to mend."""
        found = self.judge(output)
        return found if isinstance(found, Refusal) else None

    def go_on(self, end: End) -> Expansion | None:
        """Take the draft of a step that is DONE; without one of use, fall back."""
        found = self.judge(end.output) if end.state == StepState.DONE else None
        if found is None or isinstance(found, Refusal):
            return self.fall_back(end, found)
        made = self.accept(found, end)
        return replace(made, is_drafted=True) if made else None


def draft_step(
    goal: Goal, step_id: str, *, title: str, intent: str, guidance: str, attempts: int, success: str = "", read: int = 0
) -> PlannedStep:
    """Make the step whose input is a prompt that a controller's agent answers.

    `read` are the characters of that prompt, where the kind's are long enough to count.
    """
    mode = MODE_OF_TYPE[StepType.DRAFT]
    usual = estimate(mode)
    return PlannedStep(
        step_id=step_id,
        title=title,
        intent=intent,
        controller_task_spec=ControllerTaskSpec(type=StepType.DRAFT),
        mode=mode,
        success_criteria=success,
        guidance=guidance,
        retry_limit=min(max(1, attempts), MAX_ATTEMPTS) - 1,
        queue=goal.queue,
        estimate=usual.model_copy(update={"tokens": usual.tokens + read // CHARACTERS_A_TOKEN}),
    )


def attempts_within(goal: Goal, wanted: int) -> int:
    """Return how often a step may ask, of `wanted` attempts.

    With one more, its failures in a row would halt the plan.
    """
    failures = limits_of(goal)["consecutive_failures"] or MAX_ATTEMPTS + 1
    return max(1, min(wanted, MAX_ATTEMPTS, failures - 1))


def failure(why: str) -> FieldError:
    """Return why there is no plan where nothing but a draft is wanted."""
    return field_error("/drafter", "planning_failed", why)


def _paid(answer: Answer, drafted: Sequence[Drafted]) -> Answer:
    """Count the tokens of all that was asked, whether there is a plan or not."""
    tokens = sum(said.tokens for said in drafted)
    return replace(answer, tokens=tokens) if isinstance(answer, Draft | Rejected) else answer
