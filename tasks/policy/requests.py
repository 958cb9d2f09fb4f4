"""What a plan asks a person before it goes on, and until when."""

from __future__ import annotations

from schemas.times import rfc3339
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt
from tasks.rules.strategy import Question

DRAFT = "draft"  # the kind of a question that a drafter is asked
ANSWER_MS = 7 * 86_400_000  # each wait for a person has its own deadline


def ask(unit: UnitOfWork, question: Question) -> None:
    """Put `question` in the place of any before it; what is ready or in flight goes on."""
    until = unit.snapshot.now + ANSWER_MS
    told = {"kind": question.kind, "questions": list(question.questions), "until": until}
    unit.plan.question = {**told, "asked": unit.snapshot.now}
    unit.plan.dirty.add("live")
    unit.grow(page=question.document)
    unit.wake_at(until)
    unit.emit("plan.input_requested", {**told, "until": rfc3339(until)})


def await_draft(unit: UnitOfWork, patience_ms: int) -> None:
    """Wait for a drafter, whom the worker asks: no person can answer, an order can still end the plan."""
    until = unit.snapshot.now + patience_ms
    unit.plan.question = {"kind": DRAFT, "questions": [], "asked": unit.snapshot.now, "until": until}
    unit.plan.dirty.add("live")
    unit.wake_at(until)
    unit.emit("plan.drafting", {"until": rfc3339(until)})


def settle(unit: UnitOfWork) -> None:
    """Ask nothing any more."""
    unit.plan.question = None
    unit.plan.dirty.add("live")


def look_at_deadline(unit: UnitOfWork, grace: int = 0) -> None:
    """End the plan if nobody answered in time; else wake up again for it.

    While nobody swept, up to `grace`, no worker asked a drafter either: another one has yet to take the goal over.
    """
    asked = unit.plan.question
    if asked is None:
        return
    until = asked["until"]
    if grace and asked["kind"] == DRAFT:
        until = max(until, grace + until - asked["asked"])
    if unit.snapshot.now < until:
        unit.wake_at(until)
        return
    unit.inputs.append(["answer over", asked["until"]])
    times = {"asked_at": rfc3339(asked["asked"]), "until": rfc3339(asked["until"])}
    reason = f"nobody answered the question ({asked['kind']}) by {times['until']}"
    halt.halt(unit, "answer_deadline", reason, {"questions": asked["questions"], **times})
