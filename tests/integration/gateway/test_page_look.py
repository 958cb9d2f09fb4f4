"""What the page promises everybody, in a real Chromium: large screens, no motion, mouse or script, and local time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.browser import MOST_TABS, NARROW, WIDE, Tab, tab
from tests.support.gateway import Gateway
from tests.support.page_views import plan_views, views
from tests.support.planner import RISKY, STEPS, Planner, asking, deciding, executing, lost
from tests.support.programs import needs

pytestmark = [pytest.mark.outages, needs("chromium")]

LARGE = {"width": 3840, "height": 2160}
LONGEST = 75  # times its size, that a line of text may be; about 140 letters
SMALLEST = 0.004  # of the width of a large screen, that a letter is high
MOST_SHIFT = 0.1  # of the layout: what the web's vitals call good
ZONE = ZoneInfo("Europe/Berlin")  # of a tab

LINES = """() => [...document.querySelectorAll("main :is(p, dd, li, summary)")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.querySelector("p, dd, li, pre, table") && !each.closest(".log, table"))
  .map((each) => {
    const text = document.createRange();
    text.selectNodeContents(each);
    const widest = Math.max(0, ...[...text.getClientRects()].map((line) => line.width));
    const size = parseFloat(getComputedStyle(each).fontSize) * each.currentCSSZoom;
    return {says: each.textContent.trim(), size, ems: widest / size};
  }).filter((each) => each.says)"""
BEGIN = """(each) => each.getBoundingClientRect().left
  + parseFloat(getComputedStyle(each).paddingLeft) * each.currentCSSZoom"""
MOVES = """() => {
  window.moves = [];
  document.addEventListener("transitionrun", (event) => window.moves.push(event.propertyName));
  document.addEventListener("animationstart", (event) => window.moves.push(event.animationName));
}"""
SHIFTS = """
  window.shift = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) window.shift += each.value;
  }).observe({type: "layout-shift", buffered: true});
