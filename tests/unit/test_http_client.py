"""What the client of a gateway does where the gateway, or the network to it, does not do what it should."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from tests.support.certificate import write_certificate
from worker.client import http_events
from worker.client.http_link import GatewayLink
from worker.client.http_planner import HttpPlanner
from worker.client.http_steps import HttpSteps
from worker.client.trouble import Away, NoRight, NotFound, Refused, Trouble, WrongUse
from worker.settings.settings import Settings

KEY = "pk_abc_0123456789abcdef"
PLAN = "plan_3c-0199aaaabbbbccccddddeeeeffff0000"


class Answer(NamedTuple):
    """What the stub answers once: nothing at all, and a closed connection, where the status is 0."""

    status: int = 200
    body: Any = {}  # noqa: RUF012 (nobody changes it)
    headers: dict[str, str] = {}  # noqa: RUF012


class Stub:
    """A gateway that answers as a test says, in order, and keeps what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    def settings(self, **more: Any) -> Settings:
        return Settings(**{"url": self.url, "api_key": KEY, **more})

    def link(self, patience_s: float = 5.0, **more: Any) -> GatewayLink:
        return GatewayLink(self.settings(**more), patience_s)


@pytest.fixture
def stub() -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            made.asked.append((self.command, self.path, dict(self.headers), json.loads(raw or b"null")))
            answer = made.answers.pop(0) if made.answers else Answer(503)
            if not answer.status:
                self.close_connection = True
                return
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Stub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join(5)
    server.server_close()


def problem(code: str, status: int) -> Answer:
    body = {"type": "x", "title": "x", "code": code, "detail": f"It is {code}.", "status": status}
    return Answer(status, body, {"Content-Type": "application/problem+json"})


def test_a_request_whose_answer_got_lost_is_sent_again_with_the_same_body(stub: Stub) -> None:
    stub.answers = [Answer(0), Answer(502, b"<html>Bad Gateway</html>"), Answer(202, {"goal_id": "x"})]

    sent = HttpPlanner(stub.link(), stub.settings()).publish(b'{"goal":"Fix it"}', None, None)

    bodies = [body for *_, body in stub.asked]
    assert bodies == [{"goal": "Fix it", "goal_id": sent.goal_id}] * 3
    assert {headers["Authorization"] for _, _, headers, _ in stub.asked} == {f"Bearer {KEY}"}


def test_a_claim_whose_answer_got_lost_is_asked_for_by_its_id_and_the_next_one_has_another(stub: Stub) -> None:
    stub.answers = [Answer(0), Answer(200, {"steps": [{"step_id": "a"}]}), Answer(200, {"steps": []})]
    steps = HttpSteps(stub.link(patience_s=0), ["default"], "ctl-1", Event())

    with pytest.raises(Away):
        steps.receive()
    entry = steps.receive()
    assert entry is not None
    assert json.loads(entry.fields[b"data"]) == {"step_id": "a"}
    assert steps.receive() is None

    ids = [body["claim_id"] for *_, body in stub.asked]
    assert ids[0] == ids[1] != ids[2]


def test_a_step_that_comes_when_the_controller_ends_is_handed_back(stub: Stub) -> None:
    spec = {"plan_id": PLAN, "step_id": "a", "attempt": 1, "lease": "l", "intent": "x"}
    stub.answers = [Answer(200, {"steps": [spec]}), Answer(202, {"accepted": 1})]
    stop = Event()
    stop.set()

    assert HttpSteps(stub.link(), ["default"], "ctl-1", stop).receive() is None

    assert stub.asked[1][1] == "/v1/outcomes"
    said = stub.asked[1][3]
    assert (said["lease"], said["success"], said["released"]["kind"]) == ("l", False, "host")


def test_a_gateway_that_is_busy_is_asked_again_no_sooner_than_it_says(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("worker.client.http_link.time.sleep", slept.append)
    stub.answers = [problem("rate_limited", 429)._replace(headers={"Retry-After": "3"}), Answer(200, {"items": []})]

    assert stub.link().get("/v1/queues") == {"items": []}
    assert slept == [3.0]
    stub.answers = [problem("rate_limited", 429)._replace(headers={"Retry-After": "60"})]
    with pytest.raises(Away, match="rate_limited") as busy:
        stub.link().get("/v1/queues")
    assert busy.value.retry_after_s == 60


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (problem("wrong_key", 401), NoRight, "It is wrong_key."),
        (problem("no_right", 403), NoRight, "It is no_right."),
        (problem("no_such_plan", 404), NotFound, "It is no_such_plan."),
        (problem("goal_conflict", 409), Refused, "It is goal_conflict."),
        (problem("invalid_message", 422), WrongUse, "It is invalid_message."),
        (problem("tenant_full", 429), Refused, "It is tenant_full."),
        (Answer(404, b"<html>"), Trouble, "answered 404 Not Found: is PLANNER_URL right?"),
        (Answer(200, b"<html>"), Trouble, "answered no JSON"),
        (Answer(301, b"", {"Location": "https://other.example/"}), WrongUse, "points to 'https://other.example/'"),
    ],
)
def test_what_is_refused_is_a_sentence_without_the_key_and_not_asked_again(
    stub: Stub, answer: Answer, kind: type[Trouble], said: str
) -> None:
    stub.answers = [answer]

    with pytest.raises(Trouble) as trouble:
        stub.link().get("/v1/plans")

    assert type(trouble.value) is kind
    assert said in str(trouble.value)
    assert KEY not in repr(trouble.value) + str(trouble.value.problem)
    assert len(stub.asked) == 1


