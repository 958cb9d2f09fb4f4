"""What a host or a provider keeps a controller from is handed back, and no agent runs; then the controller pauses."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.outcome import Outcome, ReleaseKind
from tests.conftest import wait_until
from tests.support.controlling import FIX, PYTEST, Planner, Repo, evidence
from worker.controller import pauses
from worker.controller.readiness import agent_trouble

Start = Callable[..., None]
FULL = "report(success=False, released={'reason': 'The disk is full.', 'kind': 'host'})"
NO_LINTER = {"tool": "lint", "argv": ["no-such-linter", "."], "timeout_s": 60}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "FIRST_S", 0.05)
    monkeypatch.setattr(pauses, "UNVERIFIED_S", 0.05)


def reason(outcome: Outcome, kind: ReleaseKind = ReleaseKind.HOST) -> str:
    assert not outcome.success
    assert outcome.touched_files == ()
    assert outcome.failure_evidence is None
    assert outcome.released
    assert outcome.released.kind is kind
    return outcome.released.reason


@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        pytest.param({"context": {"base_sha": "deadbeef"}}, "deadbeef", id="a short base"),
        pytest.param({"context": {"base_sha": "1" * 40}}, "1" * 40, id="the base"),
        pytest.param({"context": {"repo": "acme/till", "base_sha": None}}, "acme/till", id="the repository"),
    ],
)
def test_what_is_missing_here_is_handed_back_before_the_agent_runs(
    lacks: dict[str, Any], told: str, planner: Planner, repo: Repo, start: Start
) -> None:
    repo.git("remote", "add", "origin", str(repo.path.parent / "shop.git"))
    planner.send("fix", **{"intent": "git('commit', '-am', 'ran')", "allowed_files": ["calc.py"]} | lacks)
    start()

    outcome = planner.outcome("fix")

    assert told in reason(outcome)
    assert outcome.lease == "lease-of-fix"


@pytest.mark.parametrize("mode", ["patch", "test"])
def test_a_program_that_is_missing_could_not_verify_what_no_agent_is_paid_for(
    mode: str, planner: Planner, repo: Repo, start: Start
) -> None:
    intent = "git('commit', '-am', 'ran')"
    planner.send("fix", intent=intent, mode=mode, allowed_files=["calc.py"], verify_tools=[PYTEST, NO_LINTER])
    start()

    outcome = planner.outcome("fix")

    cannot = outcome.cannot_verify
    assert cannot
    assert (cannot.tool, outcome.released, outcome.success) == (NO_LINTER["tool"], None, False)
    assert "no-such-linter is missing here" in cannot.reason
    assert outcome.metrics
    assert (outcome.metrics.patch_cycles, outcome.touched_files) == (0, ())


def test_a_base_that_is_missing_is_fetched_from_the_remote_also_into_a_shallow_clone(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    base = repo.git("rev-parse", "main")
    for number in range(3):
        repo.commit_on("main", "notes.md", str(number))
    words = ["git", "clone", "--quiet", "--bare", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow")]
    subprocess.run(words, check=True)
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], verify_tools=[PYTEST], context={"base_sha": base})
    start(workdir=tmp_path / "shallow")

    assert planner.outcome("fix").success
    assert (
        Repo.at(tmp_path / "shallow").git("rev-parse", "refs/heads/planner/" + planner.spec("fix")["plan_id"] + "^")
        == base
    )


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(f"{FIX}; report(released='The login has expired.', tokens_used=70)", id="says so itself"),
        pytest.param(f"{FIX}; print('The login has expired.', file=sys.stderr); sys.exit(75)", id="exit code 75"),
    ],
)
def test_trouble_of_the_models_provider_is_no_failure_and_leaves_nothing(
    agent: str, planner: Planner, repo: Repo, start: Start
) -> None:
    planner.send("fix", intent=agent, allowed_files=["calc.py"])
    start()

    outcome = planner.outcome("fix")

    assert "The login has expired." in reason(outcome, ReleaseKind.PROVIDER)
    assert repo.landed() == []


def test_an_agent_that_cannot_be_started_is_no_failure_either(planner: Planner, start: Start) -> None:
    planner.send("fix", intent="", allowed_files=["calc.py"])
    start(command="sh -c 'exec my-agnt'")

    assert "my-agnt" in reason(planner.outcome("fix"))


def test_a_controller_that_can_do_nothing_pauses_longer_each_time_and_goes_on(
    planner: Planner, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "planner.controller")
    full: dict[str, Any] = {"intent": FULL, "allowed_files": ["calc.py"]}
    for number in range(7):
        planner.send(f"fix-{number}", **full)
    planner.send("look", mode="read_only")
    planner.send("again", **full)
    began = time.monotonic()
    start()

    assert planner.outcome("look").success
    reason(planner.outcome("again"))

    wait_until(lambda: planner.pending() == 0, what="acknowledged")
    pauses = [(record.seconds, record.reason) for record in caplog.records if record.message == "controller_paused"]  # type: ignore[attr-defined]
    assert [seconds for seconds, _ in pauses] == [0.05, 0.1, 0.2]
    assert all("The disk is full" in why for _, why in pauses)
    assert time.monotonic() - began > 0.35


def test_an_agent_that_only_prints_words_of_providers_has_failed(planner: Planner, start: Start) -> None:
    words = "API Error: 429 rate limit exceeded"
    planner.send("fix", intent=f"print({words!r}); sys.exit({words!r})", allowed_files=["calc.py"])
    start()

    outcome = planner.outcome("fix")

    assert not outcome.released
    assert evidence(outcome).stack_trace_head == words


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["my-agnt", "--quiet"], "my-agnt"),
        (["python3", "-I", "/no/agent.py"], "/no/agent.py"),
        (["sh", "-c", "true"], None),
        (["env", "/no/such/output"], None),
        ([], None),
    ],
)
def test_an_agent_that_is_not_there_is_known_before_the_start(argv: list[str], told: str | None) -> None:
    assert (agent_trouble(argv) or "").partition(":")[0] == (told or "")