"""
PLACES = """(each) => {
  window.places = [];
  const look = () => { window.places.push(each.getBoundingClientRect().top); requestAnimationFrame(look); };
  look();
}"""
CONTROLS = """() => {
  const name = (each, number) =>
    each.type === "radio" ? `radio ${each.name}` : `${number} ${each.outerHTML.slice(0, 80)}`;
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")];
  window.named = new Map(all.map((each, number) => [each, name(each, number)]));
  return all.filter((each) => each.checkVisibility() && !each.disabled).map((each) => window.named.get(each));
}"""
FOCUSED = "() => window.named.get(document.activeElement) ?? null"


@pytest.mark.long
def test_a_large_screen_is_used_and_lines_stay_short(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    with tab(browser, gateway, viewport=LARGE) as opened:
        page = opened.sign_in(gateway.key(Right.ADMIN))
        for name, path in views(planner).items():
            opened.open_whole(path)
            assert opened.fits(), name
            (left, right) = page.locator("main").evaluate(
                "each => [each.getBoundingClientRect().left, innerWidth - each.getBoundingClientRect().right]"
            )
            assert left == pytest.approx(right, abs=20), name
            begin = page.locator("main").evaluate(BEGIN)
            assert page.locator(".brand").evaluate(BEGIN) == pytest.approx(begin, abs=2), name
            lines = page.evaluate(LINES)
            assert [each for each in lines if each["ems"] > LONGEST] == [], name
            assert [each for each in lines if each["size"] < SMALLEST * LARGE["width"]] == [], name


@pytest.mark.parametrize("reduced_motion", ["no-preference", "reduce"])
def test_nothing_moves_for_those_who_ask_for_that(
    browser: Browser, gateway: Gateway, planner: Planner, reduced_motion: str
) -> None:
    plan_id = executing(planner)
    with tab(browser, gateway, reduced_motion=reduced_motion) as opened:
        page = opened.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
        expect(page.locator(".stream")).to_have_text("live")
        page.evaluate(MOVES)

        planner.report("fix-b", plan_id, touched_files=["b.py"], metrics={"tokens_used": 40_000})
        expect(page.locator("#step-fix-b .state").first).to_contain_text("DONE")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

        assert bool(page.evaluate("window.moves")) is (reduced_motion == "no-preference")


RISKY_LATER = [STEPS[0], {**RISKY[1], "step_id": "fix-b", "depends_on": ["look"]}, STEPS[2]]


def end_plan(planner: Planner, plan_id: str) -> None:
    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])


def ask_a_person(planner: Planner, plan_id: str) -> None:
    planner.report("look", plan_id)


LIVE: dict[str, tuple[str, Callable[[Planner, str], object], str]] = {  # where, what happens, where it is seen
    "plan": ("/plans/{}", end_plan, "#head .state.HALTED"),
    "plan that asks": ("/plans/{}", ask_a_person, "#asks"),
    "step": ("/plans/{}/steps/fix-b", end_plan, "#head .state.HALTED"),
    "time line": ("/plans/{}/timeline", end_plan, "#head .state.HALTED"),
    "list": ("/", end_plan, "#list .state.HALTED"),
    "list of a plan that asks": ("/", ask_a_person, "#needs a"),
    "filtered list": ("/?tenant=default", ask_a_person, "#needs a"),
    "fleet": ("/fleet", lambda planner, _: planner.submit(queue="other"), "#queues th:has-text('other')"),
}


@pytest.mark.long
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("view", LIVE)
def test_nothing_jumps_while_a_page_is_opened_and_brought_up_to_date(
    browser: Browser, gateway: Gateway, planner: Planner, view: str, size: dict[str, int]
) -> None:
    path, happens, seen = LIVE[view]
    plan_id = planner.submit(steps=RISKY_LATER, approvals=["HIGH"]) if happens is ask_a_person else executing(planner)
    with tab(browser, gateway, viewport=size, reduced_motion="reduce") as opened:
        page = opened.sign_in(gateway.key(Right.ADMIN))
        page.add_init_script(SHIFTS)
        opened.open(path.format(plan_id))
        expect(page.locator(".stream")).to_have_text("live")

        happens(planner, plan_id)
        expect(page.locator(seen).first).to_be_attached()

        assert settled(page) < MOST_SHIFT


@pytest.mark.long
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_new_plans_move_nothing_that_somebody_has_scrolled_to(
    browser: Browser, gateway: Gateway, planner: Planner, size: dict[str, int]
) -> None:
    for _ in range(45):
        planner.submit()
    with tab(browser, gateway, viewport=size, reduced_motion="reduce") as opened:
        page = opened.sign_in(gateway.key(Right.VIEWER))
        expect(page.locator(".stream")).to_have_text("live")
        row = page.locator("#list tbody tr").nth(42)
        row.scroll_into_view_if_needed()
        row.evaluate(PLACES)

        newer = [planner.submit() for _ in range(3)]
        expect(page.locator(f"[id='{newer[-1]}']")).to_be_attached()
        page.evaluate("() => new Promise((done) => setTimeout(done, 100))")

        places = page.evaluate("window.places")
        assert max(places) - min(places) <= 2  # px, in every frame


def test_a_notice_that_comes_lies_over_the_page_until_its_reader_does_something(
    viewer: Tab, gateway: Gateway, planner: Planner
) -> None:
    plan_id = executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER), f"/plans/{plan_id}")
    expect(page.locator(".stream")).to_have_text("live")

    end_plan(planner, plan_id)
    expect(page.locator("#ended")).to_have_css("position", "fixed")
    expect(page.locator("#ended")).to_be_in_viewport()
    page.keyboard.press("Shift")

    expect(page.locator("#ended")).to_have_css("position", "static")
    expect(page.locator("#head #ended")).to_be_visible()


def settled(page: Page) -> float:
    """How far the layout has shifted, once what the last change moves has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    return float(page.evaluate("window.shift"))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_form_jumps_while_it_is_opened_and_filled_in(
    browser: Browser, gateway: Gateway, planner: Planner, size: dict[str, int]
) -> None:
    plan_id = asking(planner)
    forms = {"/goals/new": "What shall be done", f"/plans/{plan_id}/acts/approve?step_id=change": "Reason"}
    with tab(browser, gateway, viewport=size, reduced_motion="reduce") as opened:
        page = opened.sign_in(gateway.key(Right.ADMIN))
        page.add_init_script(SHIFTS)
        for path, label in forms.items():
            opened.open(path)
            page.get_by_label(label).fill("Look at it, " * 20)

            assert settled(page) < MOST_SHIFT, path


def reached(page: Page) -> set[str]:
    """What the Tab key leads to, from the beginning of a page to its end; what is folded is opened."""
    found: set[str] = set()
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at in found and "radio" not in at:
            break
        if at:
            found.add(at)
        if page.evaluate("() => document.activeElement.matches('details:not([open]) > summary')"):
            page.keyboard.press("Enter")
    return found


