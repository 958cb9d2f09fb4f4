"""`planner submit --dry-run` tells what the planner then makes of the same goal, and needs no server for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.planner import RISKY, STEPS, Planner
from worker.cli.commands.app import app
from worker.controller.holdout import digest_of
from worker.host.embedded_server import free_port
from worker.store import keys

Submit = Callable[..., Result]
TASK = {
    "goal": "Fix the login test",
    "allowed_files": ["src/a.py", "tests/test_a.py"],
    "context": {"language": "python"},
}
GAP = {
    "description": "Quality check failed: ruff",
    "category": "quality",
    "priority": "urgent",
    "evidence": "src/a.py:1:1: F401",
}
GAPS = {"gap_report": {"gaps": [GAP], "most_critical": GAP}, "project": {"files": ["src/a.py"]}}
COMPARED = ("step_id", "title", "depends_on", "allowed_files", "verify", "risk_level", "mode", "type", "queue")


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submit:
    """Run `planner submit --dry-run` where no server is."""
    monkeypatch.setenv("PLANNER_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.chdir(tmp_path)
    return lambda *words, stdin=None: CliRunner().invoke(app, ["submit", "--dry-run", *words], input=stdin)


@pytest.mark.parametrize(
    "goal",
    [
        TASK,
        {**TASK, "queue": "gpu", "constraints": ["keep the API"]},
        {"goal": "Fix b", "allowed_files": ["b.py"], "steps": STEPS},
        {"goal": "Fix b", "allowed_files": ["b.py"], "steps": RISKY, "approvals": ["HIGH"]},
        {**TASK, "drafter": "queue"},
        {**TASK, "kind": "gap_report", "gap_report": GAPS},
        {**TASK, "kind": "campaign", "campaign": {"objective": "Add a cache to src/a.py"}},
        {**TASK, "allowed_files": ["../a.py"]},
        {**TASK, "drafter": "http"},
        {**TASK, "kind": "gap_report", "gap_report": {"gap_report": {"gaps": []}}},
    ],
    ids=["template", "queue", "supplied", "risky", "drafted", "gaps", "campaign", "rejected", "disabled", "nothing"],
)
def test_the_planner_makes_what_was_told(submit: Submit, redis: Redis, redis_url: str, goal: dict[str, Any]) -> None:
    planner = Planner(redis_url)

    ended = submit("-", "--json", stdin=codec.dumps(goal))

    told = codec.loads(ended.stdout)
    assert told["goal"] == goal
    assert not redis.xlen(keys.GOALS)
    plan_id = planner.submit(**{"steps": None, **goal, "goal_id": "one"})
    record = {name.decode(): value.decode() for name, value in redis.hgetall(keys.goal_id("one")).items()}  # type: ignore[union-attr]
    assert (told["verdict"], told["reason"]) == (record["verdict"], record["reason"])
    assert ended.exit_code == (record["verdict"] == "REJECTED")
    if record["verdict"] == "NOTHING_TO_DO":
        return
    made = planner.view(plan_id).model_dump(mode="json")
    assert [[step[name] for name in COMPARED] for step in told["steps"]] == [
        [step[name] for name in COMPARED] for step in made["steps"]
    ]
    assert told["errors"] == (made["halt"] or {"evidence": {"errors": []}})["evidence"]["errors"]
    assert told["graph"].count("-->") == sum(len(step["depends_on"]) for step in told["steps"])


@pytest.mark.parametrize(("commit", "said"), [("1" * 40, ("PLANNED", "")), (None, ("REJECTED", "nothing_landed"))])
def test_a_goal_that_goes_on_from_a_plan_is_planned_at_what_landed_there(
    submit: Submit,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    commit: str | None,
    said: tuple[str, str],
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    planner = Planner(redis_url)
    plan_id = planner.submit(steps=STEPS[:2], tenant="acme", goal_id="first")
    planner.report("look", plan_id)
    planner.report("fix-b", plan_id, touched_files=["b.py"], commit=commit)

    ended = submit("-", "--json", "--no-fill", stdin=codec.dumps({**TASK, "from": {"plan_id": plan_id}}))

    told = codec.loads(ended.stdout)
    assert (told["verdict"], told["reason"]) == said


def test_a_person_reads_the_plan_and_what_cannot_be_known(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    told = submit(
        "-g", "Fix it", "-f", "src/a.py", "--language", "python", "--approvals", "HIGH", "--limit", "tokens=500000"
    )
    assert told.exit_code == 0
    for words in ("PLANNED", "PATCH    MED   default", "$ python -m py_compile src/a.py", "```mermaid\nflowchart TD"):
        assert words in told.stdout

    campaign = submit("-g", "Add a cache", "-f", "src/a.py", "--kind", "campaign", "--repo", "acme/shop")
    assert "What earlier plans of this kind and repository came to is not known here" in campaign.stdout

    monkeypatch.setenv("PLANNER_DRAFTERS", "cli")
    monkeypatch.setenv("PLANNER_CLI_COMMAND", "touch asked")
    drafted = submit("-g", "Fix it", "-f", "src/a.py", "--language", "python", "--drafter", "cli")
    assert (drafted.exit_code, drafted.stdout.splitlines()[0]) == (0, "UNKNOWN")
    assert "A drafter proposes the steps of this plan, and it is not asked here." in drafted.stdout
    assert not Path("asked").exists()

    rejected = submit("-g", "Fix it", "-f", "/etc/passwd")
    assert (rejected.exit_code, "/allowed_files/0" in rejected.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--limit", "toks=4"], "NAME being one of tokens, patch_cycles, "),
        (["--limit", "tokens=many"], "say NAME=NUMBER"),
        (["--limit", "tokens=4"], "/limits/tokens  Input should be greater than or equal to 1000"),
        (["--approvals", "EXTREME"], "EXTREME"),
    ],
)
def test_limits_and_approvals_are_those_of_the_schema(submit: Submit, words: list[str], says: str) -> None:
    told = submit("-g", "Fix it", "-f", "src/a.py", *words)

    assert told.exit_code == 2
    assert says in told.stderr


def test_a_tools_file_that_is_wrong_is_told(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_TOOLS_FILE", "nowhere.toml")

    assert submit("-g", "Fix it", "-f", "src/a.py").exit_code == 2


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        ((), "set them to the files that may change. The gap is about tests/test_a.py; where tests fail, allow the"),
        (("-f", "docs/b.md"), "The gap is about tests/test_a.py, and allowed_files has none of these: add them."),
    ],
)
def test_a_gap_report_without_the_files_that_may_change_says_which_and_how_they_are_named(
    submit: Submit, tmp_path: Path, allowed: tuple[str, ...], says: str
) -> None:
    case = '<testcase classname="tests.test_a" name="test_it"><failure message="x">tests/test_a.py:3: x</failure>'
    (tmp_path / "report.xml").write_text(f'<testsuite name="pytest">{case}</testcase></testsuite>')

    ended = submit("--from-junit", "report.xml", "--kind", "gap_report", *allowed)

    said = " ".join(ended.stdout.split())
    assert ended.exit_code == 1
    assert says in said
    assert "by --file (-f), repeatable" in said


def test_tests_that_are_held_out_are_named_by_their_digest_whether_that_or_their_place_is_given(
    submit: Submit, tmp_path: Path
) -> None:
    (tmp_path / "held").mkdir()
    (tmp_path / "held/test_unseen.py").write_text("def test_it():\n    pass\n")
    digest = digest_of(tmp_path / "held")
    said = ("--goal", "Fix the login test", "--file", "src/a.py", "--test-command", "pytest -q", "--no-fill", "--json")

    by_place, by_digest = (submit(*said, "--holdout", given) for given in ("held", digest))
    nowhere = submit(*said, "--holdout", "nowhere")

    assert {codec.loads(each.stdout)["goal"]["holdout"] for each in (by_place, by_digest)} == {digest}
    assert (nowhere.exit_code, "nowhere" in nowhere.output) == (2, True)
