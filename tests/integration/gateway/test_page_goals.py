"""Goals from the page: drawn before they are sent, sent once, refused in words of the form, and made again."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from schemas.api_key import Right
from schemas.base import GoalKind
from tasks.handlers import goals
from tests.support.event_reading import reading, tell
from tests.support.gateway import Gateway
from tests.support.page import signed_in
from tests.support.planner import Planner, completed, deciding, halted, rejected
from tests.support.scripts.gap_report import a_goal
from worker.gateway.bodies import MAX_BYTES, MAX_FORM_BYTES
from worker.store import kept_goals, keys

HOSTILE = "</textarea><script>alert(1)</script>"
GOAL = {"goal": "Fix the login test", "files": "src/a.py\r\ntests/test_a.py", "language": "python"}
NO_FILE: Any = {"file": ("", b"")}  # as browsers send it where none was chosen
JUNIT = (
    '<testsuites><testsuite name="pytest"><testcase name="test_x" file="tests/test_a.py">'
    '<failure message="assert 1 == 2">E assert 1 == 2</failure></testcase></testsuite></testsuites>'
)


def fields_of(page: str) -> dict[str, str]:
    """The fields of the form that nobody fills in."""
    found = dict(re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)"', page.partition('class="goal"')[2]))
    return {**found, "goal_id": re.findall('name="goal_id".*? value="(.*?)"', page)[0]}


def send(client: httpx.Client, do: str, **said: str) -> httpx.Response:
    """Open the form, and draw or send a goal."""
    page = client.get("/goals/new")
    assert page.status_code == 200, page.text
    data = {**fields_of(page.text), **said, "do": do}
    return client.post("/goals/new", data=data, files=NO_FILE)


def test_a_goal_is_drawn_and_nothing_is_sent(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)

    drawn = send(client, "draw", **GOAL, repo="acme/shop")

    assert drawn.status_code == 200
    assert "The plan would begin with 4 steps" in drawn.text
    assert re.findall('<a href="#step-(.*?)">', drawn.text) == re.findall('<li id="step-(.*?)">', drawn.text)
    assert "tests/test_a.py</textarea>" in drawn.text
    assert gateway.redis.xlen(keys.GOALS) == 0


def test_a_goal_that_is_sent_becomes_the_plan_that_was_drawn(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER, tenant="acme")
    drawn = send(client, "draw", **GOAL)

    with deciding(planner):
        sent = send(client, "send", **GOAL, limit_tokens="150000", approve_HIGH="yes")

    assert sent.status_code == 303
    view = planner.view(sent.headers["location"].removeprefix("/plans/"))
    assert [step.step_id for step in view.steps] == re.findall('<li id="step-(.*?)">', drawn.text)
    assert (view.tenant, view.goal, view.budget.tokens.limit) == ("acme", "Fix the login test", 150_000)
    assert client.get(sent.headers["location"]).status_code == 200


def test_a_report_is_read_pasted_or_uploaded(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)

    pasted = send(client, "draw", report=JUNIT, files="src/a.py")
    uploaded = client.post(
        "/goals/new",
        data={**fields_of(pasted.text), "files": "src/a.py", "do": "draw"},
        files={"file": ("report.xml", JUNIT.encode(), "text/xml")},
    )
    with deciding(planner):
        sent = send(client, "send", report=JUNIT, files="src/a.py")

    for page in (pasted, uploaded):
        assert "1 failing test" in page.text
        assert "Fix failing test tests/test_a.py::test_x" in page.text
        assert "&lt;testsuites&gt;" in page.text  # it is there when the goal is sent
    kept = kept_goals.read(gateway.redis, 1, sent.headers["location"].removeprefix("/plans/"))
    assert list(kept[0]["context"]["failing_tests"]) == ["tests/test_a.py::test_x"]
    assert "Nothing to do: no test failed" in send(client, "draw", report="<testsuites/>").text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF-16", "ISO-8859-1", "windows-1252"])
def test_an_uploaded_report_is_read_in_its_encoding(encoding: str, gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    report = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>' + JUNIT.replace(
        "test_x", "test_straße"
    )

    drawn = client.post(
        "/goals/new",
        data={**fields_of(client.get("/goals/new").text), **GOAL, "do": "draw"},
        files={"file": ("report.xml", report.encode(encoding), "text/xml")},
    )

    assert "1 failing test" in drawn.text
    assert "tests/test_a.py::test_straße" in drawn.text


def test_a_goal_that_meets_a_defect_of_the_planner_is_told_so(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    client = signed_in(gateway, Right.PRODUCER)
    monkeypatch.setattr(goals, "plan", fail)

    drawn = send(client, "draw", **GOAL)
    with deciding(planner):
        sent = send(client, "send", **GOAL)

    assert "This is a defect of the planner, not of the goal." in drawn.text
    assert "This is a defect of the planner, not of the goal." in sent.text
    assert (drawn.status_code, sent.status_code) == (200, 422)


def test_a_goal_that_is_sent_twice_is_one(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    data = {**fields_of(client.get("/goals/new").text), **GOAL, "do": "send"}

    with deciding(planner):
        places = {client.post("/goals/new", data=data, files=NO_FILE).headers["location"] for _ in range(2)}
        other = client.post("/goals/new", data={**data, "goal": "Another"}, files=NO_FILE)

    assert len(places) == 1
    assert (other.status_code, "already used for another goal" in other.text) == (409, True)
    assert fields_of(other.text)["goal_id"] != data["goal_id"]  # so that it can be sent now


def test_a_refusal_speaks_of_the_forms_fields_and_keeps_what_was_written(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    said = {"goal": HOSTILE, "files": "src/a.py\r\n../etc/passwd", "limit_tokens": "5", "test_command": "rm -rf /"}

    shapeless = send(client, "send", **said)
    drawn = send(client, "draw", **{**said, "limit_tokens": ""})
    with deciding(planner):
        rejected = send(client, "send", **{**said, "limit_tokens": ""})
    odd = send(client, "draw", more="{", goal="x")

    assert [each.status_code for each in (shapeless, drawn, rejected, odd)] == [422, 200, 422, 422]
    assert 'id="wrong-limit_tokens"' in shapeless.text
    for page in (drawn, rejected):
        assert '<a href="#field-files">Files that may change, line 2</a>' in page.text
        assert 'aria-describedby="wrong-files"' in page.text
    assert 'id="wrong-more"' in odd.text
    for page in (shapeless, drawn, rejected):
        assert page.text.count("<script") == 1
        assert "&lt;/textarea&gt;&lt;script&gt;" in page.text
        assert "src/a.py\n../etc/passwd" in page.text
    assert gateway.redis.xlen(keys.GOALS) <= 1  # what has no shape never came


def test_constraints_and_files_of_the_repository_have_fields_with_their_errors(
    gateway: Gateway, planner: Planner
) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    said = {
        **GOAL,
        "files": "src/*.py",
        "constraints": "Add no dependency\r\nKeep the API",
        "listing": "src/a.py\r\nsrc/b.py",
    }

    shapeless = send(client, "draw", **{**said, "constraints": f"short\r\n\r\n{'x' * 1001}", "listing": "y" * 513})
    folder = send(client, "draw", **{**said, "files": "src/"})
    with deciding(planner):
        sent = send(client, "send", **said)

    for name, label in (("constraints", "What to keep to, line 3"), ("listing", "Files of the repository, line 1")):
        assert f'<a href="#field-{name}">{label}</a>' in shapeless.text
        assert f'id="wrong-{name}"' in shapeless.text
    assert '<a href="#field-files">Files that may change, line 1</a>: A folder is no file' in folder.text
    view = planner.view(sent.headers["location"].removeprefix("/plans/"))
    kept = kept_goals.read(gateway.redis, 1, view.plan_id)[0]
    assert kept["constraints"] == ["Add no dependency", "Keep the API"]
    assert {file for step in view.steps for file in step.allowed_files} == {"src/a.py", "src/b.py"}


def test_only_what_the_key_may_is_offered_and_taken(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(
        gateway, Right.PRODUCER, tenant="acme", queues=("default", "acme-gpu"), repositories=("acme/shop",)
    )
    page = client.get("/goals/new").text
    before = gateway.redis.xlen(keys.GOALS)

    assert re.findall('<option value="(default|acme-gpu)"', page) == ["default", "acme-gpu"]
    assert 'name="repo" id="field-repo"><option value="acme/shop"' in page
    assert 'name="tenant"' not in page
    for said in ({"tenant": "initech"}, {"queue": "initech-q"}, {"repo": "initech/till"}):
        for do in ("draw", "send"):
            answer = send(client, do, **{"repo": "acme/shop", **GOAL, **said})
            assert (answer.status_code, "This key is" in answer.text) == (403, True), (said, do)
    assert signed_in(gateway, Right.VIEWER).get("/goals/new").status_code == 403
    assert gateway.redis.xlen(keys.GOALS) == before


def test_a_goal_needs_the_right_the_token_and_our_origin(gateway: Gateway) -> None:
    ours, viewer = signed_in(gateway, Right.PRODUCER), signed_in(gateway, Right.VIEWER)
    (csrf,) = re.findall('name="csrf" value="(.*?)"', viewer.get("/").text)
    fields = {**fields_of(ours.get("/goals/new").text), **GOAL, "do": "send"}

    answers = [
        ours.post("/goals/new", data={**fields, "csrf": csrf}, files=NO_FILE),
        ours.post("/goals/new", data=fields, files=NO_FILE, headers={"Origin": "https://evil.example"}),
        ours.post("/goals/new", data=fields),  # a form without files is none
        ours.post("/goals/new", content=b"--x", headers={"Content-Type": "multipart/form-data; boundary=x"}),
        ours.post("/goals/new", content=b"--x", headers={"Content-Type": "multipart/form-data"}),
        viewer.post("/goals/new", data={**fields, "csrf": csrf}, files=NO_FILE),
        gateway.client(Right.ADMIN).post("/goals/new", data=fields, files=NO_FILE, headers={"Origin": gateway.url}),
    ]

    assert [each.status_code for each in answers] == [403, 403, 415, 403, 422, 403, 401]
    assert gateway.redis.xlen(keys.GOALS) == 0


def test_how_much_may_be_sent_depends_on_who_has_signed_in(gateway: Gateway) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    stranger = gateway.with_token(None)
    stranger.headers.update({"Origin": gateway.url, "Accept": "text/html"})
    large = {"file": ("report.xml", b" " * (MAX_BYTES + 1), "text/xml")}

    unknown = stranger.post("/goals/new", data=GOAL, files=large)
    known = client.post("/goals/new", data={**fields_of(client.get("/goals/new").text), "do": "draw"}, files=large)
    announced = HTTPConnection(gateway.url.removeprefix("http://"))
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    announced.request("POST", "/goals/new", headers={"Cookie": cookie, "Content-Length": f"{MAX_FORM_BYTES + 1}"})

    assert (unknown.status_code, known.status_code) == (413, 422)
    assert announced.getresponse().status == 413
    assert unknown.headers["content-type"].startswith("text/html")


def test_a_goal_that_is_not_decided_yet_has_a_page_that_leads_on(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER, Right.VIEWER)
    gateway.client(Right.PRODUCER).post("/v1/goals", json={"goal": "Fix b", "goal_id": "g 1".replace(" ", "-")})

    waits = client.get("/goals?goal_id=g-1")
    planner.container.goal_consumer.drain()
    decided = client.get("/goals?goal_id=g-1")

    assert (waits.status_code, "has not decided yet" in waits.text) == (200, True)
    assert "rejected it" in decided.text  # no file may change
    assert "<b>Files that may change</b>" in decided.text
    assert client.get("/goals?goal_id=none").status_code == 404
    assert signed_in(gateway, Right.VIEWER, tenant="acme").get("/goals?goal_id=g-1").status_code == 404


@pytest.mark.parametrize("whose", [{}, {"tenant": "acme"}], ids=["every tenant", "one tenant"])
def test_the_page_of_a_goal_hears_that_there_is_nothing_to_do(
    gateway: Gateway, planner: Planner, whose: dict[str, Any]
) -> None:
    client = signed_in(gateway, Right.PRODUCER, **whose)
    gateway.client(Right.PRODUCER, **whose).post("/v1/goals", json={**a_goal(allowed=["src/a.py"]), "goal_id": "g-1"})
    page = client.get("/goals?goal_id=g-1").text
    (address,) = re.findall('data-events="(/v1/events.*?)"', page)

    with reading(client, **dict(parse_qsl(urlsplit(address).query))) as events:
        planner.container.goal_consumer.drain()
        tell(gateway.redis, "plan.ready", **{"tenant": "default", **whose})  # of another plan, behind it
        told = [(each.event, each.data.get("verdict")) for each in events.until("plan.ready")]

    assert "has not decided yet" in page
    assert told == [("dev.planner.goal.decided.v1", "NOTHING_TO_DO"), ("dev.planner.plan.ready.v1", None)]
    assert "There is nothing to do" in client.get("/goals?goal_id=g-1").text


@pytest.mark.parametrize("kind", GoalKind)
def test_every_kind_can_be_drawn(gateway: Gateway, kind: GoalKind) -> None:
    drawn = send(signed_in(gateway, Right.PRODUCER), "draw", **GOAL, kind=kind.value)

    assert drawn.status_code == 200
    assert 'id="answer"' in drawn.text


def act(client: httpx.Client, address: str, **fields: str) -> httpx.Response:
    page = client.get(address).text
    hidden = dict(re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)"', page.partition("/acts/retry")[2]))
    return client.post(address, data={**hidden, **fields})


def test_a_plan_that_has_ended_is_made_again_with_what_is_changed(gateway: Gateway, planner: Planner) -> None:
    client = signed_in(gateway, Right.PRODUCER)
    with deciding(planner):
        old = send(client, "send", **GOAL, base_sha="abc1234").headers["location"].removeprefix("/plans/")
    planner.report("analyze-failure", old, touched_files=["etc/passwd"])
    assert planner.view(old).state == "HALTED"
    at = f"/plans/{old}/acts/retry"
    assert at in client.get(f"/plans/{old}").text
    with deciding(planner):
        again = act(client, at, tokens="170000", base_sha="def5678")
        place = client.get(again.headers["location"]).headers["location"]

    view = planner.view(place.removeprefix("/plans/"))
    kept = kept_goals.read(gateway.redis, 1, view.plan_id)[0]
    assert (view.retry_of, view.budget.tokens.limit) == (old, 170_000)
    assert kept["context"]["base_sha"] == "def5678"
    assert view.plan_id in client.get(f"/plans/{old}").text


def test_a_plan_whose_goal_brought_its_own_steps_is_made_again(gateway: Gateway, planner: Planner) -> None:
    client, old = signed_in(gateway, Right.PRODUCER), halted(planner)
    with deciding(planner):
        again = act(client, f"/plans/{old}/acts/retry", tokens="70000")
        place = client.get(again.headers["location"]).headers["location"]

    view = planner.view(place.removeprefix("/plans/"))
    assert (view.retry_of, view.budget.tokens.limit) == (old, 70_000)
    assert [step.step_id for step in view.steps] == [step.step_id for step in planner.view(old).steps]


def test_what_cannot_be_made_again_says_why_and_a_viewer_is_not_asked(gateway: Gateway, planner: Planner) -> None:
    supplied, done = rejected(planner), completed(planner)
    producer, viewer = signed_in(gateway, Right.PRODUCER), signed_in(gateway, Right.VIEWER)

    answer = producer.get(f"/plans/{supplied}/acts/retry")

    assert (answer.status_code, "are not stored any more" in answer.text) == (409, True)
    assert "acts/retry" not in viewer.get(f"/plans/{done}").text
    assert viewer.get(f"/plans/{done}/acts/retry").status_code == 403
    assert signed_in(gateway, Right.ANSWER).get(f"/plans/{done}/acts/pause").status_code == 403
