"""Acts that several stories have in common."""

from __future__ import annotations

from pathlib import Path

from worker.demo import repository
from worker.demo.stage import DemoFailed, Stage


def check_branch(stage: Stage, root: Path, base: str, branch: str) -> None:
    """Play the last act: the plan's branch has changes, and its tests pass; raises DemoFailed otherwise."""
    with stage.act("pytest on the plan's branch") as act:
        stage.scene.diff = repository.diff(root, base, branch)
        checkout = stage.home("checkout")
        repository.check_out(root, branch, checkout)
        ran = repository.run_tests(checkout, stage.home("report-after.xml"))
        stage.scene.tests_passed = ran.passed
        if not (ran.passed and stage.scene.diff):
            raise DemoFailed(f"On the plan's branch {ran.failed} of {ran.tests} tests fail.")
        act.result = f"all {ran.tests} tests pass"
