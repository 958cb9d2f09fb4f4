"""The demo of the kind `campaign`: a person answers a question in its page, a fleet does the tasks, nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.demos import played, processes_of
from worker.demo.stories.campaign import STORY


def test_the_story_leaves_the_goals_files_in_its_first_draft_only_and_each_task_keeps_to_its_own() -> None:
    def drafted(previous_failure: str | None) -> list[dict[str, Any]]:
        context = {"previous_failure": previous_failure}
        said = STORY.answer({"controller_task_spec": {"type": "DRAFT"}, "context": context}).report
        tasks: list[dict[str, Any]] = said["output"]["tasks"]
        return tasks

    allowed = set(STORY.data["goal"]["allowed_files"])
    first, second = drafted(None), drafted("it names a file that nobody may touch")
    assert {file for task in first for file in task["delta"]} - allowed == {"shop/settings.py"}
    assert second == STORY.data["tasks"]
    assert {file for task in second for file in task["delta"]} == allowed
    for task in second:
        if task["type"] != "VERIFY":
            done = STORY.answer({"controller_task_spec": {"type": task["type"]}, "input": {"task": task}})
            assert {change.file for change in done.changes} == set(task["delta"])


@pytest.mark.long
@pytest.mark.outages
def test_what_a_person_meant_is_done_side_by_side_and_nothing_is_left(place: Path) -> None:
    demo = played(place, "--kind", "campaign", "--json")

    told = demo.told
    assert (told["kind"], told["tests_passed"], told["completed"]["state"]) == ("campaign", True, "COMPLETED")
    steps = {step["step_id"]: step for step in told["completed"]["steps"]}
    assert list(steps) == ["explore", "draft", *(f"{task['seq']}-{task['slug']}" for task in STORY.data["tasks"])]
    assert steps["draft"]["attempt"] == 2  # the first draft names a file that nobody may touch
    document = told["completed"]["document"]
    assert document["confidence"] == "### Confidence: PROCEED"
    assert document["drafted_by"] == "queue"
    assert {each["status"] for each in document["progress"].values()} == {"complete"}
    assert "003 (spec-rates) ──→ 004 (build-rates) ────┘" in document["graph"]
    for change in ("+    def grams(self) -> int:", "+    return cart.price + shipping(cart.grams)", "+RATES = "):
        assert change in told["diff"]
    changed = {line.removeprefix("+++ b/") for line in told["diff"].splitlines() if line.startswith("+++ ")}
    assert changed == set(STORY.data["goal"]["allowed_files"])
    assert demo.err == ""
    assert not list(processes_of(place))
    assert not list((place / "tmp").iterdir())
    assert not list((place / "somewhere").iterdir())
