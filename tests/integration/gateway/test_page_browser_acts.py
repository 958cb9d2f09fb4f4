"""What people do on the page, in a real Chromium: each act by mouse and by keyboard, live, and whatever texts say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from redis import Redis

from schemas.api_key import Right
from schemas.plan import PlanView
from tests.bench import fleet
from tests.conftest import wait_until
from tests.support.attacks import BY_CLASS
from tests.support.browser import HOSTILE, Hand, Tab, tab
from tests.support.faults import kill, spawn
from tests.support.gateway import Gateway, listen
from tests.support.planner import Planner, asking, deciding, executing, halted, hostile, lost, paused, questioned
from tests.support.programs import needs
from tests.support.servers import publish
from worker.process.launch import gateway_command, worker_command
from worker.store import dead, kept_goals, keys
from worker.store.dead import Filter

pytestmark = [pytest.mark.outages, needs("chromium")]

ROUNDS, PLANS, STEPS = 5, 10, 20
WATCH_LIST = """() => {
  window.changed = [];
  const watch = new MutationObserver(() => changed.push(performance.now()));
  watch.observe(document.querySelector("#list"), { childList: true, subtree: true, characterData: true });
}"""
LEAST_MS = 450  # between two updates of a tab, which asks for one each 500 ms at most
MARKUP = (
    HOSTILE,
    '"><svg/onload=document.title="owned">',
    "<style>main{display:none}</style><link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/><meta http-equiv=refresh content=0;url=//evil.example>",
    "<iframe srcdoc=\"<script>parent.document.title='owned'</script>\"></iframe>",
    "<form action=//evil.example><button autofocus>ok",
    "<!-- --!> <![CDATA[ ]]> </pre></code></li></section></main>",
    "javascript:document.title='owned'//&lt;script&gt;&#60;script&#62;",
    "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07 \x9b31m \u2066\u202e\u200b\u0000",
)


def is_halted(view: PlanView) -> bool:
    return view.state == "HALTED"


Fill = Callable[[Hand], None]
ACTS: dict[str, tuple[Callable[[Planner], str], str, Fill, Callable[[PlanView], bool]]] = {
    "Pause": (executing, "Pause", lambda _: None, lambda view: view.paused_by is not None),
    "Resume": (paused, "Resume", lambda _: None, lambda view: view.paused_by is None),
    "Top up": (
        executing,
        "Top up",
        lambda hand: hand.write(hand.page.get_by_label("More tokens"), "5000"),
        lambda view: view.budget.tokens.limit == 405_000,
    ),
    "Tighten": (
        executing,
        "Tighten step a-check",
        lambda hand: hand.select(hand.page.get_by_label("Risk from now on"), "HIGH"),
        lambda view: {step.step_id: step.risk_level for step in view.steps}["a-check"] == "HIGH",
    ),
    "Cancel": (executing, "Cancel", lambda _: None, is_halted),
    "Halt": (
        executing,
        "Halt",
        lambda hand: hand.write(hand.page.get_by_label("Reason"), "the wrong branch"),
        lambda view: view.halt is not None and "the wrong branch" in str(view.halt),
    ),
    "Answer": (
        questioned,
        "Answer",
        lambda hand: hand.choose(hand.page.locator("[name=choice][value=A]")),
        lambda view: view.waiting is None,
    ),
    "Approve": (
        asking,
        "Approve step change",
        lambda hand: hand.write(hand.page.get_by_label("Reason"), "looked at"),
        lambda view: not any(step.waiting for step in view.steps),
    ),
    "Reject": (asking, "Reject step change", lambda _: None, is_halted),
    "Skip": (
        asking,
        "Skip step change",
        lambda _: None,
        lambda view: {step.step_id: step.state for step in view.steps}["change"] == "SKIPPED",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("act", ACTS)
def test_each_act_is_said_done_and_told(operator: Tab, planner: Planner, hand: Hand, act: str) -> None:
    shape, link, fill, is_done = ACTS[act]
    plan_id = shape(planner)
    page = operator.open(f"/plans/{plan_id}")

    hand.press(page.get_by_role("link", name=link, exact=True).first)
    expect(page.locator("h1")).to_contain_text(f"{act} ")
    expect(page.locator(".act > p").first).not_to_be_empty()
    assert not is_done(planner.view(plan_id))
    fill(hand)
    with deciding(planner):
        hand.press(page.get_by_role("button", name=act, exact=True))
        expect(page.locator(".banner.green")).to_have_text(f"{act}: done.")

    assert is_done(planner.view(plan_id))


def test_a_plan_that_has_ended_is_retried(operator: Tab, planner: Planner, hand: Hand) -> None:
    old = lost(planner)
    page = operator.open(f"/plans/{old}")

    hand.press(page.get_by_role("link", name="Retry", exact=True))
    hand.write(page.get_by_label("Limit of tokens"), "170000")
    with deciding(planner):
        hand.press(page.get_by_role("button", name="Retry"))
        page.wait_for_url(re.compile(f"/plans/plan_(?!{old[5:]})"))

    view = planner.view(page.url.rpartition("/")[2])
    assert (view.retry_of, view.budget.tokens.limit) == (old, 170_000)


DECIDED: dict[str, tuple[Callable[[Planner], str], str]] = {
    "Approve": (asking, "#decide-change button.main"),
    "Reject": (asking, "#decide-change button.danger"),
    "Answer": (questioned, "#decide button[name=choice][value=B]"),
}


@pytest.mark.parametrize("act", DECIDED)
def test_what_a_plan_asks_is_decided_on_its_page(operator: Tab, planner: Planner, hand: Hand, act: str) -> None:
    shape, button = DECIDED[act]
    plan_id = shape(planner)
    page = operator.open(f"/plans/{plan_id}")

    hand.write(page.locator(".decide textarea[name=reason]"), "as agreed")
    with deciding(planner):
        hand.press(page.locator(button))
        expect(page.locator(".banner.green")).to_have_text(f"{act}: done.")

    assert ACTS[act][3](planner.view(plan_id))


def test_a_halted_plan_is_retried_by_the_way_that_it_offers(operator: Tab, planner: Planner, hand: Hand) -> None:
    old = halted(planner, limits={"tokens": 300_000})
    page = operator.open(f"/plans/{old}")

    hand.press(page.get_by_role("link", name="Allow etc/passwd and start again"))
    expect(page.locator("h1")).to_contain_text("Retry ")
    with deciding(planner):
        hand.press(page.get_by_role("button", name="Retry"))
        page.wait_for_url(re.compile(f"/plans/plan_(?!{old[5:]})"))

    view = planner.view(page.url.rpartition("/")[2])
    assert (view.retry_of, view.budget.tokens.limit) == (old, 300_000)
    goal, _ = kept_goals.read(planner.client, 1, view.plan_id)
    assert goal["allowed_files"] == ["b.py", "etc/passwd"]


def test_a_goal_is_written_drawn_and_sent(operator: Tab, planner: Planner, hand: Hand) -> None:
    page = operator.open("/")
    hand.press(page.get_by_role("link", name="New goal"))
    hand.write(page.get_by_label("What shall be done"), "Fix the login test")
    hand.write(page.get_by_label("Files that may change"), "src/a.py")
    hand.press(page.get_by_text("From a report"))
    hand.write(
        page.get_by_label("or pasted"),
        '<testsuites><testsuite name="pytest"><testcase name="test_x" file="tests/test_a.py"><failure message="no"/>'
        "</testcase></testsuite></testsuites>",
    )
    hand.press(page.get_by_role("button", name="Draw the plan"))
    expect(page.locator("#preview-title")).to_contain_text("The plan would begin with")
    page.wait_for_load_state()
    drawn = page.locator(".graph .node").count()
    assert planner.client.xlen(keys.GOALS) == 0

    with deciding(planner):
        hand.press(page.get_by_role("button", name="Send the goal"))
        page.wait_for_url("**/plans/plan_*")

    view = planner.view(page.url.rpartition("/")[2])
    assert (view.goal, len(view.steps)) == ("Fix the login test", drawn)


def test_a_file_that_is_too_large_is_told_before_it_is_sent(operator: Tab, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_bytes(b" " * 5_000_000)
    page = operator.open("/goals/new")
    page.get_by_text("From a report").click()

    page.locator("[name=file]").set_input_files(report)
    page.get_by_role("button", name="Draw the plan").click()

    why = page.locator("[name=file]").evaluate("each => each.validationMessage")
    assert "This file has 4883 kB" in why
    expect(page).to_have_url(f"{operator.url}/goals/new")


def test_a_queue_is_paused_and_a_repository_halted_from_the_fleet(operator: Tab, planner: Planner, hand: Hand) -> None:
    executing(planner)
    page = operator.open("/fleet")
    with deciding(planner):
        hand.press(page.get_by_role("link", name="Pause the queue default"))
        hand.press(page.get_by_role("button", name="Pause"))
        expect(page.locator(".banner.green")).to_have_text("The pause of this queue is active.")
        page = operator.open("/fleet")
        expect(page.locator("#queues .state.PAUSED")).to_be_visible()
        hand.press(page.get_by_role("link", name="Halt…"))
        hand.write(page.get_by_label("Its name"), "acme/shop")
        hand.press(page.get_by_role("button", name="Go on"))
        expect(page.locator("h1")).to_have_text("Halt the repository acme/shop?")
        hand.press(page.get_by_role("button", name="Halt"))
        expect(page.locator(".banner.green")).to_have_text("The halt is active. Its plans end within moments.")
    page = operator.open("/fleet")

    expect(page.locator("#standing .cards")).to_contain_text("Halted: repository acme/shop")


def test_dead_entries_are_chosen_and_sent_back(operator: Tab, planner: Planner, hand: Hand) -> None:
    planner.client.xadd(keys.GOALS, {"data": b'{"goal": '})
    planner.container.goal_consumer.drain()
    page = operator.open("/")

    hand.press(page.get_by_role("link", name="Dead entries"))
    hand.press(page.locator("[name=entry]"))
    hand.press(page.get_by_role("button", name="Replay those chosen…"))
    expect(page.locator("h1")).to_have_text("Replay 1 entry?")
    hand.press(page.get_by_role("button", name="Replay"))

    expect(page.locator(".banner")).to_have_text("1 entry was sent back.")
    assert list(dead.newest(planner.client, 1, Filter())) == []


def test_texts_that_attack_do_nothing_wherever_they_are_shown(
    operator: Tab, gateway: Gateway, planner: Planner
) -> None:
    attacks = [*MARKUP, *(text for texts in BY_CLASS.values() for text in texts)]
    for text in attacks:
        planner.submit(goal=text, context={"repo": text[:200]})
        planner.client.xadd(keys.GOALS, {"data": text.encode()})
        planner.container.goal_consumer.drain()
    plans = [hostile(planner, text.replace("\x00", "")) for text in MARKUP]
    paths = ["/?limit=500", "/dead", "/fleet", *(f"/plans/{plan_id}" for plan_id in plans)]
    paths += [f"/plans/{plans[0]}/acts/{act}" for act in ("halt", "retry", "tighten?step_id=fix-b")]
    for text in MARKUP:
        asked: Any = dict.fromkeys(("goal", "repo", "report", "more", "tenant", "goal_id"), text)
        paths.append("/goals/new?" + str(httpx.QueryParams(asked)))
        paths.append("/acts/halt?" + str(httpx.QueryParams({"scope": "tenant", "target": text[:200]})))

    for path in paths:
        page = operator.open_whole(path)
        assert page.title().endswith(" · Planner"), path
        assert page.locator("main script, main img, main iframe, main style, main base, main link").count() == 0, path
        assert page.locator("form[action*='evil']").count() == 0, path
        assert not re.search("[\x00-\x08\x0b-\x1f\x9b\u202e\u2066]", page.content()), path
    operator.open("/goals/new")
    page.get_by_label("Anything else").evaluate("(each, text) => each.value = text", MARKUP[0])
    page.get_by_role("button", name="Draw the plan").click()
    expect(page.locator("#answer")).to_contain_text("no JSON")


def test_a_list_follows_fifty_plans_and_changes_at_most_twice_a_second(
    operator: Tab, gateway: Gateway, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    page = operator.open("/")
    expect(page.locator(".stream")).to_have_text("live")
    page.evaluate(WATCH_LIST)
    worker = spawn(worker_command("solo"), redis_url, tmp_path / "worker.log")
    try:
        for done in range(0, ROUNDS * PLANS, PLANS):
            publish(redis, done, PLANS, STEPS)
            fleet.work(redis, PLANS * STEPS)
            completed = page.locator("#counts a", has_text="COMPLETED").locator("b")
            expect(completed).to_have_text(f"{done + PLANS}", timeout=60_000)
            expect(page.locator("#list .state.COMPLETED")).to_have_count(done + PLANS)
    finally:
        kill(worker)

    changed: list[float] = page.evaluate("changed")
    assert len(changed) >= ROUNDS
    assert min(after - before for before, after in pairwise(changed)) >= LEAST_MS


@pytest.mark.long
def test_a_page_goes_on_when_its_gateway_was_killed(
    browser: Browser, gateway: Gateway, redis_url: str, tmp_path: Path
) -> None:
    planner = Planner(redis_url)

    @contextmanager
    def process(port: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        with listen(port) as listener:
            number, at = listener.fileno(), listener.getsockname()[1]
            environment = {"PLANNER_REDIS_URL": redis_url, "PATH": "/usr/bin:/bin"}
            started = subprocess.Popen(gateway_command(number), env=environment, cwd=tmp_path, pass_fds=(number,))
        try:
            wait_until(lambda: answers(at), 60, "the gateway answers")
            yield started, at
        finally:
            started.kill()
            started.wait(60)

    with tab(browser, gateway) as opened:
        with process(0) as (first, port):
            opened.url = f"http://127.0.0.1:{port}"
            page = opened.sign_in(gateway.key(Right.VIEWER))
            expect(page.locator(".stream")).to_have_text("live")
            first.kill()
            expect(page.locator(".stream")).to_have_text("reconnecting", timeout=30_000)
            ended = halted(planner)
        with process(port):
            expect(page.locator(f"#{ended}")).to_be_visible(timeout=60_000)
            expect(page.locator(".stream")).to_have_text("live")
            assert opened.troubles == []


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.TransportError:
        return False
