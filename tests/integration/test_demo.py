"""The demo as a newcomer meets it: an empty home, some directory, one command; and nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.conftest import wait_until
from tests.support.demos import PATIENCE_S, played, processes_of, started


@pytest.mark.outages
def test_the_demo_completes_one_plan_rejects_another_and_leaves_nothing(place: Path) -> None:
    demo = played(place, "--json")

    told = demo.told
    assert set(told) == {"kind", "completed", "rejected", "diff", "tests_passed", "seconds"}
    assert told["completed"]["state"] == "COMPLETED"
    assert told["completed"]["budget"]["failing_outcomes"]["spent"] == 1
    (fixed,) = (step for step in told["completed"]["steps"] if step["type"] == "PATCH")
    assert (fixed["state"], fixed["attempt"]) == ("DONE", 2)
    assert told["rejected"]["state"] == "REJECTED"
    assert [error["code"] for error in told["rejected"]["halt"]["evidence"]["errors"]] == ["path_traversal"]
    assert "+    day = min(start.day, monthrange(year, month + 1)[1])" in told["diff"]
    assert told["tests_passed"] is True
    assert demo.err == ""
    assert not list(processes_of(place))
    assert not list((place / "tmp").iterdir())
    assert not list((place / "somewhere").iterdir())


@pytest.mark.long
@pytest.mark.outages
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])  # ^C, and a terminal that is closed
def test_an_interrupted_demo_ends_at_once_and_leaves_nothing(place: Path, number: signal.Signals) -> None:
    demo = started(place)
    assert demo.stdout
    next(line for line in iter(demo.stdout.readline, "") if "step.started" in line)
    os.killpg(demo.pid, number)
    _, err = demo.communicate(timeout=120)

    assert demo.returncode == 130, err
    assert "Traceback" not in err
    wait_until(
        lambda: not list(processes_of(place)), what="a probe of the sandbox, which the signal cannot reach, ends"
    )
    assert not list((place / "tmp").iterdir())


@pytest.mark.long
@pytest.mark.outages
def test_the_page_shows_the_demo_while_it_runs_and_until_it_is_ended(place: Path) -> None:
    demo = started(place, "--page")
    assert demo.stdout
    said = iter(demo.stdout.readline, "")
    address = next(line for line in said if line.startswith("In a browser: ")).split()[-1]
    token = next(line for line in said if line.startswith("This key signs in: ")).split()[-1]
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as client:
        wait_until(lambda: "EXECUTING" in client.get("/").text, PATIENCE_S, "the page shows the plan at work")
        last = next(line for line in said if "until Ctrl-C" in line)
        page = client.get("/").text
    demo.send_signal(signal.SIGTERM)
    _, err = demo.communicate(timeout=120)

    assert address in last
    assert "COMPLETED" in page
    assert "REJECTED" in page
    assert (demo.returncode, err) == (0, "")
    assert not list(processes_of(place))
    assert not list((place / "tmp").iterdir())


@pytest.mark.long
@pytest.mark.outages
def test_the_output_into_a_pipe_is_plain_lines(place: Path) -> None:
    demo = played(place, "--keep")

    assert demo.returncode == 0, demo.err
    assert all(character.isprintable() or character == "\n" for character in demo.out)
    assert "step.retried    implement-fix     attempt 1  TEST_REGRESSION" in demo.out
    (kept,) = (place / "tmp").iterdir()
    assert str(kept) in demo.err
    assert (kept / "billing" / ".git").is_dir()
    assert not list(processes_of(place))


def test_without_a_server_that_answers_it_says_so_and_fails(place: Path) -> None:
    demo = played(place, "--json", PLANNER_REDIS_URL="redis://127.0.0.1:1/0")

    assert demo.returncode == 1
    assert json.loads(demo.out)["problem"]["code"] == "demo_failed"
    assert not list((place / "tmp").iterdir())
