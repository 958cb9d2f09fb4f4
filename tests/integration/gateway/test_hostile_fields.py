"""Hostile texts in the fields of results, rows, reviews, transcripts and criteria are text at every door."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from schemas.api_key import Right
from schemas.delivered import DeliveryState
from schemas.stored import HOT, decode_plan
from tests.support.gateway import Gateway
from tests.support.markup_attacks import HOSTILE_TEXTS
from tests.support.page import Markup, signed_in
from tests.support.page_views import DOCUMENTS, said_everywhere, with_document
from tests.support.planner import Planner, delivered, executing, followed, held_by
from tests.support.sent_diffs import STEPS, diff_of, digest, sweep
from worker.store import sent_attachments
from worker.store.keys import Partition

FIRST_MS = 1_700_000_000_000  # before every other plan, so that its change comes first in the review list
PLAIN = "words"


def completed(planner: Planner, text: str) -> str:
    """Make a completed plan with a text in every field that its result and its attempts show."""
    steps = [{**step, "title": text[:100].strip() or "t"} for step in STEPS]
    diff = diff_of(text) + f"diff --git a/{text} b/{text}\nnew file mode 100644\n".encode(errors="replace")
    plan_id = planner.submit(goal="Fix", steps=steps)
    sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 1, diff))
    receipts = [{"tool": text[:200], "exit_code": 1, "cwd": text[:500]}]
    place = {"kind": "skip", "path": text[:512], "line": 1, "what": text[:200]}
    told: dict[str, Any] = {
        "touched_files": ["b.py"],
        "created_files": ["b.py"],
        "diff_hash": digest(diff),
        "commit": text[:200],
    }
    told |= {"ref": text[:200], "agent": text[:200], "model": text[:200]}
    told |= {"transcript": {"path": text[:900], "host": text[:200], "sent": text[:200]}}
    integrity = {"counts": {"skip": 1}, "places": [place]}
    planner.report("fix-b", plan_id, controller=text[:200], verify=receipts, integrity=integrity, **told)
    planner.report("look", plan_id, output=text)
    sweep(planner)
    return plan_id


def failed(planner: Planner, text: str) -> str:
    """Make a halted plan with a text in every field that its failure shows."""
    plan_id = planner.submit(goal="Fix", steps=STEPS, limits={"consecutive_failures": 1})
    evidence = {"category": "TEST_REGRESSION", "stack_trace_head": text, "suggestion": text}
    said = {"failing_tests": [text.replace("\n", " ")[:900]], "error_message": text, "touched_files": [text[:500]]}
    planner.report("fix-b", plan_id, success=False, tests_passed=False, failure_evidence=evidence, **said)
    assert planner.view(plan_id).state == "HALTED"
    return plan_id


def held(planner: Planner, text: str) -> str:
    """Make a plan whose step a controller of this name holds."""
    plan_id = executing(planner)
    held_by(planner, plan_id, "fix-b", text)
    return plan_id


def handed_over(planner: Planner, text: str) -> str:
    """Make a plan whose delivered change has a text in every field, and waits for a person first of all."""
    plan_id = delivered(planner)
    key = Partition(0).plan(plan_id).plan
    raw: Any = planner.client.hmget(key, *HOT)
    record = decode_plan(raw)
    record.delivery.branch, record.delivery.pull_request, record.delivery.undelivered = text, text, text
    planner.client.hset(key, "live", record.encode("live"))
    ups = [{"goal_id": text, "why": "checks", "head": text, "plan_id": text, "text": text}]
    count = len(HOSTILE_TEXTS) - HOSTILE_TEXTS.index(text) if text in HOSTILE_TEXTS else 0
    times = {DeliveryState.OPEN: FIRST_MS + count}
    followed(planner, plan_id, branch=text, repo=text, handed_over=text, follow_ups=ups, times=times)
    return plan_id


class Shape(NamedTuple):
    """The parts of a page that no text may change."""

    scripts: int
    others: int  # elements that load or send something
    active: list[str]  # attributes that run or send something
    away: list[str]  # addresses of other sites


def shape(page: str) -> Shape:
    elements = Markup(page).elements
    tags = [tag for tag, _ in elements]
    active = [
        name for _, attributes in elements for name in attributes if name.startswith("on") or name == "formaction"
    ]
    links = [str(of.get(name)) for _, of in elements for name in ("href", "src", "action") if of.get(name)]
    away = [each for each in links if not re.match(r"[/#?](?!/)", each)]
    loading = sum(tags.count(tag) for tag in ("img", "iframe", "form", "object", "embed", "base", "meta", "style"))
    return Shape(tags.count("script"), loading, active, away)


@pytest.mark.long
@pytest.mark.outages
@pytest.mark.parametrize("make", [completed, failed, held, handed_over])
def test_hostile_texts_are_text_at_every_door(
    gateway: Gateway, planner: Planner, make: Callable[[Planner, str], str]
) -> None:
    assert len(HOSTILE_TEXTS) == 60
    client, json_client = signed_in(gateway, Right.ADMIN), gateway.client(Right.VIEWER)
    paths = ("/plans/{}", "/plans/{}/steps/fix-b", "/plans/{}/timeline")
    plan_id = make(planner, PLAIN)
    plain = [shape(client.get(path.format(plan_id)).text) for path in paths]
    row = shape(client.get(f"/?id_prefix={plan_id}").text)
    for text in HOSTILE_TEXTS:
        plan_id = make(planner, text)
        found = [client.get(path.format(plan_id)) for path in paths]

        assert [shape(page.text) for page in found] == plain, text
        assert shape(client.get(f"/?id_prefix={plan_id}").text) == row, text
        assert shape(client.get("/?limit=5").text)[2:] == ([], []), text
        assert json_client.get(f"/v1/plans/{plan_id}/changes.diff").headers["content-type"].startswith("text/plain")
        sent = json_client.get(f"/v1/plans/{plan_id}/steps/fix-b/transcript?attempt=1")
        assert sent.json()["code"] == "no_transcript", text
        summary = json_client.get(f"/v1/plans/{plan_id}/summary.md").text
        assert "<script" not in re.sub(r"```.*?```|`[^`\n]*`", "", summary, flags=re.DOTALL), text


@pytest.mark.outages
def test_a_hostile_text_of_a_change_to_review_is_text(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.ADMIN)
    plan_id = handed_over(planner, PLAIN)
    page = client.get("/").text
    assert f'id="needs-{plan_id}"' in page
    for text in HOSTILE_TEXTS:
        plan_id = handed_over(planner, text)

        page, review = client.get("/?limit=1").text, client.get("/review").text

        assert f'id="needs-{plan_id}"' in page, text
        assert f'<tr id="{plan_id}">' in review, text
        for shown in (page, review):
            assert shape(shown)[2:] == ([], []), text
            assert shape(shown).scripts == 1, text


@pytest.mark.outages
def test_hostile_texts_of_criteria_are_text_at_every_door(gateway: Gateway, planner: Planner) -> None:
    client, json_client = signed_in(gateway, Right.VIEWER), gateway.client(Right.VIEWER)
    seen = 0
    for number, text in enumerate(HOSTILE_TEXTS):
        each = DOCUMENTS[number % len(DOCUMENTS)]
        plan_id = with_document(planner, each["kind"], said_everywhere(each["document"], text))
        page, shown = client.get(f"/plans/{plan_id}"), json_client.get(f"/v1/plans/{plan_id}").json()

        assert page.status_code == 200
        assert (shape(page.text).scripts, *shape(page.text)[2:]) == (1, [], []), text
        summary = json_client.get(f"/v1/plans/{plan_id}/summary.md").text
        assert "<script" not in re.sub(r"```.*?```|`[^`\n]*`", "", summary, flags=re.DOTALL), text
        seen += len(shown["criteria"])
    assert seen > 10


@pytest.mark.outages
@pytest.mark.parametrize("make", [completed, failed, held, handed_over])
def test_no_text_of_a_plan_is_shown_to_another_tenant(
    gateway: Gateway, planner: Planner, make: Callable[[Planner, str], str]
) -> None:
    secret = "seen-by-nobody-else"
    plan_id = make(planner, secret)
    client, json_client = (
        signed_in(gateway, Right.VIEWER, tenant="initech"),
        gateway.client(Right.VIEWER, tenant="initech"),
    )

    for path in (
        f"/plans/{plan_id}",
        f"/plans/{plan_id}/steps/fix-b",
        "/",
        "/review",
        "/?sort=controller",
        "/?sort=goal",
    ):
        assert secret not in client.get(path).text, path
    for path in ("", "/result", "/changes.diff", "/steps/fix-b/transcript?attempt=1", "/summary.md"):
        assert json_client.get(f"/v1/plans/{plan_id}{path}").status_code == 404, path
