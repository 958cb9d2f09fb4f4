"""Evolution goals through the real queue: drafted by a controller's agent or by the worker's own, to their end.

And where they come from: cards out of a git log, as the demo sends them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from schemas.base import unknown_fields
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA, ChunkSummary, CommitCard, Evolution
from tasks.strategies.evolution.trajectory import History, TrajectoryOptions, rollup
from tests.conftest import connect, running_worker
from tests.support import planning_backend
from tests.support.demos import played, processes_of
from tests.support.kinds.evolution import a_plan, a_step
from tests.support.planning_backend import BAD, GOOD
from tests.support.scripted import Fleet, Spec
from tests.support.scripts.evolution import BASE, a_goal, answering
from worker.cli.commands.app import app
from worker.demo import repository as git_repository
from worker.demo.story import Commit
from worker.host.git import GitError
from worker.sources.commit_cards import blocks, commit_cards, commit_context

ROOT = Path(__file__).parents[2]
MANY = [f"src/m{number}.py" for number in range(12)]


@pytest.fixture(scope="module")
def redis(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A client of the server of one worker, which may ask an agent of its own in two ways."""
    program = [sys.executable, planning_backend.__file__]
    variables = {
        "PYTHONPATH": str(ROOT),
        "PLANNER_DRAFTERS": "queue,backend,cli",
        "PLANNER_PLANNING_BACKEND": "tests.support.planning_backend:Backend",
        "PLANNER_CLI_COMMAND": json.dumps(program),
        "PLANNER_CLI_ENV": json.dumps({"PYTHONPATH": str(ROOT)}),
        "PLANNER_CLI_PATHS": str(ROOT),
        "PLANNER_DATA_DIR": str(tmp_path_factory.mktemp("data")),  # not in ROOT, which the agent could not list then
        "PLANNER_PLANNING_TRAJECTORY_MAX_RAW_STEPS": "0",
    }
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    with running_worker(server_url, log, **variables) as worker:
        yield worker.redis


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., str]:
    """Run a command against the session's server; returns what it prints."""
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, list(words)).stdout


@pytest.mark.parametrize(
    ("mode", "bad", "good", "steps"),
    [
        ("strict", BAD, GOOD, ["cache", "use"]),
        ("strict", "Here you are: {", f"```json\n{json.dumps(GOOD)}\n```", ["cache", "use"]),
        ("lenient", " ", {**GOOD, "mood": "good"}, ["cache", "use"]),
        ("lenient", {}, "Inline the loop.", ["lenient-1"]),
        ("none", None, "Inline the loop.", ["free-1"]),
    ],
)
def test_a_plan_is_drafted_at_the_second_attempt_and_completed(
    redis: Redis, planner: Callable[..., str], mode: str, bad: Any, good: Any, steps: list[str]
) -> None:
    fleet = Fleet(redis)
    _, plan_id = fleet.submit(a_goal(mode))

    fleet.work(plan_id, answering(bad, good))

    told = codec.loads(planner("show", plan_id, "--json"))
    document = told["document"]
    assert (told["state"], told["budget"]["failing_outcomes"]["spent"]) == ("COMPLETED", 1)
    assert [step["step_id"] for step in told["steps"]] == ["draft-plan", *steps]
    assert [step["attempt"] for step in told["steps"]] == [2, *(1 for _ in steps)]
    assert (document["attempts"], document["drafter"], document["validation_mode"]) == (2, "queue", mode)
    assert [step["step_id"] for step in document["plan"]["steps"]] == steps
    assert document["duration_seconds"] > 0
    shown = planner("show", plan_id, "--drafting")
    assert all(part in shown for part in ("drafter: queue", "attempts: 2", "--- prompt", "--- raw output"))
    assert document["prompt"].splitlines()[0] in shown
    assert document["trajectories"][0]["unique_steps_count"] == 2
    first, again = fleet.specs[:2]
    assert first["input"] == again["input"]
    assert first["input"]["schema"] == (None if mode == "none" else PLANNING_OUTPUT_SCHEMA)
    assert again["context"]["previous_failure"]["category"] == "OUTPUT_REFUSED"
    assert "Omitted 2 older unique step(s)." in first["input"]["prompt"]  # since the operator wants none told
    assert {spec["context"]["base_sha"] for spec in fleet.specs} == {BASE}
    explained = codec.loads(planner("explain", plan_id, "--json"))
    assert "OUTPUT_REFUSED" in str(explained)


