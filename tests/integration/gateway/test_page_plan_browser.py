"""Views of plans in a real browser: lists that go on, time lines and documents, by mouse and keyboard."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, expect

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.browser import HOSTILE, NARROW, Tab, tab
from tests.support.gateway import Gateway
from tests.support.page_views import DOCUMENTS, plan_views, said_everywhere, with_document
from tests.support.planner import Planner, executing, hostile, obeying, questioned, retried
from tests.support.programs import needs

pytestmark = [pytest.mark.outages, needs("chromium")]

SLOW_READS = """() => {
  const ask = window.fetch;
  let running = 0;
  window.reads = [];
  window.fetch = async (what, how) => {
    if (!String(what).includes("cursor=")) return ask(what, how);
    window.reads.push({at: performance.now(), others: running++});
    await new Promise((done) => setTimeout(done, 900));
    return ask(what, how).finally(() => running--);
  };
}"""


def test_text_from_outside_does_nothing_on_any_view(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    viewer.sign_in(gateway.key(Right.VIEWER))
    attacked = hostile(planner, HOSTILE)
    paths = list(plan_views(attacked).values())
    for each in DOCUMENTS:
        document = said_everywhere(each["document"], HOSTILE)
        paths.append(f"/plans/{with_document(planner, each['kind'], document, goal=HOSTILE)}/document")

    for path in paths:
        page = viewer.open_whole(path)
        assert page.locator("main img, main script, main svg[onload]").count() == 0, path
        assert page.title() != "owned", path
        assert "document.title='owned'" in page.locator("main").inner_text(), path


def test_a_list_goes_on_where_its_reader_scrolls(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    made = [planner.submit() for _ in range(160)]
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    expect(page.locator(".stream")).to_have_text("live")

    def comes_to_the_oldest() -> bool:
        page.keyboard.press("End")  # of what is there so far: the list grows meanwhile
        return bool(page.evaluate(f"document.getElementById('{made[0]}')?.getBoundingClientRect().top < innerHeight"))

    wait_until(comes_to_the_oldest, what="the oldest plan is seen")
    shown = page.locator(".plans tbody tr").evaluate_all("rows => rows.map(row => row.id)")
    page.keyboard.press("Home")
    newer = [planner.submit() for _ in range(3)]
    expect(page.locator(f"#list [id='{newer[-1]}']")).to_be_visible()
    now = page.locator(".plans tbody tr").evaluate_all("rows => rows.map(row => row.id)")

    assert shown == made[::-1]
    assert now == [*newer[::-1], *made[::-1]]  # what newer ones pushed out of the first page is there, once
    expect(page.locator("#more a[rel=next]")).to_have_count(0)


def test_what_is_seen_of_older_plans_is_live_too(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    oldest = executing(planner)
    for _ in range(60):
        planner.submit()
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    expect(page.locator(".stream")).to_have_text("live")
    page.locator("#more").scroll_into_view_if_needed()
    row = page.locator(f".chunk [id='{oldest}']")
    row.scroll_into_view_if_needed()
    expect(row.locator(".state")).to_contain_text("EXECUTING")

    planner.report("fix-b", oldest, touched_files=["etc/passwd"])

    expect(row.locator(".state")).to_contain_text("HALTED")


def test_older_plans_that_are_seen_are_read_anew_one_part_at_a_time_and_at_most_every_five_seconds(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    older = [executing(planner), executing(planner)]
    made = [planner.submit() for _ in range(60)]
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    expect(page.locator(".stream")).to_have_text("live")
    page.locator("#more").scroll_into_view_if_needed()
    page.locator(f".chunk [id='{older[0]}']").scroll_into_view_if_needed()
    page.evaluate(SLOW_READS)

    for plan_id in older:  # the second ends after a read has shown the first one's end: it takes another read
        for other in (made.pop() for _ in range(4)):
            planner.report("look", other, touched_files=["etc/passwd"])
            expect(page.locator(f"[id='{other}'] .state")).to_contain_text("HALTED")
        planner.report("fix-b", plan_id, touched_files=["etc/passwd"])
        expect(page.locator(f".chunk [id='{plan_id}'] .state")).to_contain_text("HALTED")

    reads = page.evaluate("window.reads")
    assert len(reads) >= 2
    assert max(each["others"] for each in reads) == 0
    times = [each["at"] for each in reads]
    assert min(later - before for before, later in pairwise(times)) > 4900


def test_older_plans_are_asked_for_by_keyboard(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    made = [planner.submit() for _ in range(4)]
    with tab(browser, gateway, java_script_enabled=False) as opened:
        page = opened.sign_in(gateway.key(Right.VIEWER), "/?limit=3")
        page.get_by_role("link", name="Older plans").focus()
        page.keyboard.press("Enter")

        expect(page.locator(".plans tbody tr")).to_have_count(1)
        assert page.locator(".plans tbody tr").get_attribute("id") == made[0]


def test_plans_are_found_by_words(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    wanted = planner.submit(goal="Make the LOGIN survive a timeout")
    planner.submit(goal="Make the cart survive")
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    page.get_by_text("Filters").click()
    page.get_by_label("Words in its goal").fill("timeout login")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r".*text=timeout\+login.*"))
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(1)
    assert rows.get_attribute("id") == wanted


def test_from_a_plan_to_its_time_line_and_to_the_attempt_of_a_step(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = retried(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    page.get_by_role("link", name="Time line").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#timeline")).to_be_in_viewport()
    page.locator(".gantt a", has_text="fix-b").first.click()

    expect(page).to_have_url(f"{gateway.url}/plans/{plan_id}/steps/fix-b#attempt-1")
    expect(page.locator("#attempt-1")).to_contain_text("SyntaxError: invalid syntax")
    page.get_by_role("link", name="fix-b-syntax-check").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Check the syntax")


def test_the_page_of_a_step_is_live(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}/steps/fix-b")
    expect(page.locator(".stream")).to_have_text("live")

    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])

    expect(page.locator("#attempt-1")).to_contain_text("ALLOWLIST_VIOLATION")
    expect(page.locator("#head .state")).to_contain_text("HALTED")


def test_a_document_is_a_page_with_its_json_one_click_away(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    plan_id = with_document(planner, "campaign", next(d["document"] for d in DOCUMENTS if d["kind"] == "campaign"))
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    page.get_by_role("link", name="Read the document").click()
    expect(page.locator(".document")).to_contain_text("6 of 6 tasks are complete")
    page.get_by_text("As JSON", exact=True).click()

    expect(page.locator("#raw-json pre")).to_be_visible()
    assert json.loads(page.locator("#raw-json pre").inner_text())["campaign"] == "shipping"


def test_nothing_jumps_while_a_plan_goes_on(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    with tab(browser, gateway, viewport=NARROW, reduced_motion="reduce") as opened:
        page = opened.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
        expect(page.locator(".stream")).to_have_text("live")
        page.evaluate(
            "new PerformanceObserver(list => { window.jumps = (window.jumps ?? 0)"
            " + list.getEntries().filter(each => !each.hadRecentInput).reduce((sum, each) => sum + each.value, 0) })"
            ".observe({type: 'layout-shift', buffered: true})"
        )
        page.locator("#steps").scroll_into_view_if_needed()
        planner.report("fix-b", plan_id, touched_files=["b.py"])
        expect(page.locator("#step-fix-b .state").first).to_contain_text("DONE")

        assert page.evaluate("window.jumps ?? 0") < 0.1  # what the web's vitals call good
        assert opened.troubles == []


def test_steps_that_come_into_being_while_a_plan_is_looked_at_are_shown(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = questioned(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    expect(page.locator(".stream")).to_have_text("live")
    assert page.locator("#steps, #graph, .jumps").count() == 0

    with obeying(planner.container):
        answer = {"command": "answer", "value": "A", "reason": "as asked"}
        said = gateway.client(Right.OPERATOR).post(f"/v1/plans/{plan_id}/commands?wait=30", json=answer)
        assert said.status_code == 200, said.text

    expect(page.locator("#steps .steps li").first).to_be_visible()
    order = page.locator("main > [id]").evaluate_all("all => all.map((each) => each.id)")
    page.reload()
    assert order == page.locator("main > [id]").evaluate_all("all => all.map((each) => each.id)")
    assert {"on-this-page", "graph", "steps"} <= set(order)


def test_a_line_of_the_log_stays_where_it_is_read_while_others_come(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    expect(page.locator(".stream")).to_have_text("live")
    line = page.locator("#log li").first
    number, text = line.get_attribute("id"), line.inner_text()
    line.evaluate("each => { window.mine = each; getSelection().selectAllChildren(each); }")

    planner.report("fix-b", plan_id, touched_files=["b.py"])

    expect(page.locator("#log li").first).not_to_have_attribute("id", str(number))
    assert page.evaluate("window.mine.isConnected && getSelection().toString().trim() === window.mine.innerText.trim()")
    assert (page.locator(f"#{number}").inner_text(), page.evaluate("window.mine.id")) == (text, number)
