"""The page over HTTP: who signs in, what a session may do, and what stands in the HTML."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.event_reading import reading
from tests.support.gateway import Gateway
from tests.support.page import HOSTILE, Markup, signed_in
from tests.support.planner import RISKY, SHAPES, Planner, asking, delivered, executing, halted, hostile, retried
from worker.gateway.cookies import PLAIN
from worker.gateway.page import plan_list, static_files
from worker.store import api_keys
from worker.store.keys import Partition

MOST_SCRIPT = 60_000  # bytes


def listed(answer: httpx.Response) -> list[str]:
    """The plans of a list, in its order."""
    links = Markup(answer.text).links("/plans/plan_.*")
    return list(dict.fromkeys(each.removeprefix("/plans/") for each in links))


def test_who_has_not_signed_in_is_asked_to_and_comes_to_the_page_that_was_asked_for(gateway: Gateway) -> None:
    client = gateway.with_token(None)
    client.headers["Origin"] = gateway.url

    asked = client.get("/?state=HALTED")
    wanted = next(str(of["value"]) for _, of in Markup(asked.text).elements if of.get("name") == "wanted")
    refused = client.post("/sign-in", data={"key": "pk_wrong_key", "wanted": wanted})
    taken = client.post("/sign-in", data={"key": f" {gateway.key(Right.VIEWER)}\n", "wanted": wanted})

    assert (asked.status_code, wanted) == (401, "/?state=HALTED")
    assert (refused.status_code, "wrong, over or revoked" in refused.text) == (401, True)
    assert "pk_wrong_key" not in refused.text
    assert (taken.status_code, taken.headers["location"]) == (303, wanted)
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(taken.headers["set-cookie"].split("; "))
    assert client.get(wanted).status_code == 200


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nX: y", ""])
def test_signing_in_leads_to_no_other_site(gateway: Gateway, wanted: str) -> None:
    client = gateway.with_token(None)

    taken = client.post("/sign-in", data={"key": gateway.key(Right.VIEWER), "wanted": wanted}, headers=origin(gateway))

    assert (taken.status_code, taken.headers["location"]) == (303, "/")


def origin(gateway: Gateway) -> dict[str, str]:
    return {"Origin": gateway.url}


def test_a_key_that_may_not_look_at_plans_does_not_sign_in(gateway: Gateway) -> None:
    client = gateway.with_token(None)

    answer = client.post("/sign-in", data={"key": gateway.key(Right.CONTROLLER)}, headers=origin(gateway))

    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_a_session_ends_with_its_key_and_when_its_holder_signs_out(gateway: Gateway) -> None:
    revoked, left = (signed_in(gateway, Right.VIEWER) for _ in range(2))
    kept = left.cookies[PLAIN]
    (key_id,) = re.findall("key <b>(.*?)</b>", revoked.get("/").text)
    (csrf,) = re.findall('name="csrf" value="(.*?)"', left.get("/").text)

    api_keys.revoke(gateway.redis, key_id)
    out = left.post("/sign-out", data={"csrf": csrf})

    wait_until(lambda: revoked.get("/").status_code == 401, what="the session of a revoked key ends")
    assert (out.status_code, out.headers["location"]) == (303, "/")
    assert gateway.with_token(None).get("/", headers={"Cookie": f"{PLAIN}={kept}"}).status_code == 401


def test_what_a_session_does_needs_its_own_token_and_our_origin(gateway: Gateway) -> None:
    ours, other = (signed_in(gateway, Right.ADMIN) for _ in range(2))
    (csrf,) = re.findall('name="csrf" value="(.*?)"', ours.get("/").text)
    (foreign,) = re.findall('name="csrf" value="(.*?)"', other.get("/").text)

    def leave(headers: dict[str, str], **fields: str) -> int:
        request = ours.build_request("POST", "/sign-out", data=fields, headers=headers)
        if headers.get("Origin") == "":
            del request.headers["Origin"]
        return ours.send(request).status_code

    assert leave({}, other="x") == leave({}, csrf="") == leave({}, csrf=foreign) == 403
    assert leave({"Origin": "https://evil.example"}, csrf=csrf) == 403
    assert leave({"Origin": "null"}, csrf=csrf) == 403
    assert leave({"Origin": ""}, csrf=csrf) == 403
    assert leave({"Origin": gateway.url, "Sec-Fetch-Site": "cross-site"}, csrf=csrf) == 403
    assert ours.get("/").status_code == 200
    assert leave({}, csrf=csrf) == 303


def test_the_api_takes_a_session_for_reads_alone(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.ADMIN)

    assert client.get(f"/v1/plans/{plan_id}").status_code == 200
    for body in ({}, {"content": b""}, {"json": {"command": "halt"}}):
        assert client.post(f"/v1/plans/{plan_id}/commands", **body).status_code == 401
    assert planner.view(plan_id).state == "EXECUTING"


def test_every_page_forbids_what_is_not_of_this_site(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.VIEWER)
    answers = [client.get("/"), client.get("/?state=X"), gateway.with_token(None).get("/")]

    assert [each.status_code for each in answers] == [200, 422, 401]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        for tag, of in Markup(answer.text).elements:
            assert not any(name.startswith("on") or name == "style" for name in of), (tag, of)
            assert (tag, of.get("type"), (of.get("src") or "").startswith("/static/")) in {
                (tag, of.get("type"), tag in ("script", "img")),
            }


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/plans", 404, "There is no page at this address."),
        ("/fleets?x=<script>", 404, "There is no page at this address."),
        ("/plans/x/y/z", 404, "There is no page at this address."),
        ("/sign-in", 405, "This address takes a form; there is nothing to look at."),
    ],
)
def test_an_address_that_leads_nowhere_is_a_page_to_a_browser_and_a_problem_to_a_program(
    gateway: Gateway, path: str, status: int, said: str
) -> None:
    browser, program = signed_in(gateway, Right.VIEWER), gateway.client(Right.VIEWER)

    page, problem = browser.get(path), program.get(path)

    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in page.text
    assert Markup(page.text).links("/") == ["/", "/", "/"]  # the name, the navigation, and the way back
    assert "Sign out" in page.text
    assert "Sign out" not in gateway.with_token(None).get(path, headers={"Accept": "text/html"}).text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert (problem.status_code, problem.headers["content-type"]) == (status, "application/problem+json")
    assert page.headers.get("allow") == problem.headers.get("allow")


def test_what_the_api_refuses_is_a_problem_also_to_a_browser(gateway: Gateway) -> None:
    answer = signed_in(gateway, Right.VIEWER).get("/v1/nothing")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_the_scripts_are_small_and_their_addresses_change_with_them(gateway: Gateway) -> None:
    client = gateway.with_token(None)

    for name, kept in static_files.FILES.items():
        answer = client.get(static_files.address_of(name))
        assert (answer.content, "immutable" in answer.headers["cache-control"]) == (kept.body, True)
        assert client.get(f"/static/older/{name}").headers["cache-control"] == "no-store"
    assert client.get("/static/x/..%2fpage.css").status_code == 404
    assert sum(len(kept.body) for name, kept in static_files.FILES.items() if name.endswith(".js")) < MOST_SCRIPT


def test_all_that_wait_are_those_among_which_they_were_found(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_list, "MOST_WAITING", 1)
    client = signed_in(gateway, Right.VIEWER)
    ours = {planner.submit(steps=RISKY, approvals=["HIGH"], context={"repo": "acme/shop"}) for _ in range(2)}
    asking(planner)

    (more,) = Markup(client.get("/?repo=acme/shop&kind=task&text=fix").text).links(r"/\?.*waiting=true")

    assert more == "/?kind=task&repo=acme%2Fshop&text=fix&waiting=true"
    assert set(listed(client.get(more))) == ours


def test_the_list_has_the_plans_that_its_address_asks_for(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.VIEWER)
    empty = client.get("/")
    made = [planner.submit(tenant=f"t{number % 2}", context={"repo": "acme/shop"}) for number in range(5)]
    ended = halted(planner)

    assert "There are no plans yet" in empty.text
    assert listed(client.get("/")) == [ended, *reversed(made)]
    assert listed(client.get("/?state=HALTED&rule=security&kind=&repo=")) == [ended]
    assert listed(client.get("/?repo=acme/shop&tenant=t1&since=1h")) == [made[3], made[1]]
    assert listed(client.get(f"/?id_prefix={made[0][5:]}")) == [made[0]]
    assert listed(client.get("/?text=SHOP+fix")) == [*reversed(made)]
    assert listed(client.get("/?text=fix+shop+cart")) == []
    assert "No plan matches" in client.get("/?kind=campaign").text
    first = client.get("/?limit=4&repo=acme/shop")
    (older,) = Markup(first.text).links(r"/\?.*cursor.*")
    assert [*listed(first), *listed(client.get(older))] == [*reversed(made)]
    assert '<input type="hidden" name="limit" value="4">' in first.text
    until = client.get("/?until=2100-01-01T00:00:00Z").text
    assert '<input type="hidden" name="until" value="2100-01-01T00:00:00Z">' in until
    assert 'type="hidden" name="limit"' not in until


@pytest.mark.parametrize("query", ["state=NONE", "since=yesterday", "limit=0", "cursor=x", "kind=x&waiting=perhaps"])
def test_what_the_list_cannot_be_filtered_by_is_told(gateway: Gateway, query: str) -> None:
    answer = signed_in(gateway, Right.VIEWER).get(f"/?{query}")

    assert (answer.status_code, "These filters are not valid" in answer.text) == (422, True)


def test_a_list_is_sorted_by_a_figure_over_all_its_pages(gateway: Gateway, planner: Planner) -> None:
    spent = {}
    for tokens in (300, 100, 500, 200, 400):
        plan_id = executing(planner)
        planner.report(
            "fix-b", plan_id, touched_files=["b.py"], metrics={"tokens_used": tokens, "cost_usd": tokens / 7}
        )
        spent[plan_id] = tokens
    client = signed_in(gateway, Right.VIEWER)

    for figure in ("tokens", "cost"):
        first = client.get(f"/?sort={figure}&limit=3")
        (older,) = Markup(first.text).links("/.*cursor=3.*")
        found = [*listed(first), *listed(client.get(older))]
        assert found == sorted(spent, key=spent.__getitem__, reverse=True)


def test_a_row_names_who_works_on_the_plan_or_why_nobody_does(gateway: Gateway, planner: Planner) -> None:
    held, idle = executing(planner), executing(planner)
    lease = Partition(0).lease_prefix(held) + "fix-b"
    said: Any = planner.client.hmget(lease, "attempt", "lease")
    planner.client.fcall("planner_heartbeat", 1, lease, *said, "ctl-<7>")

    rows = re.findall(r'<tr id="(plan_.*?)">(.*?)</tr>', signed_in(gateway, Right.VIEWER).get("/").text, re.DOTALL)

    assert 'data-label="Controller"><span title="ctl-&lt;7&gt;">ctl-&lt;7&gt;</span>' in dict(rows)[held]
    assert "no controller reads queue `default`" in dict(rows)[idle]
    assert "no controller" not in dict(rows)[held]


def test_plans_that_wait_for_a_person_stand_first(gateway: Gateway, planner: Planner) -> None:
    waits, last = asking(planner), planner.submit()
    client = signed_in(gateway, Right.VIEWER)

    answer = client.get("/")

    assert answer.text.index("Needs a person") < answer.text.index(f'id="{last}"')
    assert listed(answer) == [waits, last]
    assert listed(client.get("/?waiting=true")) == [waits]


def test_who_may_approve_sees_first_what_waits_for_a_review_with_minutes(gateway: Gateway, planner: Planner) -> None:
    plan_id = delivered(planner)

    shown = signed_in(gateway, Right.VIEWER, Right.OPERATOR).get("/").text

    assert f'id="needs-{plan_id}"' in shown
    assert "review its branch, about 60 minutes to read" in shown
    assert "Needs a person" not in signed_in(gateway, Right.VIEWER).get("/").text


def test_a_key_sees_and_counts_its_own_plans_alone(gateway: Gateway, planner: Planner) -> None:
    ours, theirs = (planner.submit(tenant=tenant, context={"repo": f"{tenant}/web"}) for tenant in ("acme", "initech"))
    all_of_them, acme, web = (
        signed_in(gateway, Right.VIEWER, **of) for of in ({}, {"tenant": "acme"}, {"repositories": ("initech/web",)})
    )

    assert listed(all_of_them.get("/")) == [theirs, ours]
    assert listed(acme.get("/")) == listed(acme.get("/?repo=acme/web")) == [ours]
    assert listed(acme.get("/?tenant=initech")) == listed(acme.get("/?repo=initech/web")) == []
    assert listed(web.get("/")) == [theirs]
    counted = [re.findall("All <b>(.*?)</b>", each.get("/").text) for each in (all_of_them, acme, web)]
    assert counted == [["2"], ["1"], ["1"]]
    assert re.findall("All <b>(.*?)</b>", all_of_them.get("/?tenant=acme").text) == ["1"]
    assert re.findall("All <b>(.*?)</b>", acme.get("/?repo=initech/web").text) == ["0"]


def test_text_from_outside_is_text_on_every_page(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.VIEWER)
    planner.submit(goal=HOSTILE, context={"repo": HOSTILE}, tenant="t<i>")
    plan_id = hostile(planner, HOSTILE)

    for path in ("/", f"/plans/{plan_id}", "/?repo=" + "<script>", '/?id_prefix="><img>', "/?state=<script>"):
        answer = client.get(path)
        tags = [tag for tag, _ in Markup(answer.text).elements]
        assert (tags.count("script"), tags.count("img"), "i" in tags) == (1, 1, False), path
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", answer.text.replace("\r", ""))
    attempt = client.get(f"/plans/{plan_id}").text.partition('class="attempt"')[2]
    assert attempt.count("&lt;script&gt;alert(1)") >= 3  # the reason, and both parts of where the transcript lies
    assert HOSTILE[:25] in "".join(Markup(client.get("/").text).texts)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_plan_is_listed_and_shown(gateway: Gateway, planner: Planner, shape: Any) -> None:
    plan_id, client = shape(planner), signed_in(gateway, Right.VIEWER)

    shown = client.get(f"/plans/{plan_id}")

    assert listed(client.get("/")) == [plan_id]
    assert shown.status_code == 200
    steps = [
        of["id"] for tag, of in Markup(shown.text).elements if tag == "li" and str(of.get("id")).startswith("step-")
    ]
    assert steps == [f"step-{step.step_id}" for step in planner.view(plan_id).steps[:100]]
    halt = planner.view(plan_id).halt
    assert halt is None or all(told in "".join(Markup(shown.text).texts) for told in (halt.rule, halt.reason))


def test_a_plan_shows_its_attempts_its_revisions_and_its_log(gateway: Gateway, planner: Planner) -> None:
    plan_id = retried(planner)

    said = "".join(Markup(signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}").text).texts)

    assert "COMPILATION_ERROR" in said
    assert "SyntaxError: invalid syntax" in said
    assert "outcome of fix-b: failure COMPILATION_ERROR" in said
    assert "inserted before the next attempt of fix-b" in said
    assert "Revision 2" in said


def test_a_page_of_a_plan_is_told_what_happened_after_it_was_made_and_nothing_before(
    gateway: Gateway, planner: Planner
) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.VIEWER)
    (since,) = re.findall('data-since="(.*?)"', client.get(f"/plans/{plan_id}").text)

    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])

    with reading(client, plan=plan_id) as whole, reading(client, since, plan=plan_id) as part:
        every, later = whole.until("plan.halted"), part.until("plan.halted")
    assert every[0].event == "dev.planner.goal.received.v1"
    assert later == every[-len(later) :] != every


def test_a_plan_shows_what_it_waits_for_and_with_whom_it_overlaps(gateway: Gateway, planner: Planner) -> None:
    first, second = (planner.submit(context={"repo": "acme/shop"}, overlap="wait") for _ in range(2))

    page = signed_in(gateway, Right.VIEWER).get(f"/plans/{second}").text

    assert f'<code>b.py</code>: <a href="/plans/{first}">{first}</a>' in page
    assert f"waiting for b.py: {first}" in page


def test_a_plan_of_many_steps_is_shown_in_bands_and_pages(gateway: Gateway, planner: Planner) -> None:
    steps = [
        {"step_id": f"s-{number}", "title": "t", "intent": "i", "verify": "pytest",
         "depends_on": [f"s-{number - 1}"] if number else []}
        for number in range(320)
    ]  # fmt: skip
    plan_id = planner.submit(steps=steps, limits={"max_steps": 400})
    client = signed_in(gateway, Right.VIEWER)

    whole = client.get(f"/plans/{plan_id}")
    bands = list(dict.fromkeys(Markup(whole.text).links(".*band=.*")))
    part = client.get(bands[-1])
    last = client.get(f"/plans/{plan_id}?first=300")

    assert len(bands) == 40
    assert [text for text in Markup(part.text).texts if text.startswith("s-31") and text != "s-311"][:8] == [
        f"s-{number}" for number in range(312, 320)
    ]
    assert ('id="step-s-299"' in last.text, 'id="step-s-300"' in last.text) == (False, True)
    for query in ("first=x", "first=-1", "band=9999999999"):
        assert client.get(f"/plans/{plan_id}?{query}").status_code == 422


def test_what_belongs_to_another_is_no_page(gateway: Gateway, planner: Planner) -> None:
    theirs = planner.submit(tenant="initech")
    client = signed_in(gateway, Right.ADMIN, tenant="acme")

    for plan_id in (theirs, "plan_00-" + "0" * 32, "<script>"):
        answer = client.get(f"/plans/{plan_id}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "There is no plan" in answer.text


def test_a_session_that_redis_has_lost_is_over(gateway: Gateway) -> None:
    client = signed_in(gateway, Right.VIEWER)
    gateway.redis.flushall()

    answer = client.get("/")

    assert (answer.status_code, "You were signed out" in answer.text) == (401, True)


def test_a_page_that_refuses_counts_as_no_use_of_the_key(gateway: Gateway) -> None:
    client = signed_in(gateway, Right.VIEWER, rate="2/m")  # signing in was the first one

    answers = [client.get("/nowhere") for _ in range(3)]

    assert ["Sign out" in each.text for each in answers] == [True] * 3
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_what_is_cut_says_how_much_is_left_out(gateway: Gateway, planner: Planner) -> None:
    steps = [{**RISKY[1], "step_id": f"s-{number}"} for number in range(25)]
    asks = planner.submit(
        steps=steps, approvals=["HIGH"], limits={"max_steps": 100, "patch_cycles": 100, "tokens": 10**7}
    )
    fails = executing(planner)
    tests, evidence = [f"test_{number}" for number in range(103)], {"category": "TEST_FAILURE"}
    planner.report(
        "fix-b", fails, success=False, touched_files=["b.py"], failing_tests=tests, failure_evidence=evidence
    )
    client = signed_in(gateway, Right.VIEWER)

    waiting = sum(step.waiting is not None for step in planner.view(asks).steps)
    said = client.get(f"/plans/{asks}").text

    assert waiting == len(steps), planner.view(asks).halt
    assert '<a href="#steps">and 5 more</a>' in said
    assert "<li>and 3 more</li>" in client.get(f"/plans/{fails}/steps/fix-b").text
