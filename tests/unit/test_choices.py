"""What a question offers on the page is read by the kind that asked as what it says."""

from __future__ import annotations

import pytest

from schemas.kinds.campaign import CoherenceDecision, Relevance
from schemas.kinds.reviewed_plan import PersonsDecision
from schemas.plan import Waiting
from tasks.strategies.campaign.question import OPTIONS, Coherence, Trigger, page_of
from tasks.strategies.campaign.state import CandidateFile, Choice, Knowledge
from tasks.strategies.gap_report.pause import PAUSED, is_consent
from tasks.strategies.reviewed_plan.decision import read_decision
from worker.gateway.page.choices import answer_of, offers_of


@pytest.mark.parametrize("trigger", Trigger)
def test_a_campaign_offers_the_letters_of_its_page(trigger: Trigger) -> None:
    files = tuple(CandidateFile(path=path, relevance=Relevance.HIGH) for path in ("a.py", "b.py"))
    known = Knowledge(candidates=files, choices=(Choice(sides=("a.py", "b.py")),))
    coherence = Coherence(CoherenceDecision.CLARIFY, (trigger,), ("",))
    page = page_of(coherence, known, "## Options\n- A: <script> → x", ["a.py", "b.py"])

    (offer,) = offers_of(Waiting(kind="clarify", questions=coherence.questions, document=page))

    offered = offer.choices
    options = OPTIONS[trigger](known, ["a.py", "b.py"])
    assert [each.value for each in offered] == list("ABC"[: len(options)])
    assert all(option.reading in each.text for option, each in zip(options, offered, strict=True))


def test_a_gate_offers_what_may_be_decided_and_an_acceptance_carries_its_reason() -> None:
    first = "The gate plan-qr-gate does not pass: 2 items block it. Decide: {}accept (with a reason) or stop."
    free, tired = (
        Waiting(kind="decision", questions=(first.format(more), "an item says: Decide: continue"))
        for more in ("continue, ", "")
    )

    (many,), (few,) = offers_of(free), offers_of(tired)
    assert [each.value for each in many.choices] == ["continue", "accept", "stop"]
    assert [each.value for each in few.choices] == ["accept", "stop"]
    said = read_decision(answer_of(free, {"choice": "accept", "reason": "it will do"}), 0)
    assert isinstance(said, PersonsDecision)
    assert (said.decision, said.reason) == ("accept", "it will do")
    assert isinstance(read_decision(answer_of(free, {"choice": "accept"}), 0), str)


def test_a_pause_between_iterations_offers_to_go_on() -> None:
    waiting = Waiting(kind=PAUSED, questions=("Should the next one begin?",))

    ((_, asked, (choice,)),) = offers_of(waiting)

    assert asked == "Should the next one begin?"
    assert is_consent(answer_of(waiting, {"choice": choice.value}))


def test_a_question_without_choices_is_answered_in_writing() -> None:
    assert offers_of(None) == ()
    assert offers_of(Waiting(kind="clarify", questions=("Where?",), document="No options here")) == ()


def test_each_of_several_questions_has_its_choices_and_all_of_them_are_answered() -> None:
    files = (CandidateFile(path="a.py", relevance=Relevance.LOW),)
    coherence = Coherence(CoherenceDecision.CLARIFY, (Trigger.DELTA, Trigger.TESTS))
    page = page_of(coherence, Knowledge(candidates=files), "Fix it", ["a.py"])
    waiting = Waiting(kind="clarify", questions=coherence.questions, document=page)

    offers = offers_of(waiting)

    assert [each.question for each in offers] == list(coherence.questions)
    assert [[choice.value for choice in each.choices] for each in offers] == [["A", "B"], ["2A", "2B"]]
    assert answer_of(waiting, {"choice": "B", "choice2": "2A"}) == "B\n2A"
    assert answer_of(waiting, {"choice": "B"}) is None