def test_what_was_wrong_with_a_draft_is_told_to_the_next_attempt(redis: Redis) -> None:
    fleet = Fleet(redis)
    _, plan_id = fleet.submit(a_goal("strict"))

    fleet.work(plan_id, answering(BAD, GOOD))

    suggestion = fleet.specs[1]["context"]["previous_failure"]["suggestion"]
    assert suggestion == "/steps/0/title: String should have at least 1 character"


@pytest.mark.parametrize("mode", ["strict", "lenient", "none"])
def test_a_plan_without_a_draft_halts_and_explains_itself(redis: Redis, planner: Callable[..., str], mode: str) -> None:
    fleet = Fleet(redis)
    _, plan_id = fleet.submit(a_goal(mode))

    view = fleet.work(plan_id, answering("", BAD if mode == "strict" else "\n"))

    assert (view.state, [step.state for step in view.steps]) == ("HALTED", ["FAILED"])
    assert view.halt
    assert (view.halt.rule, view.halt.reason) == (
        "planning_failed",
        "could not produce a valid plan after 2 attempt(s)",
    )
    explained = planner("explain", plan_id)
    assert "could not produce a valid plan after 2 attempt(s)" in explained
    assert view.halt.evidence["last_error"]["category"] == "OUTPUT_REFUSED"


def test_files_that_no_step_names_are_found_first(redis: Redis) -> None:
    fleet = Fleet(redis)
    _, plan_id = fleet.submit(a_goal("strict", files=MANY))

    plan = a_plan(a_step("one", files=[]), a_step("two", files=MANY[5:7]))
    found = {"output": {"files": {"one": MANY[:2]}}}
    view = fleet.work(plan_id, answering(plan, EXPLORE=found))

    assert view.state == "COMPLETED"
    assert [(step.step_id, step.allowed_files) for step in view.steps] == [
        ("draft-plan", ()),
        ("find-files", ()),
        ("one", tuple(MANY[:2])),
        ("two", tuple(MANY[5:7])),
    ]


def test_where_every_step_failed_the_fallback_plan_is_carried_out(redis: Redis) -> None:
    fleet = Fleet(redis)
    _, plan_id = fleet.submit(a_goal("strict"))

    def says(spec: Spec) -> Mapping[str, Any]:
        return {"success": False} if spec["step_id"] == "cache" else answering(GOOD)(spec)

    view = fleet.work(plan_id, says)

    assert {step.step_id: step.state for step in view.steps} == {
        "draft-plan": "DONE",
        "cache": "FAILED",
        "use": "SKIPPED",
        "fall-back": "DONE",
    }
    assert view.state == "COMPLETED"
    assert "memoise" in fleet.specs[-1]["intent"]


@pytest.mark.parametrize("drafter", ["backend", "cli"])
def test_the_workers_own_drafter_mends_its_plan_before_there_are_steps(
    redis: Redis, planner: Callable[..., str], drafter: str
) -> None:
    fleet = Fleet(redis)
    verdict, plan_id = fleet.submit(a_goal("strict", drafter=drafter))

    fleet.work(plan_id, answering())

    told = codec.loads(planner("show", plan_id, "--json"))
    assert (verdict, told["state"]) == ("PLANNED", "COMPLETED")
    assert [(step["step_id"], step["depends_on"]) for step in told["steps"]] == [("cache", []), ("use", ["cache"])]
    assert (told["document"]["drafter"], told["document"]["attempts"]) == (drafter, 2)
    assert "Attempt 1 was refused: /steps/0/title" in told["document"]["notes"][0]
    assert told["budget"]["tokens"]["spent"] > 1000 + 100 * len(fleet.specs)  # what drafting took, and the steps
    assert fleet.specs[0]["context"]["base_sha"] == BASE


@pytest.mark.parametrize(
    ("goal", "reason", "codes"),
    [
        (
            {"drafter": "backend", "goal": "It is hopeless"},
            "planning_failed",
            ["planning_failed", "string_too_short"],
        ),
        ({"drafter": "none"}, "no_drafter", ["no_drafter"]),
        ({"drafter": "http"}, "drafter_not_enabled", ["drafter_not_enabled"]),
    ],
)
def test_without_a_plan_or_a_drafter_a_goal_is_rejected_with_the_reasons(
    redis: Redis, planner: Callable[..., str], goal: dict[str, Any], reason: str, codes: list[str]
) -> None:
    fleet = Fleet(redis)
    verdict, plan_id = fleet.submit(a_goal("strict", **goal))

    told = codec.loads(planner("show", plan_id, "--json"))
    assert (verdict, told["state"], told["halt"]["reason"]) == ("REJECTED", "REJECTED", reason)
    assert [error["code"] for error in told["halt"]["evidence"]["errors"]] == codes
    assert (told["budget"]["tokens"]["spent"] > 1000) is (reason == "planning_failed")