def test_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path))
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.handle_request)
    thread.start()

    with pytest.raises(Refused, match="certificate that is not trusted"):
        GatewayLink(Settings(url=f"https://127.0.0.1:{server.server_port}", api_key=SecretStr(KEY))).get("/readyz")

    thread.join(5)
    server.server_close()


# --- the token of a CI job ---

HOUR = {"key": "pk_job_1", "expires_at": "2999-01-01T00:00:00Z"}


def test_a_job_of_github_shows_its_token_and_gets_another_key_when_that_one_is_over(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{stub.url}/issuer?api-version=2")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-runner")
    link = stub.link(api_key=None, oidc_audience="https://planner.example")
    stub.answers = [Answer(200, {"value": "jwt"}), Answer(200, HOUR), Answer(200, {"items": []})]
    assert link.get("/v1/queues") == {"items": []}
    stub.answers = [problem("wrong_key", 401)]
    stub.answers += [Answer(200, {"value": "jwt2"}), Answer(200, HOUR | {"key": "pk_job_2"}), Answer(200, {})]
    link.get("/v1/queues")

    seen = [(path, headers.get("Authorization"), body) for _, path, headers, body in stub.asked]
    assert seen == [
        ("/issuer?api-version=2&audience=https%3A%2F%2Fplanner.example", "Bearer of-the-runner", None),
        ("/v1/token", None, {"token": "jwt"}),
        ("/v1/queues", "Bearer pk_job_1", None),
        ("/v1/queues", "Bearer pk_job_1", None),
        ("/issuer?api-version=2&audience=https%3A%2F%2Fplanner.example", "Bearer of-the-runner", None),
        ("/v1/token", None, {"token": "jwt2"}),
        ("/v1/queues", "Bearer pk_job_2", None),
    ]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([problem("token_not_allowed", 403)], "gives no key for the token of this job (403): It is token_not_allowed."),
        ([Answer(200, {"key": "a b", "expires_at": "2999-01-01T00:00:00Z"})], "gave a key that is none"),
    ],
)
def test_a_job_whose_token_is_not_taken_is_told_why(stub: Stub, answers: list[Answer], said: str) -> None:
    stub.answers = answers
    with pytest.raises(NoRight) as refused:
        stub.link(api_key=None, id_token="secret.jwt").get("/v1/queues")

    assert said in str(refused.value)
    assert "secret.jwt" not in str(refused.value)


def test_without_a_key_or_a_token_nothing_is_asked(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_URL", raising=False)
    with pytest.raises(WrongUse, match="set PLANNER_API_KEY"):
        stub.link(api_key=None)
    assert stub.asked == []


# --- server-sent events ---


def test_events_go_on_where_the_connection_was_lost_and_a_gap_is_told(stub: Stub) -> None:
    stream = {"Content-Type": "text/event-stream"}
    first = (
        b'retry: 10\n: events\nid: p0\n\nid: p1\nevent: dev.planner.step.started.v1\ndata: {"step_id": "a"}\n\n'
        b": still here\nid: p2\n\nid: p3\nevent: half"
    )
    second = (
        b'id: p4\r\nevent: gap\r\ndata: {"reason": "cut"}\r\n\r\n'
        b'id: p5\nevent: dev.planner.plan.completed.v1\ndata: {"plan_id":\ndata:  "x"}\n\n'
    )
    stub.answers = [Answer(503), Answer(200, first, stream), Answer(0), Answer(200, second, stream)]
    events = http_events.HttpEvents(stub.link(), PLAN)

    found = []
    while not events.ended:
        found += events.read(5.0)
    events.close()

    assert [tuple(each) for each in found] == [
        ("p1", "step.started", {"step_id": "a"}),
        ("p4", "gap", {"reason": "cut"}),
        ("p5", "plan.completed", {"plan_id": "x"}),
    ]
    last = [headers.get("Last-Event-ID") for _, path, headers, _ in stub.asked if path == f"/v1/events?plan={PLAN}"]
    assert last[:4] == [None, None, "p2", "p2"]


def test_events_that_may_not_be_read_are_refused_at_once(stub: Stub) -> None:
    stub.answers = [problem("no_right", 403)]
    events = http_events.HttpEvents(stub.link(), PLAN)

    with pytest.raises(NoRight):
        events.read(5.0)
