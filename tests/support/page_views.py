"""The address of every view of the page that shows plans, for tests that look at, measure and attack them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.attachment import Kind
from schemas.delivered import DeliveryState
from schemas.kinds.gap_report import PassedReason
from tests.support import sums
from tests.support.planner import (
    SHAPES,
    Planner,
    delivered,
    drafting,
    followed,
    held_by,
    lost,
    paused,
    questioned,
)
from worker.store import dead, keys, sent_attachments
from worker.store.dead import Filter
from worker.store.keys import Partition, partition_of

DOCUMENTS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "fixtures" / "documents.json").read_text())

LISTED = 200  # plans, besides those of the views
DIFF = (
    b"diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1,2 +1,3 @@\n def total(items):\n"
    b"-    return sum(round(each, 2) for each in items)\n+    whole = sum(items)\n+    return round(whole, 2)\n"
)
PRINTED = b"I read b.py.\nI round the total once.\n"
OURS = frozenset(each.value for each in PassedReason)  # words that other parts of the planner read in a document


def plan_views(plan_id: str, step_id: str = "fix-b") -> dict[str, str]:
    """List the views of one plan by name."""
    at = f"/plans/{plan_id}"
    return {"plan": at, "step": f"{at}/steps/{step_id}", "time line": f"{at}/timeline", "document": f"{at}/document"}


def views(planner: Planner) -> dict[str, str]:
    """Make plans, and list every view in its states: full, empty, wrong."""
    for _ in range(LISTED):
        planner.submit()
    shapes = (*SHAPES, paused, questioned, lost, drafting, delivered, changed)
    plans = {shape.__name__: f"/plans/{shape(planner)}" for shape in shapes}
    held_by(planner, plans["executing"].removeprefix("/plans/"), "fix-b", "ctl-7")
    for state in DeliveryState:
        followed(planner, delivered(planner), state=state)
    sums.seed(planner.client, [("default", "acme/shop"), ("globex", None)])
    return {
        "list": "/",
        "filtered": "/?state=HALTED",
        "empty": "/?kind=campaign&repo=nobody",
        "wrong": "/?since=yesterday",
        **plans,
        **{f"step of {name}": f"{plans[name]}/steps/fix-b" for name in ("executing", "halted", "retried")},
        **{f"time line of {name}": f"{plans[name]}/timeline" for name in ("completed", "asking", "large")},
        **{
            f"{number} {each['kind']}": f"/plans/{with_document(planner, each['kind'], each['document'])}/document"
            for number, each in enumerate(DOCUMENTS)
        },
        "no document": f"{plans['asking']}/document",
        "spend": "/spend",
        "spend of 90 days": "/spend?window=90d",
        "no spend": "/spend?repo=nobody",
        "wrong spend": "/spend?window=1y",
        "fleet": "/fleet",
        "no plan": "/plans/none",
        "review": "/review",
        "help": "/help",
        "errors": "/errors",
        "list of 200": "/?limit=200",
        "sorted": "/?sort=tokens",
        **_acts(planner, plans),
    }


def _acts(planner: Planner, plans: Mapping[str, str]) -> dict[str, str]:
    """Return the views with a form that changes something."""
    planner.client.xadd(keys.GOALS, {"data": b'{"goal": '})
    planner.container.goal_consumer.drain()
    (entry,) = dead.newest(planner.client, 1, Filter())
    runs = ("pause", "top_up", "tighten", "cancel", "halt", "skip?step_id=a-check", "tighten?step_id=a-check")
    return {
        **{act: f"{plans['executing']}/acts/{act}" for act in runs},
        **{act: f"{plans['asking']}/acts/{act}?step_id=change" for act in ("approve", "reject")},
        "resume": f"{plans['paused']}/acts/resume",
        "answer": f"{plans['questioned']}/acts/answer",
        "retry": f"{plans['lost']}/acts/retry",
        "new goal": "/goals/new?goal=Fix+it&files=a.py",
        "goal": "/goals?goal_id=none",
        "halt what": "/acts/halt",
        "selected": "/acts/selected?act=approve"
        + "".join(f"&plan={each.removeprefix('/plans/')}" for each in plans.values()),
        "halt many": "/acts/halt?scope=tenant&target=acme",
        "top up a day": "/acts/top_up?scope=tenant&target=acme",
        "dead": "/dead",
        "no dead": "/dead?cause=none",
        "replay": f"/dead/replay?entry={entry.name}&entry=goals/1-1",
    }


def changed(planner: Planner) -> str:
    """Create a completed plan with a diff, the agent's output, a test report and an answer in its result."""
    steps: list[dict[str, Any]] = [
        {"step_id": "fix-b", "title": "Fix b", "intent": "Fix b", "allowed_files": ["b.py"], "verify": "pytest"},
        {"step_id": "look", "title": "Look", "intent": "Look", "depends_on": ["fix-b"], "type": "READ"},
    ]
    plan_id = planner.submit(steps=steps)
    sent: tuple[tuple[bytes, Kind], ...] = ((DIFF, "diff"), (PRINTED, "transcript"))
    for content, kind in sent:
        data = sent_attachments.message(plan_id, "fix-b", 1, content, kind)
        sent_attachments.send(planner.client, planner.partitions, plan_id, data)
    digests = [hashlib.sha256(content).hexdigest() for content in (DIFF, PRINTED)]
    planner.report(
        "fix-b",
        plan_id,
        touched_files=["b.py"],
        diff_hash=digests[0],
        commit="c1",
        transcript={"path": "/var/a", "host": "build-7", "sent": f"sha256:{digests[1]}"},
        verify=[{"tool": "pytest", "exit_code": 0, "tests": {"passed": 12, "failed": 0, "skipped": 1}}],
    )
    planner.report("look", plan_id, output="b rounds once")
    planner.container.context(partition_of(plan_id, planner.partitions)).engine.sweep("here")
    return plan_id


def with_document(planner: Planner, kind: str, document: Any, **goal: Any) -> str:
    """Make a plan that keeps this document, as one of its kind does."""
    plan_id = planner.submit(**goal)
    key = Partition(partition_of(plan_id, planner.partitions)).plan(plan_id).plan
    head: Any = planner.client.hget(key, "head")
    kept: Any = {"head": codec.dumps({**codec.loads(head), "kind": kind}), "document": codec.dumps(document)}
    planner.client.hset(key, mapping=kept)
    return plan_id


def said_everywhere(value: Any, text: str) -> Any:
    """Put a text in the place of every text of a document, but of those that are words of the planner."""
    if isinstance(value, dict):
        return {name: said_everywhere(each, text) for name, each in value.items()}
    if isinstance(value, list):
        return [said_everywhere(each, text) for each in value]
    return text if isinstance(value, str) and value not in OURS else value
