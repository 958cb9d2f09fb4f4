"""The views of a plan beside the plan itself: its document, its time line, its steps, what is decided and expected."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from schemas import codec
from schemas.api_key import Right
from schemas.times import DAY_MS
from tasks.memory.flaky_tests import Sighting
from tasks.plan.cached_draft import HIT
from tests.support.gateway import Gateway
from tests.support.page import HOSTILE, Markup, signed_in
from tests.support.page_views import DOCUMENTS, plan_views, said_everywhere, with_document
from tests.support.planner import (
    Planner,
    asking,
    completed,
    executing,
    halted,
    held_by,
    hostile,
    large,
    obeying,
    retried,
)
from worker.gateway.page import plan_story, plan_view
from worker.store import flaky_memory
from worker.store.keys import Partition


def said(gateway: Gateway, path: str) -> str:
    """The text of a page, its blanks joined."""
    answer = signed_in(gateway, Right.VIEWER).get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(" ".join(Markup(answer.text).texts).split())


SHOWN = {  # of the documents, in their order: what their readers look for
    "evolution": ["Both branches look at one title in five", "1. Look only at titles with the rarest word", "strict"],
    "reviewed_plan": ["plan-design", "FAIL", "M-001", "Waves", "Accepted when"],
    "campaign": ["005 build-checkout", "6 of 6 tasks are complete", "shop/cart.py:17-37", "Parts of the objective"],
    "gap_report": ["Quality check failed", "Accepted when", "the goal allows none of its files"],
    "task": ["Round once, at the end", "Taken for granted"],
}


@pytest.mark.parametrize("number", range(len(DOCUMENTS)), ids=[each["kind"] for each in DOCUMENTS])
def test_a_document_is_read_as_its_kind_is(gateway: Gateway, planner: Planner, number: int) -> None:
    kind, document = DOCUMENTS[number]["kind"], DOCUMENTS[number]["document"]
    plan_id = with_document(planner, kind, document)

    told = said(gateway, f"/plans/{plan_id}/document")

    assert [each for each in SHOWN[kind] if each not in told] == []
    assert "Read the document" in said(gateway, f"/plans/{plan_id}")


def test_a_review_shows_what_blocks_its_gate_first(gateway: Gateway, planner: Planner) -> None:
    plan_id = with_document(planner, "reviewed_plan", DOCUMENTS[-1]["document"])

    told = said(gateway, f"/plans/{plan_id}/document")

    (gate,) = re.findall(r"Open: ([\w-]+) review", told)
    failing = [item for item in DOCUMENTS[-1]["document"]["qr"][gate]["items"] if item["status"] == "FAIL"]
    assert failing
    assert f"FAIL {failing[0]['check']} {failing[0]['finding']}" in told


@pytest.mark.parametrize("kind", sorted(SHOWN))
def test_a_document_of_another_release_is_no_error(gateway: Gateway, planner: Planner, kind: str) -> None:
    client = signed_in(gateway, Right.VIEWER)
    for document in (None, {}, [1], {"plan": 7, "gap": [None], "tasks": [{}], "idioms": "x"}):
        plan_id = with_document(planner, kind, document)

        assert client.get(f"/plans/{plan_id}/document").status_code == 200, document
        assert client.get(f"/plans/{plan_id}").status_code == 200, document


def test_text_from_outside_is_text_on_every_view_of_a_plan(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.VIEWER)
    paths = list(plan_views(hostile(planner, HOSTILE)).values())
    for each in DOCUMENTS:
        plan_id = with_document(planner, each["kind"], said_everywhere(each["document"], HOSTILE), goal=HOSTILE)
        paths += [f"/plans/{plan_id}/document", f"/plans/{plan_id}"]

    for path in paths:
        answer = client.get(path)
        assert answer.status_code in (200, 422), (path, answer.text)
        tags = [tag for tag, _ in Markup(answer.text).elements]
        assert (tags.count("script"), tags.count("img")) == (1, 1), path
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", answer.text.replace("\r", "")), path
    step = client.get(paths[1]).text
    assert step.count("&lt;script&gt;alert(1)") >= 8  # every field of the outcome, and of the step
    assert "data from outside" in step


def test_a_time_line_has_each_attempt_by_its_controller(gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    metrics = {"duration_ms": 40, "tokens_used": 1200}
    planner.report("fix-b", plan_id, touched_files=["b.py"], controller="ctl-7", metrics=metrics)

    page = signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}/timeline").text
    told = " ".join(" ".join(Markup(page).texts).split())

    assert re.search(r"ctl-7 1 attempt: 1 done \d+ ms fix-b", told)
    assert re.search(r'class="lane" role="img" aria-label="waited .*?, in its queue .*?, ran \d+ ms"', page)
    assert page.count('class="DONE"') >= 2  # the legend, and the bar
    assert "a-check queued" in told


def test_the_time_line_of_many_attempts_is_drawn_by_controller(gateway: Gateway, planner: Planner) -> None:
    steps = [
        {"step_id": f"s-{number}", "title": "t", "intent": "i", "verify": "pytest"} for number in range(50)
    ]  # fmt: skip
    plan_id = planner.submit(steps=steps, limits={"max_steps": 100, "max_parallel": 50})
    for number in range(50):
        planner.report(f"s-{number}", plan_id, controller=f"ctl-{number % 2}", metrics={"duration_ms": 5})
    client = signed_in(gateway, Right.VIEWER)

    whole = Markup(client.get(f"/plans/{plan_id}").text)
    (first, _) = whole.links(".*/timeline[?]controller=.*")
    alone = Markup(client.get(first).text)

    assert first == f"/plans/{plan_id}/timeline?controller=ctl-0"
    assert whole.links(r".*#attempt-1") == []
    assert len(alone.links(r".*#attempt-1")) == 25


def test_a_page_of_the_time_line_tells_the_figures_of_each_controller(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_view, "MOST_TIME_LINE_LANES", 2)
    steps = [{"step_id": f"s-{number}", "title": "t", "intent": "i", "verify": "pytest"} for number in range(6)]
    plan_id = planner.submit(steps=steps, limits={"max_steps": 10, "max_parallel": 6})
    for number in range(6):
        planner.report(f"s-{number}", plan_id, controller=f"ctl-{number % 2}", metrics={"duration_ms": 5})

    first, beyond = (said(gateway, f"/plans/{plan_id}/timeline{query}") for query in ("", "?first=600"))

    assert "1 to 2 of 6" in first
    assert "ctl-0 3 attempts: 3 done; 1 of them here" in first
    assert "5 to 6 of 6" in beyond
    assert "ctl-1 3 attempts: 3 done; 1 of them here" in beyond


def test_a_plan_whose_log_is_too_long_is_shown_without_its_attempts(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = retried(planner)
    monkeypatch.setattr(plan_story, "MOST_READ", 1)

    plan, step = said(gateway, f"/plans/{plan_id}"), said(gateway, f"/plans/{plan_id}/steps/fix-b")

    for page in (plan, step):
        assert "The log has 3 lines, more than a page reads" in page
        assert "Attempts, their times and decisions are not shown here." in page
    assert "Fix b" in plan
    assert "It was not tried yet" not in step
    assert signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}/timeline").status_code == 422


def test_the_page_of_a_step_has_its_work_and_the_proof_of_each_attempt(gateway: Gateway, planner: Planner) -> None:
    plan_id = retried(planner)

    told = said(gateway, f"/plans/{plan_id}/steps/fix-b")

    for each in ("Fix b", "pytest tests/test_b.py -v", "b.py", "COMPILATION_ERROR", "SyntaxError: invalid syntax"):
        assert each in told
    assert "Put before it fix-b-syntax-check" in told
    assert "A step before the next attempt checks the syntax." in told
    assert "before the next attempt of fix-b" in said(gateway, f"/plans/{plan_id}/steps/fix-b-syntax-check")
    missing = signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}/steps/none")
    assert (missing.status_code, "The plan has no step" in missing.text) == (404, True)


def test_a_plan_says_who_works_on_it_or_how_to_start_a_controller(gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)

    unread = said(gateway, f"/plans/{plan_id}")
    held_by(planner, plan_id, "fix-b", "ctl-7")
    held = said(gateway, f"/plans/{plan_id}")

    assert "Start one: planner controller --queue default --agent claude" in unread
    assert "Nothing moves: no controller reads queue default" in unread
    assert "ctl-7 works on fix-b since" in held
    assert "Nothing moves" not in held


def test_a_step_is_queued_until_a_controller_has_it(gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit()
    client = signed_in(gateway, Right.VIEWER)
    queued = [said(gateway, f"/plans/{plan_id}"), said(gateway, f"/plans/{plan_id}/steps/look")]
    assert "○ queued look" in queued[0]
    assert "○ queued look" in queued[1]
    assert "and will not be" not in queued[1]
    assert client.get(f"/v1/plans/{plan_id}/steps/look").json()["activity"]["kind"] == "queued"

    planner.client.xreadgroup("controllers", "ctl-1", {Partition(0).steps("default"): ">"})

    assert "▶ ACTIVE look" in said(gateway, f"/plans/{plan_id}")


def test_every_halt_revision_and_refusal_is_told_with_its_values(gateway: Gateway, planner: Planner) -> None:
    revised, ended, asks = retried(planner), halted(planner), asking(planner)
    client = signed_in(gateway, Right.OPERATOR)
    form = client.get(f"/plans/{asks}/acts/pause").text.partition("/acts/")[2]
    fields = dict(re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)"', form))
    with obeying(planner.container):
        refused = client.post(f"/plans/{asks}/acts/resume", data={**fields, "reason": "I want it"})

    revision, halt, refusal = (
        said(gateway, f"/plans/{each}").partition("Decisions and their reasons")[2] for each in (revised, ended, asks)
    )

    assert "because of COMPILATION_ERROR count failure 1, 2 retries allowed" in revision
    assert "to go on Finish fix-b-syntax-check." in revision
    assert re.search("Halted fix-b .* rule security value ALLOWLIST_VIOLATION to go on", halt)
    assert refused.status_code == 409
    assert re.search(r"Refused .* The command resume by .* was refused\. why the plan is not paused", refusal)
    assert "reason I want it" in refusal


def test_budgets_say_what_is_expected_and_whether_that_is_enough(gateway: Gateway, planner: Planner) -> None:
    enough, short, over = executing(planner), planner.submit(limits={"tokens": 60_500}), completed(planner)

    shown = {name: said(gateway, f"/plans/{each}") for name, each in (("enough", enough), ("short", short))}
    forecast = planner.view(short).forecast

    assert forecast is not None
    missing = forecast.tokens.needed + planner.view(short).budget.tokens.reserved - 60_500  # type: ignore[operator]
    assert missing > 0
    assert f"more expected: {missing:,} too few" in shown["short"]
    assert re.search(r"Tokens [\d,]+ of .*? more expected.*?: enough", shown["enough"])
    assert planner.view(over).forecast is None
    assert "more expected" not in said(gateway, f"/plans/{over}")


def test_views_of_a_large_plan_are_read_in_pages(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = large(planner), signed_in(gateway, Right.VIEWER)

    assert client.get(f"/plans/{plan_id}/timeline?first=1").status_code == 200
    for query in ("first=x", "first=-1", f"controller={'x' * 301}"):
        assert client.get(f"/plans/{plan_id}/timeline?{query}").status_code == 422


def test_a_plan_that_waits_for_an_approval_leads_to_the_step_and_names_no_command(
    gateway: Gateway, planner: Planner
) -> None:
    plan_id = asking(planner)
    client = signed_in(gateway, Right.VIEWER)

    plan, listed = client.get(f"/plans/{plan_id}").text, client.get("/").text

    assert f'To decide: <a href="/plans/{plan_id}/steps/change">change</a>' in plan
    for page in (plan, listed):
        assert "May step change start?" in page
        assert "planner approve" not in page


def test_lines_of_the_log_have_their_times(gateway: Gateway, planner: Planner) -> None:
    page = signed_in(gateway, Right.VIEWER).get(f"/plans/{retried(planner)}").text

    lines = re.findall(
        r"<li id=\"log-\d+\"> *\d+  <time datetime=\"(.*?)\" title=\"(.*?)\">", page.partition('class="log"')[2]
    )

    assert len(lines) == 3
    assert all(title == f"{at[:10]} {at[11:23]} UTC" for at, title in lines)
    assert "from look to look, fix-b-syntax-check" in page  # a list as words, not as a program writes it


def test_a_plan_shows_which_tests_it_was_told_are_flaky(gateway: Gateway, planner: Planner) -> None:
    today = time.time_ns() // 1_000_000 // DAY_MS
    flaky_memory.add(planner.client, 1, "default", "acme/shop", [Sighting(today, f"tests/t.py::{HOSTILE[:40]}", 3)])
    plan_id = planner.submit(context={"repo": "acme/shop"})

    assert f"Flaky before tests/t.py::{HOSTILE[:40]}" in said(gateway, f"/plans/{plan_id}")


def test_a_plan_that_was_drafted_from_the_cache_leads_to_the_plan_whose_draft_it_has(
    gateway: Gateway, planner: Planner
) -> None:
    first, again = planner.submit(), planner.submit()
    k = Partition(0).plan(again)
    raw: Any = planner.client.hget(k.plan, "head")
    head = codec.loads(raw)
    planner.client.hset(k.plan, "head", codec.dumps({**head, "cache": [HIT, "f", 60, first]}))

    assert re.search(f"Draft of {first} ?, from the plan cache", said(gateway, f"/plans/{again}"))


def test_what_would_let_a_step_go_on_is_not_told_of_a_plan_that_has_ended(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = retried(planner), signed_in(gateway, Right.OPERATOR)
    order = {"command": "cancel", "scope": "plan", "reason": "enough"}

    def revised() -> list[str]:
        decided = client.get(f"/plans/{plan_id}").text.partition('id="decisions"')[2]
        return [each for each in decided.split("<li") if "<dt>revision</dt>" in each]

    living = revised()
    with obeying(planner.container):
        gateway.client(Right.OPERATOR).post(f"/v1/plans/{plan_id}/commands?wait=10", json=order)
    ended = revised()

    assert planner.view(plan_id).ended_at
    assert [len(living), len(ended)] == [1, 1]
    assert ["<dt>to go on</dt>" in each for each in (*living, *ended)] == [True, False]
