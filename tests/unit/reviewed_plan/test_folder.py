"""The files of a reviewed plan in a folder, as the seed has them, and the goal that takes them up again."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas import codec
from schemas.goal import Goal
from tests.support.kinds.reviewed_plan import FAIL, Play, a_goal, begin, drafted, run
from worker.cli.console import Failure
from worker.cli.goal_options import with_folder
from worker.sources import review_folder

FILES = {"allowed_files": ["src/a.py", "src/b.py", "tests/test_a.py", "tests/test_b.py", "README.md"]}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def goal_of(folder: Path) -> Goal:
    of_tests = {
        name: value for name, value in a_goal().model_dump(mode="json").items() if name in FILES | {"context": 0}
    }
    return Goal.model_validate(with_folder(of_tests, folder, None))


def test_the_files_are_those_of_the_seed(tmp_path: Path) -> None:
    play = run(begin(a_goal("plan")), until="plan-design-qr")
    play.end("plan-design-qr", {"items": [FAIL]})

    review_folder.write(play.document, tmp_path / "r")

    assert names(tmp_path / "r") == ["context.json", "plan.json", "qr-plan-design.json"]
    assert codec.loads((tmp_path / "r" / "plan.json").read_bytes()) == play.plan
    assert codec.loads((tmp_path / "r" / "qr-plan-design.json").read_bytes())["items"][0]["status"] == "FAIL"


def test_the_file_of_a_gate_goes_when_it_passes(tmp_path: Path) -> None:
    play = run(begin(a_goal("plan")), until="plan-design-qr")
    play.end("plan-design-qr", {"items": [FAIL]})
    review_folder.write(play.document, tmp_path)

    review_folder.write(run(play).document, tmp_path)

    assert names(tmp_path) == ["context.json", "plan.json", "plan.md"]
    assert (tmp_path / "plan.md").read_text().startswith("# ")


def test_a_frozen_plan_is_taken_up_and_carried_out(tmp_path: Path) -> None:
    planned = run(begin(a_goal("plan")))
    review_folder.write(planned.document, tmp_path)
    goal = goal_of(tmp_path)

    play = run(Play(goal, drafted(goal)))  # type: ignore[arg-type]

    assert (goal.kind, goal.goal) == (
        "reviewed_plan",
        planned.plan["overview"]["title"] or planned.plan["overview"]["problem"],
    )
    assert play.order[0].startswith("impl-")
    assert play.document["report"]["status"] == "COMPLETED"
    assert play.plan == planned.plan


def test_a_plan_that_is_not_frozen_is_planned_further(tmp_path: Path) -> None:
    planned = run(begin(a_goal("plan")), until="plan-code-execute")
    review_folder.write(planned.document, tmp_path)
    goal = goal_of(tmp_path)

    play = Play(goal, drafted(goal))  # type: ignore[arg-type]

    assert list(play.open) == ["plan-design-execute"]
    assert play.plan["milestones"] == planned.plan["milestones"]


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    planned, target = run(begin(a_goal("plan"))), tmp_path / "target"
    target.write_text("mine")
    review_folder.write(planned.document, tmp_path / "r")
    (tmp_path / "r/plan.md").unlink()
    (tmp_path / "r/plan.md").symlink_to(target)
    (tmp_path / "r/qr-mine.json").write_text("mine")

    review_folder.write(planned.document, tmp_path / "r")

    assert target.read_text() == "mine"
    assert not (tmp_path / "r/plan.md").is_symlink()
    assert names(tmp_path / "r") == ["context.json", "plan.json", "plan.md", "qr-mine.json"]


@pytest.mark.parametrize("name", ["plan.json", "context.json", "plan.md", "qr-plan-design.json"])
def test_files_of_no_reviewed_plan_are_written_over_by_force_alone(tmp_path: Path, name: str) -> None:
    document = begin(a_goal("plan")).document
    (tmp_path / name).write_text("{}")

    with pytest.raises(review_folder.WrongFolder, match="--force"):
        review_folder.write(document, tmp_path)
    assert names(tmp_path) == [name]

    review_folder.write(document, tmp_path, force=True)
    review_folder.write(document, tmp_path)
    assert codec.loads((tmp_path / "plan.json").read_bytes()) == document["plan"]


def test_a_link_is_followed_to_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()
    Path("r").symlink_to("elsewhere")

    with pytest.raises(OSError, match="symbolic link"):
        review_folder.write(begin(a_goal("plan")).document, Path("r"), force=True)

    assert names(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "invalid_folder"),
        ({"plan.json": "{"}, "invalid_folder"),
        ({"plan.json": "[]"}, "invalid_folder"),
        ({"plan.json": '{"overview": "text"}'}, "invalid_folder"),
        ({"plan.json": "{}", "context.json": '{"task_spec": {"a": 1}}'}, "invalid_folder"),
    ],
)
def test_a_folder_without_a_plan_is_refused(tmp_path: Path, files: dict[str, str], code: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(Failure) as refused:
        with_folder({}, tmp_path, None)

    assert refused.value.problem.code == code
    with pytest.raises(Failure, match="reviewed"):
        with_folder({}, tmp_path, "task")
