"""A `task`: a bug in a real repository, from failing to passing tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from worker.demo.story import Answer, Spec, Story, apply_changes

if TYPE_CHECKING:
    from worker.demo.session import Session

SOURCE = "billing/renewals.py"
OUTSIDE = "../deploy/.env"  # what no goal may ask for


def answer(spec: Spec) -> Answer:
    """Return an obvious but wrong change at first, as an LLM may, and the right one after a failed verification."""
    source = Path(SOURCE).read_text()
    if spec["mode"] == "patch":
        changes = STORY.edits["fix" if spec["context"]["previous_failure"] else "guess"]
        written = apply_changes({SOURCE: source}, changes)[SOURCE]
        return Answer(changes, {"patch_cycles": 1}, len(source) + len(written))
    failing = len(spec["context"]["failing_tests"])
    explores = spec["controller_task_spec"]["type"] == "EXPLORE"
    cause = f"{failing} tests fail: date.replace keeps day 31, also in February"
    return Answer(report={"output": STORY.data["explored"] if explores else cause}, characters=2 * len(source))


def play(session: Session) -> None:
    """Play the story; its goal is made as by `planner submit --from-junit`, and a person names the allowed files."""
    from worker.sources import goal, junit  # here, so that the agent starts without them

    session.make_repository("A git repository with a bug", f"{SOURCE}, commit {{commit}}")
    session.start_fleet("with a scripted agent that guesses first")
    report = session.place("report.xml")
    session.run_failing_tests(report)
    found = goal.with_report({}, junit.read(report.read_bytes()))
    body = goal.with_options(found, {"allowed_files": [SOURCE], **session.context()})
    session.submit("A goal from the JUnit report", body)
    session.submit_rejected(f"The same goal, with {OUTSIDE}", {**body, "allowed_files": [SOURCE, OUTSIDE]})
    session.follow()
    session.check_branch()


STORY = Story("task", play, answer)
