"""The workflow of docs/ci.md and the action beside it, played by their steps: a report in, the end of a plan out."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from tests.conftest import RunningWorker
from tests.support.documented import DOCS
from tests.support.gateway import running_gateway
from tests.support.github import Runner
from tests.support.issuer import AUDIENCE, running_issuer
from tests.support.programs import needs
from tests.support.roles import COMPOSE, user
from tests.support.servers import Fleet
from tests.support.stored import P0

pytestmark = [pytest.mark.outages, needs("bash")]  # a run takes seconds

PAGE = DOCS / "ci.md"
WORKFLOW: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])
ACTION: dict[str, Any] = yaml.safe_load((DOCS / "examples" / "planner-action" / "action.yml").read_text())
FILES = {
    "src/price.py": "def total(prices):\n    return sum(prices) + 1\n",
    "tests/test_price.py": "from src.price import total\n\n\ndef test_total():\n    assert total([2, 2]) == 4\n",
    "tests/__init__.py": "",
    "src/__init__.py": "",
}
OUTPUTS = ["goal_id", "plan_id", "state", "branch", "pull_request"]
READ = ("| step |", "flowchart TD", "### Budget", "Explanation")  # parts of a summary that need a reader's rights


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of a repository whose tests fail."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    author = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def runner(checkout: Path, **known: str) -> Runner:
    home = checkout.parent / "runner"
    home.mkdir()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True)
    return Runner(home, checkout, {"github.sha": head.stdout.strip(), **known})


@contextmanager
def over_http(worker: RunningWorker, checkout: Path) -> Iterator[Runner]:
    """A machine of GitHub whose job shows its token to a gateway."""
    with running_issuer() as issuer:
        table = {"iss": issuer.url, "aud": AUDIENCE, "kind": "github", "tenant": "acme", "right": "producer"}
        lines = [f'{name} = "{value}"' for name, value in table.items()]
        (checkout.parent / "oidc.toml").write_text("\n".join(["[[issuer]]", *lines, "repositories = [11]"]))
        asked = f"/token?audience={quote(AUDIENCE, safe='')}"
        issuer.documents[asked] = json.dumps({"value": issuer.token()}).encode()
        with running_gateway(worker.url, oidc_file=checkout.parent / "oidc.toml") as gateway:
            machine = runner(checkout, **{"vars.PLANNER_URL": gateway.url})
            machine.own = {
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"{issuer.url}/token",
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-runner",
                "PLANNER_OIDC_AUDIENCE": AUDIENCE,
            }
            yield machine


@contextmanager
def by_redis(worker: RunningWorker, checkout: Path, role: str, file: Path) -> Iterator[Runner]:
    """A machine whose job has a user of Redis, as the page says it beside."""
    with user(worker.redis, role, worker.url, file) as url:
        machine = runner(checkout, **{"vars.PLANNER_URL": ""})
        machine.own = {"PLANNER_REDIS_URL": url}
        yield machine


@pytest.mark.long
@pytest.mark.parametrize(("role", "file"), [("producer", COMPOSE), ("ci", PAGE), ("token", None)])
def test_the_workflow_hands_its_report_over_and_learns_the_end(
    planner_worker: RunningWorker, checkout: Path, role: str, file: Path | None
) -> None:
    test, repair = WORKFLOW["jobs"]["test"], WORKFLOW["jobs"]["repair"]
    steps = repair["steps"]
    if file:
        steps = [{**step, "env": {}} for step in steps]
        asks = by_redis(planner_worker, checkout, role, file)
    else:
        asks = over_http(planner_worker, checkout)
    with asks as machine, Fleet(planner_worker.url):
        assert machine.play(test["steps"]) == 1
        assert repair["needs"] == "test"
        assert repair["if"].startswith("failure()")
        assert repair["permissions"] == {"contents": "read", "id-token": "write"}
        code, plans = machine.play(steps), planner_worker.redis.zcard(P0.plans)
        first = dict(machine.log)
        assert machine.play(steps[-1:]) == 0  # a job that is run again

    assert planner_worker.redis.zcard(P0.plans) == plans
    assert machine.summary.count("✅ Planner: COMPLETED") == 2
    log = first["Have the failures repaired"]
    assert code == 0, log
    assert "COMPLETED" in log
    assert [part in machine.summary for part in READ] == [role != "producer"] * len(READ)
    if role != "producer":
        assert "`Fix failing test tests/test_price.py::test_total`" in machine.summary
        assert "step.done" in log


@needs("jq")
def test_the_action_gives_the_end_as_outputs(planner_worker: RunningWorker, checkout: Path) -> None:
    given = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
    with user(planner_worker.redis, "producer", planner_worker.url) as url, Fleet(planner_worker.url):
        given |= {"redis-url": url, "files": "src/**\ntests/**\n", "timeout": "5m"}
        machine = runner(checkout, **{f"inputs.{name}": value for name, value in given.items()})
        assert machine.play(WORKFLOW["jobs"]["test"]["steps"]) == 1
        code = machine.play(ACTION["runs"]["steps"])

    assert code == 0, machine.log
    assert machine.outputs["state"] == "COMPLETED"
    assert machine.outputs["plan_id"].startswith("plan_")
    named = {re.sub(r".*outputs\.(\w+) .*", r"\1", each["value"]) for each in ACTION["outputs"].values()}
    assert named == machine.outputs.keys()


@needs("jq")
def test_a_goal_that_is_refused_is_red(planner_worker: RunningWorker, checkout: Path) -> None:
    given = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
    given |= {"redis-url": planner_worker.url, "files": "../etc/**\n", "deliver": "push"}
    machine = runner(checkout, **{f"inputs.{name}": value for name, value in given.items()})
    assert machine.play(WORKFLOW["jobs"]["test"]["steps"]) == 1

    assert machine.play(ACTION["runs"]["steps"]) == 1
    assert "❌ Planner: REJECTED" in machine.summary
    assert len(machine.outputs) == len(ACTION["outputs"])


@needs("jq")
def test_what_comes_from_outside_begins_no_output(tmp_path: Path) -> None:
    (script,) = re.findall(r"jq -r '(.*?)'", ACTION["runs"]["steps"][-1]["run"], re.DOTALL)
    said = {"state": "COMPLETED", "pull_request": "https://forge.example\nstate=HALTED\r\nplan_id=x", "goal_id": None}
    (tmp_path / "planner.json").write_text(json.dumps(said))
    written = subprocess.run(
        ["jq", "-r", script, "planner.json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert [line.partition("=")[0] for line in written.stdout.splitlines()] == OUTPUTS
    assert "\r" not in written.stdout