def test_the_keyboard_reaches_whatever_one_acts_with(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    with tab(browser, gateway) as opened:
        page = opened.sign_in(gateway.key(Right.ADMIN))
        acts = {name: path for name, path in views(planner).items() if "/acts/" in path or "/goals/new" in path}
        assert len(acts) > 12
        for name, path in {**acts, "dead": "/dead", "fleet": "/fleet"}.items():
            opened.open_whole(path)
            controls = set(page.evaluate(CONTROLS))

            assert controls - reached(page) == set(), name


@pytest.mark.long
def test_times_are_the_readers_on_every_view_with_utc_on_hover(
    browser: Browser, gateway: Gateway, planner: Planner
) -> None:
    seen = 0
    with tab(browser, gateway) as opened:
        page = opened.sign_in(gateway.key(Right.ADMIN))
        for name, path in views(planner).items():
            opened.open_whole(path)
            times: Any = page.locator("main time:not([data-age])").evaluate_all(
                "all => all.map((each) => [each.dateTime, each.title, each.textContent])"
            )
            for at, title, text in times:
                moment = datetime.fromisoformat(at)
                assert title.startswith(at[:19].replace("T", " ")), name
                assert title.endswith(" UTC"), name
                local = moment.astimezone(ZONE)
                # The other form of times, of another year, has hours of one digit.
                assert re.search(rf"(?<!\d)0?{int(f'{local:%I}')}:{local:%M}", text), (name, at, text)
            seen += len(times)
    assert seen > 100


def words(page: Page) -> str:
    """What a page says, but its times and how long ago things were."""
    text: str = page.locator("main").evaluate(
        "each => { for (const time of each.querySelectorAll('time, .gantt, .note, .doing')) time.remove();"
        " return each.innerText; }"
    )
    return re.sub(r"\d+", "0", " ".join(text.split()))


@pytest.mark.long
def test_every_view_of_a_plan_says_the_same_without_script(
    browser: Browser, gateway: Gateway, planner: Planner
) -> None:
    plan_id = lost(planner)
    told = []
    for has_script in (True, False):
        with tab(browser, gateway, java_script_enabled=has_script) as opened:
            opened.sign_in(gateway.key(Right.VIEWER))
            told.append({name: words(opened.open(path)) for name, path in plan_views(plan_id, "implement-fix").items()})

    assert told[0] == told[1]
    assert "security" in told[0]["plan"]


def test_forms_are_used_without_script(browser: Browser, gateway: Gateway, planner: Planner) -> None:
    plan_id = executing(planner)
    with tab(browser, gateway, java_script_enabled=False) as opened, deciding(planner):
        page = opened.sign_in(gateway.key(Right.ADMIN), f"/plans/{plan_id}")
        page.get_by_role("link", name="Top up").click()
        page.get_by_role("button", name="Top up").click()
        expect(page.locator(".alert")).to_contain_text("Enter the amounts to add")
        page.get_by_label("More tokens").fill("5000")
        page.get_by_role("button", name="Top up").click()
        expect(page.locator(".banner.green")).to_have_text("Top up: done.")
        page.get_by_role("link", name="New goal").click()
        page.get_by_label("What shall be done").fill("Fix the login test")
        page.get_by_label("Files that may change").fill("../a.py")
        page.get_by_role("button", name="Draw the plan").click()
        expect(page.locator("#answer")).to_contain_text("Files that may change, line 1")
        page.get_by_label("Files that may change").fill("src/a.py")
        page.get_by_role("button", name="Send the goal").click()

        expect(page).to_have_url(re.compile("/plans/plan_"))
        expect(page.locator("h1")).to_have_text("Fix the login test")
    wait_until(lambda: planner.view(plan_id).budget.tokens.limit == 405_000, what="the budget is raised")


def test_a_reader_of_a_hidden_tab_is_told_that_it_rests(viewer: Tab, gateway: Gateway, planner: Planner) -> None:
    executing(planner)
    page = viewer.sign_in(gateway.key(Right.VIEWER))
    expect(page.locator(".stream")).to_have_text("live")

    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    expect(page.locator(".stream")).to_have_text("paused")
    added = planner.submit()
    page.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")

    expect(page.locator(f"[id='{added}']")).to_be_visible()
    expect(page.locator(".stream")).to_have_text("live")
