"""What was decided about a plan, in plain words, with the values that it rests on."""

from __future__ import annotations

from schemas import codec
from tasks.features.baseline.red_checks import DROPPED
from tasks.policy.pre_steps import BASELINE, MEND
from tasks.policy.revision import STRATEGIES
from tests.corpus.record import read
from worker.render.decisions import CAME_IN, REVISED, TITLES, decisions_of


def test_every_revision_that_there_is_has_words() -> None:
    assert REVISED.keys() == {*STRATEGIES, BASELINE, MEND, DROPPED, "check_changed", "unfolding"}


def test_every_line_of_every_recorded_plan_is_told_in_words() -> None:
    known = {
        "outcome",
        "backoff over",
        "unclaimed",
        "grants",
        "order",
        "queue paused",
        "queue resumed",
    }  # told elsewhere
    told = {"command", "expired", "handed back", "held", *CAME_IN}
    seen: set[str] = set()
    for recorded in read():
        lines = [codec.loads(line) for each in recorded["outputs"] for line in each.get("log", ())]
        came_in = {said[0] for line in lines for said in line["in"]}
        assert came_in <= known | told, came_in - known - told
        for each in decisions_of(lines, None, None):
            assert each.kind in TITLES
            assert each.text.endswith(".")
            assert not any(part in each.text for part in ("{", "[", "The rule ")), each.text
            assert all(isinstance(value, str) and value for _, value in each.values)
            seen.add(each.kind)
    assert seen >= {"revised", "refused", "command", "lapsed", "released", "held", "clock"}


def test_a_halt_is_told_with_its_rule_value_limit_and_what_would_let_it_go_on() -> None:
    evidence = {"value": 3, "limit": 3, "limit_name": "identical_failures", "step_id": "a", "unblock": "Raise it."}
    halt = {"rule": "identical_failure", "reason": "a failed 3 times", "evidence": evidence}

    (found,) = decisions_of([], halt, "2026-11-24T10:00:00.000Z")

    assert (found.kind, found.text, found.step_id) == ("halted", "A failed 3 times.", "a")
    assert dict(found.values) == {
        "rule": "identical_failure", "value": "3", "limit": "3", "counted": "identical failures",
        "to go on": "Raise it.",
    }  # fmt: skip


def test_a_goal_that_was_rejected_is_told_as_a_sentence() -> None:
    halt = {"rule": "rejected", "reason": "path_traversal", "evidence": {"value": 1, "limit": 0}}

    (found,) = decisions_of([], halt, "2026-11-24T10:00:00.000Z")

    assert (found.kind, found.text) == ("rejected", "The goal was rejected: path_traversal.")
