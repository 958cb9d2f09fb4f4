"""The result of a plan at its doors: diffs that were sent, who may see them, and hostile texts in every field of it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from schemas.api_key import Right
from schemas.attachment import MAX_ATTACHMENT_BYTES, Kind
from tests.support.gateway import Gateway, running_gateway
from tests.support.page import Markup, signed_in
from tests.support.planner import Planner, asking, deciding, halted, obeying, questioned
from tests.support.sent_diffs import STEPS, diff_of, digest, sweep
from worker.gateway.page import plan_story
from worker.store import attachments, history, kept_goals, queries, sent_attachments
from worker.store.history import read_lines
from worker.store.keys import Partition, PlanKeys


@pytest.fixture
def gateway(redis_url: str) -> Iterator[Gateway]:
    with running_gateway(redis_url) as made:
        yield made


def landed(planner: Planner, diff: bytes, *, sent: bool = True, **goal: Any) -> str:
    """A completed plan with one change, whose diff was sent before its outcome."""
    plan_id = planner.submit(steps=STEPS, **goal)
    if sent:
        sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 1, diff))
    planner.report("fix-b", plan_id, touched_files=["b.py"], diff_hash=digest(diff), commit="c1")
    planner.report("look", plan_id, output="b rounds once")
    assert planner.view(plan_id).state == "COMPLETED"
    return plan_id


def test_a_diff_is_told_by_figures_at_once_and_as_it_is_once_it_was_taken(gateway: Gateway, planner: Planner) -> None:
    diff = diff_of("new")
    plan_id, client = landed(planner, diff), gateway.client(Right.VIEWER)

    at_once = client.get(f"/v1/plans/{plan_id}/result").json()
    sweep(planner)
    result = client.get(f"/v1/plans/{plan_id}/result").json()

    assert (at_once["added"], at_once["steps"][0]["diff_bytes"]) == (1, None)
    assert (result["added"], result["steps"][0]["diff_bytes"]) == (1, len(diff))
    assert result["sentence"] == "Changed 1 file (+1 -1 lines); 1 step answered."
    assert client.get(f"/v1/plans/{plan_id}/changes.diff").content == diff
    assert client.get(f"/v1/plans/{plan_id}/changes.diff?step=look").status_code == 404
    assert client.get(f"/v1/plans/{plan_id}").json()["result"] == result
    assert planner.client.xlen(Partition(0).attachments) == 0


def test_who_polls_a_plan_that_has_ended_has_its_log_read_once(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id, client = landed(planner, diff_of("new")), gateway.client(Right.VIEWER)
    reads: list[str] = []

    def read_log(client: Redis, k: PlanKeys) -> Iterator[dict[str, Any]]:
        reads.append(k.log)
        return map(codec.loads, read_lines(client, k))

    monkeypatch.setattr(history, "read_log", read_log)

    shown = [client.get(f"/v1/plans/{plan_id}").json()["result"] for _ in range(3)]
    sweep(planner)
    after = [client.get(f"/v1/plans/{plan_id}/result").json() for _ in range(3)]

    assert (len(reads), shown[0] == shown[2], after[0] == after[2]) == (2, True, True)
    assert (shown[0]["steps"][0]["diff_bytes"], after[0]["steps"][0]["diff_bytes"]) == (None, len(diff_of("new")))


def test_of_a_step_that_landed_twice_both_diffs_are_kept(gateway: Gateway, planner: Planner) -> None:
    first, second = diff_of("one"), diff_of("two")
    plan_id = landed(planner, first)
    sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 2, second))
    log: Any = planner.client.lrange(Partition(0).plan(plan_id).log, 0, -1)
    (again,) = [line for line in log if b'"c1"' in line]
    planner.client.rpush(Partition(0).plan(plan_id).log, again.replace(digest(first).encode(), digest(second).encode()))
    sweep(planner)

    client = gateway.client(Right.VIEWER)

    assert client.get(f"/v1/plans/{plan_id}/changes.diff?step=fix-b").content == first + second
    page = signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}").text
    assert [text in page for text in ("one</span>", "two</span>")] == [True, True]
    assert len(re.findall(r'id="change-fix-b-\d+"', page)) == len(set(re.findall(r'id="change-fix-b-\d+"', page))) == 2


def test_a_transcript_is_shown_to_who_may_read_the_plan_without_secrets_and_three_are_kept(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, plan_id = "ghp_" + "a1B2" * 9, planner.submit(steps=STEPS, tenant="acme")
    printed = f"<script>alert(1)</script> KEY={token}\n".encode()
    for content in (b"of another controller", printed, b"cut again", b"one more"):
        data = sent_attachments.message(plan_id, "fix-b", 1, content, "transcript")
        sent_attachments.send(planner.client, 1, plan_id, data)
    said = {"path": "/var/a", "host": "build-7", "sent": f"sha256:{digest(printed)}"}
    planner.report("fix-b", plan_id, touched_files=["b.py"], transcript=said)
    sweep(planner)

    at = f"/v1/plans/{plan_id}/steps/fix-b/transcript?attempt="
    client, other = (gateway.client(Right.VIEWER, tenant=name) for name in ("acme", "other"))
    shown = client.get(at + "1")

    assert (shown.status_code, shown.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert shown.text.startswith("<script>alert(1)</script> KEY=")
    assert token not in shown.text
    assert [other.get(at + "1").status_code, client.get(at + "2").status_code] == [404, 404]
    assert planner.client.zcard(Partition(0).attachments_order) == 3
    page = signed_in(gateway, Right.VIEWER, tenant="acme").get(f"/plans/{plan_id}/steps/fix-b").text
    assert f'<a href="{at}1">Output of the agent</a>' in page
    monkeypatch.setattr(plan_story, "MOST_READ", 1)
    assert client.get(at + "1").json()["code"] == "log_too_long"


def test_what_an_outcome_names_is_kept_after_three_wrong_ones_and_a_wrong_one_after_it_is_not(
    gateway: Gateway, planner: Planner
) -> None:
    plan_id, diff, printed = planner.submit(steps=STEPS), diff_of("new"), b"I round once.\n"

    def send(content: bytes, kind: Kind) -> None:
        sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 1, content, kind))

    for number in range(3):
        send(diff_of(f"wrong {number}"), "diff")
        send(f"wrong {number}".encode(), "transcript")
    sweep(planner)
    send(diff, "diff")
    send(printed, "transcript")
    said = {"path": "/var/a", "host": "build-7", "sent": f"sha256:{digest(printed)}"}
    planner.report("fix-b", plan_id, touched_files=["b.py"], diff_hash=digest(diff), transcript=said)
    send(diff_of("wrong at last"), "diff")
    sweep(planner)

    client = gateway.client(Right.VIEWER)
    assert client.get(f"/v1/plans/{plan_id}/changes.diff").content == diff
    assert client.get(f"/v1/plans/{plan_id}/steps/fix-b/transcript?attempt=1").content == printed
    order: Any = planner.client.zrange(Partition(0).attachments_order, 0, -1)
    kept = [each.rpartition(b" ")[2].decode() for each in order]
    assert digest(diff_of("wrong at last")) not in kept
    assert len(kept) == 6
    assert planner.client.xlen(Partition(0).attachments) == 0


def test_a_line_of_a_log_is_read_once_for_all_the_attachments_that_have_no_place(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id, lines = planner.submit(steps=STEPS), list[bytes]()

    def noted(*asked: Any) -> Iterator[bytes]:
        for line in read_lines(*asked):
            lines.append(line)
            yield line

    monkeypatch.setattr(history, "read_lines", noted)
    for number in range(10):
        data = sent_attachments.message(plan_id, "fix-b", 1, diff_of(f"wrong {number}"))
        sent_attachments.send(planner.client, 1, plan_id, data)
        if number == 7:
            planner.report("fix-b", plan_id, touched_files=["b.py"], diff_hash=digest(diff_of("wrong 9")))
        sweep(planner)

    order: Any = planner.client.zrange(Partition(0).attachments_order, 0, -1)
    kept = {each.rpartition(b" ")[2].decode() for each in order}
    assert kept == {digest(diff_of(f"wrong {number}")) for number in (1, 2, 9)}
    assert len(lines) == planner.client.llen(Partition(0).plan(plan_id).log) == len(set(lines))


def test_a_diff_that_no_accepted_outcome_names_is_not_shown(gateway: Gateway, planner: Planner) -> None:
    plan_id = landed(planner, diff_of("new"), sent=False)
    sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 1, diff_of("other")))
    sweep(planner)

    client = gateway.client(Right.VIEWER)

    assert client.get(f"/v1/plans/{plan_id}/result").json()["files"][0]["added"] is None
    assert client.get(f"/v1/plans/{plan_id}/changes.diff").content == b""


def test_without_diffs_only_their_figures_are_kept(gateway: Gateway) -> None:
    planner = Planner(gateway.settings.redis_url, keep_diffs=False)
    plan_id = landed(planner, diff_of("secret text"))
    sweep(planner)

    assert gateway.client(Right.VIEWER).get(f"/v1/plans/{plan_id}/result").json()["added"] == 1
    assert b"secret text" not in b"".join(planner.client.hvals(Partition(0).attachments_kept))  # type: ignore[arg-type]


def test_a_controller_hands_in_a_diff_over_http_with_its_lease(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = planner.submit(steps=STEPS), gateway.client(Right.CONTROLLER)
    wanted = {"claim_id": "c", "controller": "ctl", "wait_s": 5}
    (spec,) = client.post("/v1/steps:claim", json=wanted).json()["steps"]
    body = {"plan_id": plan_id, "step_id": "fix-b", "attempt": 1, "content": b64encode(diff_of("new")).decode()}

    def attach(lease: str | None, **more: Any) -> int:
        headers = {"Planner-Lease": lease} if lease else {}
        return client.post("/v1/attachments", json={**body, **more}, headers=headers).status_code

    assert [attach("guessed"), attach(None), attach(spec["lease"], attempt=2)] == [404, 422, 404]
    assert attach(spec["lease"], content=b64encode(bytes(MAX_ATTACHMENT_BYTES + 1)).decode()) == 422
    assert planner.client.xlen(Partition(0).attachments) == 0
    assert attach(spec["lease"]) == 202
    planner.report("fix-b", plan_id, touched_files=["b.py"], diff_hash=digest(diff_of("new")), lease=spec["lease"])
    assert gateway.client(Right.VIEWER).get(f"/v1/plans/{plan_id}/result").json()["added"] == 1


def test_the_oldest_diffs_go_where_all_or_those_of_a_tenant_take_too_much(
    planner: Planner, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    diffs = {tenant: [diff_of(f"{tenant} {number} {'x' * 1000}") for number in range(3)] for tenant in ("a", "b")}
    monkeypatch.setattr(attachments, "MOST_BYTES", 5000)
    monkeypatch.setattr(attachments, "MOST_OF_A_TENANT", 2500)
    plans, client = [], gateway.client(Right.VIEWER)
    for tenant, some in diffs.items():
        for diff in some:
            plans.append(landed(planner, diff, tenant=tenant))
            sweep(planner)

    def kept() -> list[bool]:
        return [bool(client.get(f"/v1/plans/{plan_id}/changes.diff").content) for plan_id in plans]

    assert kept() == [False, True, True, False, True, True]
    monkeypatch.setattr(attachments, "MOST_BYTES", 1500)
    landed(planner, diff_of("tiny"), tenant="b")
    sweep(planner)
    assert kept() == [False, False, False, False, False, True]
    sizes: dict[bytes, bytes] = planner.client.hgetall(Partition(0).attachments_sizes)  # type: ignore[assignment]
    total = sum(len(each) for each in planner.client.hvals(Partition(0).attachments_kept))
    assert {name: int(size) for name, size in sizes.items()} == {b"": total, b"b": total}


def test_a_diff_is_kept_without_secrets_as_long_as_others_come(gateway: Gateway, planner: Planner) -> None:
    token = "ghp_" + "a1B2" * 9
    plan_id = landed(planner, diff_of(f"new\n-KEY = '{token}'"))
    sweep(planner)

    kept = gateway.client(Right.VIEWER).get(f"/v1/plans/{plan_id}/changes.diff").text
    home, days = Partition(0), planner.container.context(0).engine.store.retention_s / 86_400
    ttls = [planner.client.pttl(key) for key in (home.attachments_kept, home.attachments_order, home.attachments_sizes)]

    assert "-KEY = " in kept
    assert token not in kept
    assert all(days - 1 < ttl / 86_400_000 <= days for ttl in ttls)


def test_a_full_server_takes_attachments_off_and_clocks_go_on(gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit(steps=STEPS)
    sent_attachments.send(planner.client, 1, plan_id, sent_attachments.message(plan_id, "fix-b", 1, diff_of("new")))
    planner.client.config_set("maxmemory", 1)
    try:
        sweep(planner)
    finally:
        planner.client.config_set("maxmemory", 0)

    assert planner.client.xlen(Partition(0).attachments) == 0


def test_a_line_of_a_diff_is_one_line_whatever_is_in_it(gateway: Gateway, planner: Planner) -> None:
    plan_id = landed(planner, diff_of("a\u2028-forged\x0b-too"))
    sweep(planner)

    page = signed_in(gateway, Right.VIEWER).get(f"/plans/{plan_id}").text

    assert page.count('<span class="removed">-') == 1  # of `-old`


def test_what_is_no_attachment_is_dropped(planner: Planner, redis: Redis) -> None:
    for data in (
        b"{",
        b"{}",
        codec.dumps({"plan_id": f"plan_00-{'0' * 32}", "step_id": "a", "attempt": 1, "content": "eA=="}),
    ):
        redis.xadd(Partition(0).attachments, {"data": data})

    sweep(planner)

    assert (redis.xlen(Partition(0).attachments), redis.hlen(Partition(0).attachments_kept)) == (0, 0)


def test_a_result_and_its_diff_are_nobodys_of_another_tenant_or_repository(gateway: Gateway, planner: Planner) -> None:
    plan_id = landed(planner, diff_of("new"), tenant="acme", context={"repo": "acme/shop"})
    sweep(planner)
    theirs = [gateway.client(Right.ADMIN, tenant="initech"), gateway.client(Right.ADMIN, repositories=("acme/till",))]

    for client in theirs:
        for path in ("result", "changes.diff", "changes.diff?step=fix-b"):
            answer = client.get(f"/v1/plans/{plan_id}/{path}")
            assert (answer.status_code, "b.py" in answer.text) == (404, False)
    assert gateway.client(Right.VIEWER, tenant="acme").get(f"/v1/plans/{plan_id}/result").status_code == 200


def test_a_button_of_a_halted_plan_leads_to_a_form_that_has_its_value(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = halted(planner), signed_in(gateway, Right.ADMIN)
    page = client.get(f"/plans/{plan_id}")
    (allow,) = Markup(page.text).links(r".*/acts/retry[?]allow=.*")

    form = client.get(allow).text

    assert "An attempt changed files that its step may not change." in page.text
    assert "Allow etc/passwd and start again" in page.text
    assert "etc/passwd</textarea>" in form
    fields = dict(re.findall(r'name="(csrf|command_id)" value="([^"]*)"', form))
    with deciding(planner):
        sent = client.post(
            allow.partition("?")[0], data={**fields, "allow": "etc/passwd\r\n", "limit": "tokens", "tokens": "9000"}
        )
    made = queries.goal(planner.client, f"retry-{fields['command_id']}")
    assert made is not None
    goal, _ = kept_goals.read(planner.client, 1, made.plan_id)
    assert sent.status_code == 303
    assert (goal["allowed_files"], goal["limits"]["tokens"]) == (["b.py", "etc/passwd"], 9000)


def test_an_approval_is_decided_where_it_is_asked(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = asking(planner), signed_in(gateway, Right.ADMIN)
    page = client.get(f"/plans/{plan_id}").text
    form = page[page.index('id="decide-change"') : page.index("</form>", page.index('id="decide-change"'))]
    fields = dict(re.findall(r'name="(csrf|command_id|step_id|asked)" value="([^"]*)"', form))

    assert [word in form for word in ("HIGH", "b.py", "pytest", "asks before each step of HIGH risk")] == [True] * 4
    assert form.index("Approve") < form.index("Reject") < form.index("Files")
    with obeying(planner.container):
        stale = client.post(f"/plans/{plan_id}/acts/approve", data={**fields, "asked": "other"})
        done = client.post(f"/plans/{plan_id}/acts/approve", data={**fields, "reason": "as agreed"})
    assert (stale.status_code, done.status_code) == (409, 303)
    assert planner.view(plan_id).waiting is None
    assert 'id="decide-change"' not in signed_in(gateway, Right.VIEWER).get(f"/plans/{asking(planner)}").text


def test_the_options_of_a_question_are_buttons(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = questioned(planner), signed_in(gateway, Right.ADMIN)
    page = client.get(f"/plans/{plan_id}").text
    form = page[page.index('id="decide"') : page.index("</form>", page.index('id="decide"'))]
    fields = dict(re.findall(r'name="(csrf|command_id|step_id|asked)" value="([^"]*)"', form))

    assert re.findall(r'<button name="choice" value="(\w)"', form)[:2] == ["A", "B"]
    with obeying(planner.container):
        done = client.post(f"/plans/{plan_id}/acts/answer", data={**fields, "choice": "A"})
    assert done.status_code == 303


def test_a_follow_up_is_sent_from_the_page_of_a_plan(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = landed(planner, diff_of("new")), signed_in(gateway, Right.ADMIN)
    path = f"/plans/{plan_id}/acts/follow_up"
    fields = dict(re.findall(r'name="(csrf|command_id)" value="([^"]*)"', client.get(path).text))

    with deciding(planner):
        empty = client.post(path, data={**fields, "goal": " "})
        sent = client.post(path, data={**fields, "goal": "Test b", "allow": "tests/test_b.py"})

    made = queries.goal(planner.client, f"follow-up-{fields['command_id']}")
    assert (empty.status_code, sent.status_code) == (422, 303)
    assert made is not None
    goal, _ = kept_goals.read(planner.client, 1, made.plan_id)
    assert (goal["from"]["plan_id"], goal["allowed_files"]) == (plan_id, ["b.py", "tests/test_b.py"])
