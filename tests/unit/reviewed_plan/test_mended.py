"""What a mend changed in a reviewed plan: noted with its milestone, handed to the review, and covered by it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode
from tasks.rules.strategy import End
from tasks.strategies import reviewed_plan
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.reviewed_plan import FAIL, PASS, Play, a_goal, a_plan, begin, good

MEND = "test-wave-1-mend"


def at_the_test(touched: tuple[str, ...] = ("src/a.py",)) -> Play:
    """A plan whose first wave waits for its test, with one step that touched these files."""
    play = begin(a_goal("execute", plan=a_plan()))
    play.end("impl-m-001", touched_files=touched)
    return play


def mend(play: Play, *files: str, allowed: tuple[str, ...] = ("src/a.py",), state: str = "DONE") -> Any:
    facts = {"step_id": MEND, "inserted_by": "test-wave-1", "mode": Mode.PATCH.value, "allowed_files": list(allowed)}
    found = reviewed_plan.advance(play.live, End(MEND, facts, state, touched_files=files), CATALOGUE)
    play.unfold(found)
    return found


def until_review(play: Play) -> Play:
    while play.row != "impl-code-qr":
        step_id = play.ready()[0]
        play.end(step_id, good(play, step_id))
    return play


def test_what_a_mend_changed_is_noted_and_given_to_the_review() -> None:
    play = at_the_test(touched=())

    found = mend(play, "src/a.py")

    assert found.why == f"{MEND} changed src/a.py"
    assert (play.row, list(play.open)) == ("impl-execute", ["test-wave-1"])  # the wave's gate is still to come
    given = until_review(play).given("impl-code-qr")
    assert given["mended"] == ["src/a.py"]
    assert given["outcomes"]["M-001"] == {
        "outcome": "DONE", "untouched": [], "delegated_to": None, "mended": ["src/a.py"],
    }  # fmt: skip
    assert "mended" not in given["outcomes"]["M-002"]


@pytest.mark.parametrize(
    ("scope", "refused"),
    [("*", False), ("src/a.py", False), ("file:src/a.py:10-12", False), ("src/b.py", True), ("src/a.pyx", True)],
)
def test_a_review_that_leaves_out_what_a_mend_changed_is_refused(scope: str, refused: bool) -> None:
    play = at_the_test()
    mend(play, "src/a.py")
    until_review(play)

    why = play.refusal("impl-code-qr", {"items": [{**PASS, "scope": scope}], "verdict": "PASS"})

    assert why == ("incomplete: no item is about the changes of a repair: src/a.py" if refused else None)


def test_what_was_mended_in_a_later_round_is_reviewed_again() -> None:
    play = at_the_test()
    mend(play, "src/a.py")
    until_review(play).end("impl-code-qr", {"items": [{**FAIL, "scope": "src/a.py"}]})
    play.end("impl-m-001-r2")
    assert play.state["mended"] == []  # the first review has covered it
    mend(play, "src/a.py")
    until_review(play)

    other = {**PASS, "id": "qa-002", "scope": "src/b.py"}
    assert play.refusal("impl-code-qr-r2", {"items": [PASS | {"scope": "src/a.py"}, other]}) is None
    play.end("impl-code-qr-r2", {"items": [PASS | {"scope": "src/a.py"}]})
    assert play.row == "impl-docs-qr" or play.state["mended"] == []


def test_a_review_covers_it_for_those_to_come() -> None:
    play = at_the_test()
    mend(play, "src/a.py")
    until_review(play)
    end = End("impl-code-qr", play.facts("impl-code-qr"), "DONE", {"items": [{**PASS, "scope": "src/a.py"}]})

    found = reviewed_plan.advance(play.live, end, CATALOGUE)

    assert found is not None
    assert found.state["mended"] == []


@pytest.mark.parametrize(
    ("files", "more"),
    [((), {}), (("src/a.py",), {"state": "FAILED"}), (("src/a.py",), {"state": "SKIPPED"}), (("src/z.py",), {})],
)
def test_a_mend_that_changed_nothing_of_the_plan_changes_nothing(files: tuple[str, ...], more: dict[str, Any]) -> None:
    play = at_the_test()

    assert mend(play, *files, **more) is None
    assert until_review(play).given("impl-code-qr").get("mended") is None


def test_a_plan_without_mends_keeps_what_it_kept() -> None:
    play = until_review(at_the_test())

    assert all("mended" not in each for each in play.document["outcomes"].values())
