"""What a person does on the page: said before it is done, only for keys that may, refused as the planner refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from schemas.api_key import Right
from schemas.stored import HOT, decode_plan
from tests.conftest import wait_until
from tests.support.gateway import Gateway
from tests.support.page import signed_in
from tests.support.planner import RISKY, Planner, asking, completed, executing, obeying, questioned, retried
from worker.store import history
from worker.store.keys import Partition

HOSTILE = "<script>alert(1)</script>"
DEEP = "[" * 260 + "]" * 260  # JSON that is read, and cannot be written
CHANGED = "The question has changed since this page was opened. Read it again."
DECIDE = "The gate {} does not pass: 2 items block it. Decide: continue, accept (with a reason) or stop."


def offered(client: httpx.Client, plan_id: str) -> list[str]:
    """What the page of a plan offers to do."""
    return re.findall(rf'href="/plans/{plan_id}/acts/([^"]*)"', client.get(f"/plans/{plan_id}").text)


def hidden(page: str) -> dict[str, str]:
    """The fields of a form that nobody sees."""
    form = page.partition("/acts/")[2]
    return dict(re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)"', form))


def act(client: httpx.Client, address: str, **fields: str) -> httpx.Response:
    """Open the page of an act, and send its form."""
    asked = client.get(address)
    assert asked.status_code == 200, asked.text
    return client.post(address.partition("?")[0], data={**hidden(asked.text), **fields})


def test_a_plan_offers_what_the_key_may_do_about_it_now(gateway: Gateway, planner: Planner) -> None:
    runs, asks, over = executing(planner), asking(planner), completed(planner)
    operator, viewer = signed_in(gateway, Right.OPERATOR), signed_in(gateway, Right.VIEWER)

    assert offered(operator, runs)[:5] == ["pause", "top_up", "tighten", "cancel", "halt"]
    assert {"skip?step_id=a-check", "tighten?step_id=a-check"} <= set(offered(operator, runs))
    assert {"approve?step_id=change", "reject?step_id=change"} <= set(offered(operator, asks))
    assert offered(operator, over) == offered(viewer, runs) == offered(viewer, asks) == []
    assert viewer.get(f"/plans/{runs}/acts/pause").status_code == 403


def test_what_will_happen_is_said_before_it_does(gateway: Gateway, planner: Planner) -> None:
    plan_id = asking(planner)

    page = signed_in(gateway, Right.OPERATOR).get(f"/plans/{plan_id}/acts/reject?step_id=change").text

    assert "The step does not start, and the plan halts." in page
    assert "It cannot be undone." in page
    assert planner.view(plan_id).state == "EXECUTING"


def test_an_act_is_obeyed_and_leads_back_to_its_plan(gateway: Gateway, planner: Planner) -> None:
    plan_id, other, client = asking(planner), executing(planner), signed_in(gateway, Right.OPERATOR)
    at = f"/plans/{plan_id}"

    with obeying(planner.container):
        paused = act(client, f"{at}/acts/pause", until="4h", reason=f"lunch {HOSTILE}")
        page = client.get(paused.headers["location"]).text
        offers = offered(client, plan_id)
        resumed = act(client, f"{at}/acts/resume")
        approved = act(client, f"{at}/acts/approve?step_id=change", reason="looked at")
        topped = act(client, f"{at}/acts/top_up", tokens="5000", patch_cycles="")
        tightened = act(client, f"/plans/{other}/acts/tighten?step_id=fix-b", files="b.py\r\n")
        skipped = act(client, f"/plans/{other}/acts/skip?step_id=a-check")
    view = planner.view(plan_id)

    done = (paused, resumed, approved, topped, tightened, skipped)
    paths = [each.headers["location"].partition("?command=")[0] for each in done]
    assert paths == [at] * 4 + [f"/plans/{other}"] * 2
    told = [re.findall('class="banner green">(.*?)<', client.get(each.headers["location"]).text) for each in done]
    assert told == [[f"{name}: done."] for name in ("Pause", "Resume", "Approve", "Top up", "Tighten", "Skip")]
    assert "Pause: done." in page
    assert "lunch &lt;script&gt;" in page
    assert ("resume" in offers, "pause" in offers) == (True, False)
    assert view.budget.tokens.limit == 405_000
    assert all(step.waiting is None for step in view.steps)


def test_a_refusal_is_told_with_what_was_written(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.OPERATOR)
    at = f"/plans/{plan_id}/acts"

    with obeying(planner.container):
        refused = act(client, f"{at}/resume", reason=f"because {HOSTILE}")
    wrong = [
        act(client, f"{at}/top_up"),
        act(client, f"{at}/top_up", tokens="-5"),
        act(client, f"{at}/top_up", tokens="9" * 12),
        act(client, f"{at}/tighten"),
        act(client, f"{at}/answer", answer="{no json"),
        act(client, f"{at}/answer", answer=DEEP),
    ]

    assert (refused.status_code, "the plan is not paused" in refused.text) == (409, True)
    assert "because &lt;script&gt;" in refused.text
    assert [each.status_code for each in wrong] == [422] * 6
    assert "{no json" in wrong[-2].text
    assert "are nested more than 100 deep" in wrong[-1].text
    assert DEEP in wrong[-1].text


def test_what_became_of_a_command_is_green_only_where_it_was_done(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.OPERATOR)
    banner = re.compile('id="became".*?class="banner (.*?)">(.*?)<', re.DOTALL)
    with obeying(planner.container):
        for command_id, command in (("zero", "pause"), ("one", "resume"), ("two", "resume")):
            act(client, f"/plans/{plan_id}/acts/{command}", command_id=command_id)

    told = [banner.findall(client.get(f"/plans/{plan_id}?command={name}").text) for name in ("one", "two", "none")]

    assert [tone for ((tone, _),) in told] == ["green", "red", "amber"]
    assert "Resume: refused, the plan is not paused" in told[1][0][1]
    assert "not among the newest" in told[2][0][1]


def test_what_is_in_flight_is_neither_skipped_nor_made_riskier(gateway: Gateway, planner: Planner) -> None:
    runs, prepares, client = executing(planner), retried(planner), signed_in(gateway, Right.OPERATOR)
    forms = [client.get(f"/plans/{runs}/acts/tighten?step_id={name}").text for name in ("fix-b", "a-check")]

    assert {"skip?step_id=fix-b"}.isdisjoint(offered(client, runs))
    assert {"tighten?step_id=fix-b", "skip?step_id=a-check"} <= set(offered(client, runs))
    assert "skip?step_id=fix-b" not in offered(client, prepares)  # what was put before its next attempt is in flight
    assert ['name="risk"' in form for form in forms] == [False, True]
    assert ["in flight" in form for form in forms] == [True, False]


def test_risk_can_only_be_raised(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = asking(planner), signed_in(gateway, Right.OPERATOR)

    risks = {
        step.risk_level: re.findall("<option>(.*?)</option>", page.partition('name="risk"')[2])
        for step in planner.view(plan_id).steps
        if step.state != "ACTIVE"
        for page in [client.get(f"/plans/{plan_id}/acts/tighten?step_id={step.step_id}").text]
    }

    assert risks["HIGH"] == []
    assert all(level not in found and "LOW" not in found for level, found in risks.items())


def test_an_act_that_is_sent_twice_is_obeyed_once(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = executing(planner), signed_in(gateway, Right.OPERATOR)
    address = f"/plans/{plan_id}/acts/top_up"
    fields = {**hidden(client.get(address).text), "tokens": "5"}

    with obeying(planner.container):
        answers = [client.post(address, data=fields).status_code for _ in range(2)]

    assert answers == [303, 303]
    assert planner.view(plan_id).budget.tokens.limit == 400_005


def test_nothing_is_done_without_the_right_the_plan_and_the_token(gateway: Gateway, planner: Planner) -> None:
    ours, theirs = executing(planner), planner.submit(tenant="initech")
    operator, viewer = signed_in(gateway, Right.OPERATOR, tenant="default"), signed_in(gateway, Right.VIEWER)
    fields = hidden(operator.get(f"/plans/{ours}/acts/halt").text)
    (csrf,) = re.findall('name="csrf" value="(.*?)"', viewer.get("/").text)
    before = gateway.redis.xlen(Partition(0).commands)

    answers = [
        operator.post(f"/plans/{theirs}/acts/halt", data=fields),
        operator.post(f"/plans/{ours}/acts/halt", data={**fields, "csrf": csrf}),
        operator.post(f"/plans/{ours}/acts/halt", data=fields, headers={"Origin": "https://evil.example"}),
        operator.post(f"/plans/{ours}/acts/unknown", data=fields),
        operator.post(f"/plans/{ours}/acts/skip", data={**fields, "step_id": "none"}),
        viewer.post(f"/plans/{ours}/acts/halt", data={**fields, "csrf": csrf}),
        gateway.client(Right.ADMIN).post(f"/plans/{ours}/acts/halt", data=fields, headers={"Origin": gateway.url}),
    ]

    assert [each.status_code for each in answers] == [404, 403, 403, 422, 404, 403, 401]
    assert gateway.redis.xlen(Partition(0).commands) == before


def ask_again(planner: Planner, plan_id: str, question: str, until: int) -> None:
    """Have a plan ask a person to decide about a gate, in the place of what it asked."""
    key = Partition(0).plan(plan_id).plan
    raw: Any = planner.client.hmget(key, *HOT)
    asked = {"kind": "decision", "questions": [question], "asked": until - 1000, "until": until}
    planner.client.hset(key, "live", replace(decode_plan(raw), question=asked).encode("live"))


@pytest.mark.parametrize("gate", ["plan-code", "plan-design"], ids=["another gate", "the same gate once more"])
def test_an_answer_counts_for_the_question_that_its_reader_saw(gateway: Gateway, planner: Planner, gate: str) -> None:
    plan_id, client = questioned(planner), signed_in(gateway, Right.OPERATOR)
    at = f"/plans/{plan_id}/acts/answer"
    ask_again(planner, plan_id, DECIDE.format("plan-design"), until=2_000_000_000_000)
    seen = hidden(client.get(at).text)
    ask_again(planner, plan_id, DECIDE.format(gate), until=2_000_000_000_001)
    before = gateway.redis.xlen(Partition(0).commands)

    late = client.post(at, data={**seen, "choice": "accept", "reason": "it <will> do", "answer": ""})
    blind = client.post(at, data={"csrf": seen["csrf"], "choice": "accept", "reason": "it will do"})

    for answer in (late, blind):
        assert (answer.status_code, CHANGED in answer.text) == (409, True)
        assert f"The gate {gate} does not pass" in answer.text
        assert re.findall('name="choice" value="(.*?)" checked', answer.text) == [""]
    assert 'name="reason" maxlength="1000" value="it &lt;will&gt; do"' in late.text
    assert gateway.redis.xlen(Partition(0).commands) == before


def test_what_was_written_about_another_question_is_kept_beside_the_form(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = questioned(planner), signed_in(gateway, Right.OPERATOR)
    at = f"/plans/{plan_id}/acts/answer"
    seen = hidden(client.get(at).text)
    ask_again(planner, plan_id, DECIDE.format("plan-code"), until=2_000_000_000_000)

    late = client.post(at, data={**seen, "choice": "", "answer": "In Redis, <b>always</b>"})

    assert late.status_code == 409
    assert re.findall("<summary>Your earlier text</summary><pre .*?>(.*?)</pre>", late.text) == [
        "In Redis, &lt;b&gt;always&lt;/b&gt;"
    ]
    assert re.findall(r'<textarea name="answer".*?>\n(.*?)</textarea>', late.text, re.DOTALL)[0].startswith("#")


def test_an_answer_says_which_kind_of_question_it_is_for(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = questioned(planner), signed_in(gateway, Right.OPERATOR)

    with obeying(planner.container):
        answered = act(client, f"/plans/{plan_id}/acts/answer", choice="A")

    command_id = answered.headers["location"].partition("?command=")[2]
    heard = history.find_command(planner.client, Partition(0).plan(plan_id), command_id)
    assert heard is not None
    assert (heard[0]["question"], heard[1]) == ("clarify", None)


def risky(planner: Planner) -> str:
    """A plan with two steps that wait for an approval."""
    more = {**RISKY[1], "step_id": "other", "allowed_files": ["c.py"]}
    steps = [RISKY[0], {**RISKY[1], "allowed_files": ["a.py", "b.py"]}, more]
    return planner.submit(steps=steps, approvals=["HIGH"], allowed_files=["a.py", "b.py", "c.py"])


@pytest.mark.parametrize("what", ["approve", "reject"])
def test_a_step_that_became_another_is_read_again_before_it_is_decided_about(
    gateway: Gateway, planner: Planner, what: str
) -> None:
    plan_id, client = risky(planner), signed_in(gateway, Right.OPERATOR)
    at = f"/plans/{plan_id}/acts/{what}"
    seen, other = (hidden(client.get(f"{at}?step_id={step}").text) for step in ("change", "other"))

    with obeying(planner.container):
        act(client, f"/plans/{plan_id}/acts/tighten?step_id=change", files="b.py")
        late = client.post(at, data={**seen, "reason": "two files are fine"})
        waits = [step.step_id for step in planner.view(plan_id).steps if step.waiting]
        again = client.post(at, data={**hidden(late.text), "reason": "one is too"})
        same = client.post(at, data=other) if what == "approve" else None

    assert (late.status_code, CHANGED in late.text, "two files are fine" in late.text) == (409, True, True)
    assert waits == ["change", "other"]
    assert again.status_code == 303
    assert same is None or same.status_code == 303  # what was asked about this step is the same


def test_an_approval_that_is_sent_twice_is_one(gateway: Gateway, planner: Planner) -> None:
    plan_id, client = asking(planner), signed_in(gateway, Right.OPERATOR)
    seen = hidden(client.get(f"/plans/{plan_id}/acts/approve?step_id=change").text)

    with obeying(planner.container):
        answers = [client.post(f"/plans/{plan_id}/acts/approve", data=seen) for _ in range(2)]

    assert [each.status_code for each in answers] == [303, 303]
    assert len({each.headers["location"] for each in answers}) == 1


def test_plans_that_are_selected_are_acted_on_together(gateway: Gateway, planner: Planner) -> None:
    first, second, over = executing(planner), executing(planner), completed(planner)
    client = signed_in(gateway, Right.ADMIN)
    asked = client.get("/acts/selected", params={"act": "cancel", "plan": [first, second, over]})
    fields = dict(re.findall(r'name="(csrf|command_id|asked|act|plans)" value="([^"]*)"', asked.text))

    with obeying(planner.container):
        done = client.post("/acts/selected", data={**fields, "reason": "no longer wanted"})
        wait_until(lambda: planner.view(first).state == planner.view(second).state == "HALTED", what="both have ended")

    assert "it cannot be done now" in asked.text
    assert "Cancel: 2 of 3 plans" in done.text
    assert planner.view(over).state == "COMPLETED"


def test_an_approval_of_several_plans_is_for_the_steps_that_were_shown(gateway: Gateway, planner: Planner) -> None:
    plans, client = [asking(planner), asking(planner)], signed_in(gateway, Right.ADMIN)
    asked = client.get("/acts/selected", params={"act": "approve", "plan": plans})
    fields = dict(re.findall(r'name="(csrf|command_id|asked|act|plans)" value="([^"]*)"', asked.text))

    with obeying(planner.container):
        stale = client.post("/acts/selected", data={**fields, "plans": plans[0]})
        client.post("/acts/selected", data=fields)
        wait_until(lambda: not any(planner.view(each).waiting for each in plans), what="both are approved")

    assert (asked.text.count("HIGH risk"), stale.status_code) == (2, 409)


def test_a_selection_with_anothers_plan_is_not_there(gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit(tenant="acme")
    client = signed_in(gateway, Right.ADMIN, tenant="initech")

    assert client.get("/acts/selected", params={"act": "cancel", "plan": plan_id}).status_code == 404
