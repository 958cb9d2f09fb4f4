"""What a plan asks a person before it goes on, and until when."""

from __future__ import annotations

from schemas.times import rfc3339
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt
from tasks.rules.strategy import Question

DRAFT = "draft"  # the kind of a question that a drafter is asked
ANSWER_MS = 7 * 86_400_000  # each wait for a person has its own deadline


def ask(fold: Fold, question: Question) -> None:
    """Put `question` in the place of any before it; what is ready or in flight goes on."""
    until = fold.view.now + ANSWER_MS
    told = {"kind": question.kind, "questions": list(question.questions), "until": until}
    fold.plan.question = {**told, "asked": fold.view.now}
    fold.plan.dirty.add("live")
    fold.grow(page=question.document)
    fold.wake_at(until)
    fold.tell("plan.input_requested", {**told, "until": rfc3339(until)})


def await_draft(fold: Fold, patience_ms: int) -> None:
    """Wait for a drafter, whom the worker asks: no person can answer, an order can still end the plan."""
    until = fold.view.now + patience_ms
    fold.plan.question = {"kind": DRAFT, "questions": [], "asked": fold.view.now, "until": until}
    fold.plan.dirty.add("live")
    fold.wake_at(until)
    fold.tell("plan.drafting", {"until": rfc3339(until)})


def settle(fold: Fold) -> None:
    """Ask nothing any more."""
    fold.plan.question = None
    fold.plan.dirty.add("live")


def look_at_deadline(fold: Fold, grace: int = 0) -> None:
    """End the plan if nobody answered in time; else wake up again for it.

    While nobody swept, up to `grace`, no worker asked a drafter either: another one has yet to take the goal over.
    """
    asked = fold.plan.question
    if asked is None:
        return
    until = asked["until"]
    if grace and asked["kind"] == DRAFT:
        until = max(until, grace + until - asked["asked"])
    if fold.view.now < until:
        fold.wake_at(until)
        return
    fold.inputs.append(["answer over", asked["until"]])
    times = {"asked_at": rfc3339(asked["asked"]), "until": rfc3339(asked["until"])}
    reason = f"nobody answered the question ({asked['kind']}) by {times['until']}"
    halt.halt(fold, "answer_deadline", reason, {"questions": asked["questions"], **times})
