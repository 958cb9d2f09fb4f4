"""Every payload of `@octokit/webhooks-examples`, signed, through a gateway: each is answered, and none is our error.

It is looked for in PLANNER_TEST_NODE_MODULES.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from schemas import codec
from schemas.goal import Goal
from tests.support import webhooks
from tests.support.gateway import running_gateway
from tests.support.programs import NODE_MODULES, needs
from tests.support.webhooks import by_github, source
from worker.store import keys

PACKAGE = "@octokit/webhooks-examples"
pytestmark = [pytest.mark.outages, needs(f"npm:{PACKAGE}")]
COMMIT = "workflow_run.head_sha || check_run.head_sha || check_suite.head_sha || after || pull_request.head.sha"


@pytest.fixture(scope="module")
def examples() -> list[tuple[str, dict[str, Any]]]:
    """The payloads with their events, of github.com and of its servers that companies run themselves."""
    files = sorted((NODE_MODULES / PACKAGE).glob("*/index.json"))
    found = [event for file in files for event in json.loads(file.read_text())]
    return [(event["name"], payload) for event in found for payload in event["examples"]]


def rules(events: set[str], repos: list[str], more: str) -> str:
    """Write a rule for each event."""
    about = f"repos = {json.dumps(repos)}\nallowed_files = ['src/app.py']\n{more}\n"
    return "".join(f"[[source.rule]]\non = '{event}'\n{about}" for event in sorted(events))


def test_all_examples_are_answered(
    examples: list[tuple[str, dict[str, Any]]], redis_url: str, redis: Any, tmp_path: Path
) -> None:
    events = {event for event, _ in examples}
    named = (payload.get("repository") for _, payload in examples)
    repos = sorted({repository["full_name"] for repository in named if repository})
    goal = "goal = 'Look at what {{ sender.login }} did {{ repository.full_name }}'\n"
    lenient = goal + "allow = ['forks', 'own_branches', 'own_app', 'edited']\nfrom = ['OWNER', 'MEMBER', 'NONE']\n"
    strict = (
        goal + f"base_sha = '{{{{ {COMMIT} }}}}'\nwhen = \"action != 'deleted'\"\ncoalesce = '{{{{ {COMMIT} }}}}'\n"
    )
    text = source("strict", "github", rules(events, repos, strict))
    text += source(
        "lenient", "github", rules(events, repos, lenient.replace("from = ['OWNER', 'MEMBER', 'NONE']\n", ""))
    )
    text += source("form", "github", rules(events, repos, lenient))
    assert len(examples) > 500
    assert len(events) > 50

    statuses: Counter[tuple[str, int]] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    with running_gateway(redis_url, webhooks_file=webhooks.write(tmp_path, text)) as gateway:
        http = gateway.with_token(None)
        for number, (event, payload) in enumerate(examples):
            for name in ("strict", "lenient", "form"):
                raw = codec.dumps(payload)
                kind = "application/json"
                if name == "form":
                    raw, kind = urlencode({"payload": raw.decode()}).encode(), "application/x-www-form-urlencoded"
                headers, raw = by_github(event, raw, f"delivery-{number}")
                answer = http.post(f"/v1/webhooks/{name}", content=raw, headers=headers | {"content-type": kind})
                statuses[name, answer.status_code] += 1
                reason = (answer.json().get("ignored") or "goal").partition(":")[0]
                reasons[name, reason] += 1

    assert statuses == {(name, 202): len(examples) for name in ("strict", "lenient", "form")}
    assert reasons["strict", "goal"] > 10
    assert reasons["strict", "fork"] > 5
    assert reasons["lenient", "goal"] > 200
    entries: Any = redis.xrange(keys.GOALS)
    for _, fields in entries:
        made = Goal.model_validate(codec.loads(fields[b"data"]))
        assert made.allowed_files == ("src/app.py",)
        assert made.context.repo in repos