HISTORY = (
    Commit("main", "Ada <ada@x.example>", "2026-03-02", "Begin", {"a.py": "1\n", "é b.py": "1\n"}),
    Commit("main", "Ada <ada@x.example>", "2026-03-03", "x" * 90, {"a.py": "2\n"}, "Over\ntwo lines.\n\n" + "y" * 600),
    Commit("other", "Bob <bob@x.example>", "2026-03-04", "Part", {f"f{number}.py": "1\n" for number in range(30)}),
    *(Commit("other", "Bob <bob@x.example>", "2026-03-05", f"Go {n}", {"a.py": f"{n}\n"}) for n in range(9)),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real repository with two branches."""
    root = tmp_path_factory.mktemp("history") / "shop"
    git_repository.make(root, HISTORY)
    return root


def test_cards_are_what_git_log_tells(repository: Path) -> None:
    cards = commit_cards(repository, "main", "other")

    assert len(cards) == len(HISTORY)
    last, first = (next(card for card in cards if card["subject"][0] == letter) for letter in "xB")
    assert "parent_commit_hash" not in first
    assert last["parent_commit_hash"] == first["commit_hash"]
    assert (first["change_summary"], first["key_files"]) == ("Begin", ["a.py", "é b.py"])
    assert last["subject"] == "x" * 71 + "…"
    assert last["change_summary"].startswith("Over two lines. yyy")
    assert len(last["change_summary"]) == 512
    assert next(len(card["key_files"]) for card in cards if card["subject"] == "Part") == 20


def test_cards_and_contexts_are_a_goals_input(repository: Path) -> None:
    cards = commit_cards(repository, "main", "other")
    base = commit_context(repository, "main", metrics=[{"name": "loss", "value": 1}])

    given = Evolution.model_validate({"base": base, "commit_cards": cards})

    assert unknown_fields(given) == 0
    assert given.base.metrics[0].name == "loss"
    assert [card.commit_hash for card in given.commit_cards] == [card["commit_hash"] for card in cards]


@pytest.mark.parametrize(("size", "lengths"), [(8, [8]), (4, [4, 4]), (3, [3, 3, 3]), (12, [])])
def test_blocks_are_those_whose_summaries_a_trajectory_uses(repository: Path, size: int, lengths: list[int]) -> None:
    cards = commit_cards(repository, "main", "other")
    root, tip = cards[-1]["commit_hash"], cards[0]["commit_hash"]
    found = list(blocks(cards, root, tip, size))
    summaries = [
        ChunkSummary(
            start_commit_hash=block[0]["commit_hash"],
            end_commit_hash=block[-1]["commit_hash"],
            block_size=size,
            summary="As it was told",
        )
        for block in found
    ]

    past = History.of([CommitCard.model_validate(card) for card in cards], root, root, summaries)
    lines = rollup(past, tip, TrajectoryOptions(block_size=size, max_raw_steps=1, max_chunks=9)).lines

    shown = [line for line in lines if line.endswith(f"({size} steps): As it was told")]
    whole = [line for line in lines if f"({size} steps)" in line]
    assert [len(block) for block in found] == lengths
    assert shown == whole
    assert len(shown) >= len(lengths) - 1  # the last may be told step by step


def test_an_option_is_no_name_of_a_commit(repository: Path) -> None:
    with pytest.raises(GitError):
        commit_cards(repository, "--output=leak")

    assert not (repository / "leak").exists()


@pytest.mark.long
@pytest.mark.outages
def test_the_demo_completes_a_plan_whose_first_draft_was_refused(place: Path) -> None:
    demo = played(place, "--kind", "evolution", "--json")

    told = demo.told
    steps = {step["step_id"]: (step["state"], step["attempt"]) for step in told["completed"]["steps"]}
    assert (told["kind"], told["completed"]["state"], told["tests_passed"]) == ("evolution", "COMPLETED", True)
    assert steps == {
        "draft-plan": ("DONE", 2),
        "number-titles": ("DONE", 2),
        "keep-answers": ("DONE", 1),
        "prove-it": ("DONE", 1),
    }
    assert told["completed"]["document"]["trajectories"][1]["unique_steps_count"] == 40
    assert "+        self._by_word = {}" in told["diff"]
    assert demo.err == ""
    assert not list(processes_of(place))
    assert not any(list(folder.iterdir()) for folder in place.iterdir())
