"""The page in a real Chromium: by keyboard, in both themes, live, and without script."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from schemas.api_key import Right
from tests.support.browser import HOSTILE, LAPTOP, NARROW, PHONE, WIDE, Tab, tab
from tests.support.gateway import Gateway, running_gateway
from tests.support.page_views import views
from tests.support.planner import Planner, asking, executing, halted, hostile, obeying
from tests.support.programs import needs
from worker.gateway.broadcast import MOST_OF_A_KEY
from worker.gateway.page import fleet_view
from worker.gateway.routes import events
from worker.store.keys import Partition

pytestmark = [pytest.mark.outages, needs("chromium")]

HIDE = """() => {
  Object.defineProperty(document, "hidden", {value: true, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@needs("npm:axe-core")
@pytest.mark.parametrize(
    ("theme", "sizes"),
    [
        pytest.param("light", (LAPTOP, WIDE), id="light-wide"),
        pytest.param("dark", (PHONE, NARROW), id="dark-narrow", marks=pytest.mark.long),
        pytest.param("light", (PHONE, NARROW), id="light-narrow", marks=pytest.mark.long),
        pytest.param("dark", (LAPTOP, WIDE), id="dark-wide", marks=pytest.mark.long),
    ],
)
def test_nothing_keeps_anybody_from_reading_a_page_or_acting_on_it(
    browser: Browser, gateway: Gateway, planner: Planner, theme: str, sizes: tuple[ViewportSize, ...]
) -> None:
    with tab(browser, gateway, color_scheme=theme) as opened:
        found: dict[str, list[str]] = {}

        def look(name: str) -> None:
            found[name] = []
            for size in sizes:
                opened.page.set_viewport_size(size)
                found[name] += () if opened.fits() else [f"wider than {size['width']} px"]
            opened.page.set_viewport_size(sizes[0])
            found[name] += opened.violations()

        opened.open("/")
        look("sign in")
        page = opened.sign_in(gateway.key(Right.ADMIN))
        for name, path in views(planner).items():
            opened.open_whole(path)
            look(name)
        for name, files in (("drawn", "src/a.py"), ("wrong", "../a.py")):
            opened.open("/goals/new?goal=Fix+the+test&language=python")
            page.get_by_label("Files that may change").fill(files)
            page.get_by_role("button", name="Draw the plan").click()
            page.locator("#answer").wait_for()
            look(name)

        assert {name: told for name, told in found.items() if told} == {}
        assert opened.troubles == []


def test_text_from_outside_does_nothing(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    planner.submit(goal=HOSTILE, context={"repo": HOSTILE})

    page = viewer.sign_in(gateway.key(Right.VIEWER))

    expect(page).to_have_title("Plans · Planner")
    expect(page.locator("#list")).to_contain_text("<script>document.title='owned'</script>")
    assert page.locator("#list img, #list script").count() == 0
    plan_id = hostile(planner, HOSTILE)
    page = viewer.open_whole(f"/plans/{plan_id}")
    expect(page.locator("h1")).to_contain_text("<script>document.title='owned'</script>")
    for shown in (".attempt pre", ".attempt .note", ".step-head"):
        assert "document.title='owned'" in page.locator(f"#step-fix-b {shown}").first.inner_text()
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "owned"


def test_a_list_shows_what_happens_and_keeps_what_its_reader_does(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    first = planner.submit()
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    expect(page.locator(".stream")).to_have_text("live")
    page.get_by_text("Filters").click()
    page.get_by_label("Repository").fill("acme/")
    page.locator(f"#{first} a").focus()

    ended, waits = halted(planner), asking(planner)

    expect(page.locator(f"#list #{ended} .state")).to_contain_text("HALTED")
    expect(page.locator(f"#needs #needs-{waits}")).to_be_visible()
    expect(page.get_by_label("Repository")).to_have_value("acme/")
    expect(page.locator(f"#{first} a")).to_be_focused()


def test_a_plan_shows_what_happens_and_keeps_open_what_its_reader_opened(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    expect(page.locator(".stream")).to_have_text("live")
    page.locator("#more-look summary").click()

    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])

    expect(page.locator(".banner.red")).to_contain_text("security")
    expect(page.locator(".graph .node.HALTED")).to_have_count(1)
    expect(page.locator("#more-look")).to_have_attribute("open", "")
    expect(page.locator("#log-lines")).to_contain_text("outcome of fix-b")


def test_a_plan_is_asked_for_again_once_something_has_happened_and_not_before(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    address = f"{gateway.url}/plans/{plan_id}"
    viewer.open(f"/plans/{plan_id}")
    expect(page.locator(".stream")).to_have_text("live")
    before = asked.count(address)

    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])

    expect(page.locator(".banner.red")).to_contain_text("security")
    assert (before, asked.count(address) > 1) == (1, True)


def test_a_graph_leads_to_its_steps_by_keyboard(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")

    page.locator(".graph a").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{gateway.url}/plans/{plan_id}#step-fix-b")


def test_a_person_approves_by_keyboard_and_cancels_by_mouse(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    plan_id = asking(planner)
    page = viewer.sign_in(gateway.key(Right.OPERATOR), f"/plans/{plan_id}")
    page.get_by_role("link", name="Approve step change").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Approve step change?")
    page.get_by_label("Reason").focus()
    page.keyboard.type("looked at")
    with obeying(planner.container):
        page.keyboard.press("Enter")
        expect(page.locator(".banner.green")).to_have_text("Approve: done.")
        expect(page.locator("#step-change .state.WAITS")).to_have_count(0)
        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#head .state.HALTED")).to_be_visible()

    assert page.locator(".acts a").count() == 0
    halt = planner.view(plan_id).halt
    assert halt is not None
    assert halt.rule == "manual"


def test_a_page_goes_on_when_its_gateway_was_gone(browser: Browser, redis_url: str) -> None:
    planner = Planner(redis_url)
    with running_gateway(redis_url) as before, tab(browser, before) as opened:
        port = before.listener.getsockname()[1]
        page = opened.sign_in(before.key(Right.VIEWER))
        expect(page.locator(".stream")).to_have_text("live")
        before.stop()
        expect(page.locator(".stream")).to_have_text("reconnecting", timeout=60_000)
        ended = halted(planner)
        with running_gateway(redis_url, port=port):
            expect(page.locator(f"#{ended}")).to_be_visible(timeout=60_000)
            expect(page.locator(".stream")).to_have_text("live")


def test_the_fleet_is_brought_up_to_date_in_silence_too_and_never_while_its_tab_is_hidden(
    viewer: Tab, gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COMMENT_S", "LOOK_S"):
        monkeypatch.setattr(events, name, 0.5)
    monkeypatch.setattr(fleet_view, "UPDATE_MS", 500)
    planner.submit()
    page = viewer.sign_in(gateway.key(Right.VIEWER), "/fleet")
    expect(page.locator(".stream")).to_have_text("live")
    waiting = page.locator("#queues td[data-label=Waiting]")
    expect(waiting).to_have_text("1")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    with page.expect_request("**/fleet"):  # before that, what is on its way since before `asked` may bring the figure
        planner.client.xtrim(Partition(0).steps("default"), 0)  # of which no event tells
        expect(waiting).to_have_text("0")
    page.evaluate(HIDE)
    expect(page.locator(".stream")).to_have_text("paused")
    page.wait_for_timeout(1000)  # for what was asked for before
    before = len(asked)
    page.wait_for_timeout(3000)

    assert len(asked) == before > 0


def test_a_page_of_a_key_that_follows_too_many_lists_says_that_it_is_not_live(viewer: Tab, gateway: Gateway) -> None:
    client = gateway.with_token(token := gateway.key(Right.VIEWER))
    with ExitStack() as open_lists:
        for number in range(MOST_OF_A_KEY):
            open_lists.enter_context(client.stream("GET", "/live", params={"text": f"word{number}"}))

        page = viewer.sign_in(token)

        expect(page.locator(".stream")).to_have_text("not live: too much at once")


def test_times_are_the_readers_and_utc_is_kept(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit()
    page = viewer.sign_in(gateway.key(Right.VIEWER))

    said: Any = page.locator(f"#{plan_id} time")

    expect(said).not_to_contain_text("UTC")
    expect(said).to_have_attribute("title", re.compile(" UTC$"))


def test_a_list_can_be_read_and_filtered_without_script(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    ended, _ = halted(planner), planner.submit()
    with tab(browser, gateway, java_script_enabled=False) as opened:
        page = opened.sign_in(gateway.key(Right.VIEWER))
        page.get_by_text("Filters").click()
        page.locator("select[name=state]").select_option("HALTED")
        page.get_by_role("button", name="Filter").click()

        expect(page).to_have_url(re.compile("state=HALTED"))
        rows = page.locator("#list tbody tr")
        expect(rows).to_have_count(1)
        assert rows.get_attribute("id") == ended
        assert "UTC" in page.locator(f"#{ended} time").inner_text()


def test_twenty_plans_are_seen_at_once_on_a_small_screen(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    asking(planner)
    for _ in range(25):
        planner.submit()
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    page.set_viewport_size({"width": 1280, "height": 800})

    rows = page.locator(".plans tbody tr").evaluate_all(
        "rows => rows.filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length"
    )

    assert rows >= 20


def test_keys_move_through_the_list_and_select(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    older, newer = executing(planner), executing(planner)
    page = viewer.sign_in(gateway.key(Right.ADMIN))
    page.locator("#main").focus()

    page.keyboard.press("j")
    expect(page.locator(f"#{newer} td.goal a")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator(f"#{older} [form=selected]")).to_be_checked()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("?j")
    expect(page.locator("#find")).to_have_value("?j")
