"""The result of a plan: what is made of its receipts, and how it is told in one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from schemas.plan import PlanView
from schemas.result import PlanResult
from worker.render.result import NOT_KEPT, NOT_SENT, result_of
from worker.render.result_text import details_of, draw
from worker.render.time_line import AttemptTimes
from worker.store.attachments import FileFigures, KeptDiff

PLAN = "plan_3c-0199aaaabbbbccccddddeeeeffff0000"
NOW = datetime(2026, 11, 23, 11, tzinfo=UTC)
LINE = {"limit": None, "reserved": 0, "spent": 7}
BUDGET = dict.fromkeys(("tokens", "patch_cycles", "failing_outcomes", "wall_clock_s"), LINE)
FACTS = {"verify_tools": [{"tool": "pytest", "argv": ["pytest", "-q"], "pass_codes": [0]}]}
DIFFS = {
    "d1": KeptDiff((FileFigures("a.py", "changed", 3, 1), FileFigures("b.py", "created", 2, 0)), 90),
    "d2": KeptDiff((FileFigures("a.py", "changed", 1, 1),), 0),
}


def step(step_id: str, **more: Any) -> dict[str, Any]:
    return {
        "step_id": step_id, "state": "DONE", "attempt": 1, "depends_on": (), "allowed_files": ("a.py",), "title": "Fix",
        "verify": "pytest", "risk_level": "LOW", "mode": "patch", "type": "PATCH", "queue": "default", **more,
    }  # fmt: skip


def view(**more: Any) -> PlanView:
    known = {
        "plan_id": PLAN, "goal_id": "ci-1", "tenant": "default", "repo": None, "kind": "task", "goal": "Fix b",
        "state": "COMPLETED", "revision": 0, "paused": False, "waiting": None, "halt": None, "budget": BUDGET,
        "counts": {"DONE": 2, "PENDING": 1}, "created_at": "2026-11-23T10:00:00Z",
        "ended_at": "2026-11-23T10:03:10Z", "steps": (step("fix"), step("more")), **more,
    }  # fmt: skip
    return PlanView.model_validate(known)


def attempt(step_id: str, number: int = 1, result: str = "DONE", **told: Any) -> AttemptTimes:
    said = {"step_id": step_id, "success": result == "DONE", **told}
    return AttemptTimes(step_id, number, "ctl", 0, 0, 0, 9, result, "", said)


def receipts(code: int) -> list[dict[str, Any]]:
    return [{"tool": "pytest", "exit_code": code, "tests": {"passed": 12, "skipped": 1}}]


def made(plan: PlanView, *attempts: AttemptTimes) -> PlanResult:
    return result_of(plan, attempts, {"fix": FACTS, "more": FACTS}, DIFFS, NOW)


def landed() -> list[AttemptTimes]:
    return [
        attempt("fix", 1, "RETRIED", touched_files=["c.py"], diff_hash="d0"),
        attempt(
            "fix",
            2,
            touched_files=["a.py", "b.py"],
            created_files=["b.py"],
            diff_hash="sha256:d1",
            commit="c1",
            ref=f"refs/heads/planner/{PLAN}",
        ),
        attempt("more", touched_files=["a.py"], diff_hash="d2", verify=receipts(0)),
    ]


def test_what_landed_is_told_by_file_and_by_step() -> None:
    result = made(view(), *landed())

    files = [(each.path, each.kind, each.added, each.removed) for each in result.files]
    assert files == [("a.py", "changed", 4, 2), ("b.py", "created", 2, 0)]
    assert [(each.step_id, each.attempt, each.added, each.removed) for each in result.steps] == [
        ("fix", 2, 5, 1),
        ("more", 1, 1, 1),
    ]
    assert [(each.diff_bytes, each.no_diff) for each in result.steps] == [(90, ""), (None, NOT_KEPT)]
    assert (result.spent.attempts, result.spent.failed_attempts, result.spent.seconds) == (3, 1, 190)
    assert result.take == f"git merge planner/{PLAN}"


def test_without_a_diff_the_lines_of_a_file_are_not_known() -> None:
    result = made(view(), attempt("fix", touched_files=["a.py"], diff_hash="unknown"))

    assert (result.files[0].added, result.added, result.steps[0].no_diff) == (None, None, NOT_SENT)
    assert result.sentence == "Changed 1 file."


def test_a_test_that_was_red_at_the_base_and_is_green_now_proves_the_change() -> None:
    before = attempt("reproduce", verified_at="9f1c2d4", verify=receipts(1))

    result = made(view(), before, *landed())

    (verified,) = result.verified_by
    assert (verified.before, verified.now, verified.command, verified.passed) == ("red", "green", "pytest -q", 12)
    assert result.sentence == "Changed 2 files (+6 -2 lines); pytest failed before and passes now."
    assert "verified by pytest -q: red before, green now (12 passed, 1 skipped)" in details_of(result)


def test_the_command_that_takes_the_change_is_one_line_however_narrow_the_terminal_is() -> None:
    result = made(view(), *landed()).model_copy(update={"take": f"git merge planner/{PLAN}", "take_in": "the clone"})
    narrow = Console(width=30)

    with narrow.capture() as printed:
        narrow.print(draw(result), crop=False)

    assert f"    git merge planner/{PLAN}" in printed.get().splitlines()


def test_an_attempt_whose_change_did_not_land_is_no_part_of_the_result() -> None:
    result = made(view(), attempt("fix", 1, "FAILED", touched_files=["a.py"], diff_hash="d1"))

    assert (result.files, result.steps, result.take) == ((), (), "")
    assert result.sentence == "Changed no file."


def test_what_a_step_answered_is_part_of_the_result() -> None:
    looks = view(steps=(step("fix", mode="read_only", type="READ"),))

    result = made(looks, attempt("fix", output="x" * 5000))

    assert (result.answers[0].step_id, len(result.answers[0].text), result.answers[0].is_cut) == ("fix", 4000, True)
    assert result.sentence == "1 step answered."


def test_the_sentence_of_a_plan_that_lives_says_what_it_waits_for() -> None:
    live = {"state": "EXECUTING", "ended_at": None}
    waiting = {"kind": "approval", "questions": ("May step fix start?",)}

    assert made(view(**live)).sentence == "2 of 3 steps are done."
    assert made(view(**live, waiting=waiting), *landed()).sentence == (
        "It waits for a person: an approval; so far it changed 2 files (+6 -2 lines)."
    )


def test_what_was_delivered_is_taken_from_where_it_was_pushed() -> None:
    result = made(view(branch="planner/a b"), *landed())

    assert result.take == "git fetch origin 'planner/a b' && git merge FETCH_HEAD"


@pytest.mark.parametrize(
    ("ref", "take"),
    [
        (f"refs/planner/{PLAN}", f"git fetch origin refs/planner/{PLAN} && git merge FETCH_HEAD"),
        (f"refs/heads/planner/{PLAN}", f"git merge planner/{PLAN}"),
        (f"refs/planner/{PLAN}; rm -rf .", ""),
        (None, ""),
    ],
)
def test_only_a_ref_of_the_plan_itself_is_part_of_a_command(ref: str | None, take: str) -> None:
    result = made(view(), attempt("fix", touched_files=["a.py"], commit="c1", ref=ref))

    assert result.take == take


def test_nothing_that_verified_the_change_is_said() -> None:
    result = made(view(unverified="No step runs tests."), attempt("fix", touched_files=["a.py"]))

    assert result.sentence == "Changed 1 file; nothing verified it."


def test_integrity_findings_are_told_by_place() -> None:
    place = {"step_id": "fix", "action": "tell", "kind": "skip", "path": "a.py", "line": 3, "what": "skip"}
    looked = attempt("fix", touched_files=["a.py"], integrity={"counts": {}, "places": []})

    found, clean = made(view(integrity=[place]), looked), made(view(), looked)

    assert "integrity: fix (tell): skip at a.py:3: skip" in details_of(found)
    assert "integrity: 1 change checked, nothing found" in details_of(clean)
