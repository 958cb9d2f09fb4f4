"""The cycle of a draft from outside of the planner: draft, judge, repair, fall back; for all kinds and all drafters.

There are two ways to get a draft. The worker asks its own drafter before the plan exists (`WorkerCycle`), again after
each unusable answer, up to the permitted attempts. If the drafter is `queue`, a step of the plan asks a controller
(`draft_step`). The retries of that step ask again, with the faults as the previous failure (`QueueCycle`). A kind uses
the same `judge` in both cycles. Nothing is stored here. The `Setting` contains the answers of the worker's drafter so
far. The strategy state of a kind contains the data for the step that asks.
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

NONE, QUEUE = "none", "queue"  # drafters that strategies know by name; the worker asks all others
FAILED = "planning_failed"  # the reason if there is no plan because only a draft is accepted
MAX_ATTEMPTS = 1 + MAX_RETRIES  # of a step
CHARACTERS_A_TOKEN = 4

Plan = TypeVar("Plan")  # the parsed form of a usable answer


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """The operator's settings PLANNER_PLANNING_<NAME> that every kind with a drafter reads."""

    max_attempts: int = 2  # at a draft; at least one is made
    validation_mode: str | None = None  # None: the default of the kind
    fallback: bool = True  # the templates replace an unusable draft
    schema_in_prompt: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DraftOptions:
        """Read the options of a goal's setting; missing ones have their default."""
        usual = cls()
        return cls(
            max_attempts=max(1, int(options.get("max_attempts", usual.max_attempts))),
            validation_mode=options.get("validation_mode"),
            fallback=options.get("fallback", "template") == "template",
            schema_in_prompt=bool(options.get("schema_in_prompt", usual.schema_in_prompt)),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An unusable answer, with all faults that its drafter should repair."""

    errors: tuple[FieldError, ...]

    @property
    def message(self) -> str:
        """All faults in one line."""
        return "; ".join(f"{error.pointer}: {error.message}" for error in self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCycle(Generic[Plan]):
    """The functions of a kind that handle the answers of the worker's own drafter."""

    attempts: int
    ask: Consult  # the first question
    judge: Callable[[Any], Plan | Refusal]  # an answer
    silence: Callable[[str], FieldError]  # the fault of a failed call, by its error
    repair: Callable[[Drafted, Refusal], Consult | None]  # the next question; None: asking again does not help
    accept: Callable[[Plan, Sequence[Drafted]], Answer]  # the last answer's plan, and all answers
    fall_back: Callable[[Refusal, Sequence[Drafted]], Answer]

    def answer(self, drafted: Sequence[Drafted]) -> Answer:
        """Return the first question, the next question, the plan of the last usable answer, or the fallback."""
        if not drafted:
            return self.ask
        found = self.read(drafted[-1])
        if not isinstance(found, Refusal):
            return _paid(self.accept(found, drafted), drafted)
        again = self.repair(drafted[-1], found) if len(drafted) < self.attempts else None
        return again or _paid(self.fall_back(found, drafted), drafted)

    def read(self, said: Drafted) -> Plan | Refusal:
        """Return the plan in an answer, or a refusal; a failed call of the drafter counts as a refusal."""
        return self.judge(said.output) if said.error is None else Refusal((self.silence(said.error),))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCycle(Generic[Plan]):
    """The functions of a kind that handle a controller's answer to the step which asks for a draft."""

    judge: Callable[[Any], Plan | Refusal]
    accept: Callable[[Plan, End], Expansion | None]
    fall_back: Callable[[End, Refusal | None], Expansion | None]  # None: the step has no answer

    def refusal(self, output: Any) -> Refusal | None:
        """Return the faults of an answer, for the next attempt to repair; None if there are none."""
        found = self.judge(output)
        return found if isinstance(found, Refusal) else None

    def go_on(self, end: End) -> Expansion | None:
        """Continue the plan with the draft of a step that is DONE; fall back if the draft or the step is not usable."""
        found = self.judge(end.output) if end.state == StepState.DONE else None
        if found is None or isinstance(found, Refusal):
            return self.fall_back(end, found)
        made = self.accept(found, end)
        return replace(made, is_drafted=True) if made else None


def draft_step(
    goal: Goal, step_id: str, *, title: str, intent: str, guidance: str, attempts: int, success: str = "", read: int = 0
) -> PlannedStep:
    """Return the step whose input is a prompt that a controller's agent answers with a draft.

    `read` is the number of characters in the prompt; it raises the estimated tokens of the step.
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
    """Return how many attempts a step that asks may have: at most `wanted`, and at least one.

    The result is so small that these failures in a row do not halt the plan.
    """
    failures = limits_of(goal)["consecutive_failures"] or MAX_ATTEMPTS + 1
    return max(1, min(wanted, MAX_ATTEMPTS, failures - 1))


def failure(why: str) -> FieldError:
    """Return the error of a goal that has no plan, because it accepts only a draft and got none."""
    return field_error("/drafter", "planning_failed", why)


def _paid(answer: Answer, drafted: Sequence[Drafted]) -> Answer:
    """Add the tokens of all calls of the drafter to a draft or a rejection; other answers stay unchanged."""
    tokens = sum(said.tokens for said in drafted)
    return replace(answer, tokens=tokens) if isinstance(answer, Draft | Rejected) else answer
