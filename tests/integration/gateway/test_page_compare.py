"""Two plans side by side, and the result of a backtest as a table."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import httpx
import pytest

from schemas.api_key import Right
from tests.support.gateway import Gateway
from tests.support.page import EARLIER, HOSTILE, PLAN, REALLY, Markup, signed_in
from tests.support.page_views import pair
from tests.support.planner import Planner, completed
from worker.gateway.page import compare_view
from worker.gateway.page.backtest_lines import MOST_ROWS
from worker.store import plan_lists, queries
from worker.store.keys import Partition, bucket

REPO = "acme/shop"
SAME = {**EARLIER, "verdict": "same", "line": None, "would": REALLY}


def text_of(answer: httpx.Response) -> str:
    return " ".join(" ".join(Markup(answer.text).texts).split())


def test_two_plans_stand_side_by_side_to_where_their_logs_part(gateway: Gateway, planner: Planner) -> None:
    one, other = pair(planner)
    client = signed_in(gateway, Right.VIEWER)

    told = text_of(client.get(f"/compare?a={one}&b={other[5:]}"))

    assert "One goal" in told
    assert "State COMPLETED HALTED differs" in told
    assert "security differs" in told
    assert re.search(r"Steps done 3 1 -2", told)
    assert re.search(r"Both logs tell the same \d+ things, times and ids aside", told)
    assert "fix-b Fix b DONE, 1 attempt HALTED, 1 attempt differs" in told
    assert "look Look DONE" not in told
    assert "look Look DONE, 1 attempt DONE, 1 attempt" in text_of(client.get(f"/compare?a={one}&b={other}&every=true"))


def test_logs_of_large_plans_are_read_where_that_is_asked_for(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_view, "MOST_TOLD", 2)
    one, other = pair(planner)
    client = signed_in(gateway, Right.VIEWER)

    first = client.get(f"/compare?a={one}&b={other}")
    asked = Markup(first.text).links("/compare.*every=true")

    assert "are not read unless you ask for it" in text_of(first)
    assert "Failed attempts" not in text_of(first)
    assert "fix-b Fix b DONE, 1 attempt HALTED, 1 attempt differs" in text_of(first)
    assert "Both logs tell the same" in text_of(client.get(asked[0]))


def test_a_plan_is_like_itself_and_like_another_that_went_the_same_way(gateway: Gateway, planner: Planner) -> None:
    one, other = completed(planner), completed(planner)

    told = text_of(signed_in(gateway, Right.VIEWER).get(f"/compare?a={one}&b={other}"))

    assert "Both logs tell the same to their end" in told
    assert "Every step came to the same in both." in told


def test_a_retry_leads_to_the_comparison_with_what_it_tries_again(gateway: Gateway, planner: Planner) -> None:
    one, other = pair(planner)
    planner.client.hset(Partition(0).plan(other).plan, "retried_by", one)
    client = signed_in(gateway, Right.VIEWER)

    (link,) = Markup(client.get(f"/plans/{other}").text).links("/compare[?].*")

    assert link == f"/compare?a={other}&b={one}"
    assert client.get(link).status_code == 200


def test_what_cannot_be_compared_is_told(gateway: Gateway, planner: Planner) -> None:
    ours, _ = (planner.submit(context={"repo": REPO}) for _ in range(2))
    theirs = planner.submit(tenant="initech", context={"repo": "initech/till"})
    client = signed_in(gateway, Right.VIEWER, tenant="default")

    begin, others = ours[:7], theirs[:12]
    asked = [(ours, theirs), (ours, begin), (ours, others), (ours, "plan_"), ("<b>", "z")]
    answers = [client.get("/compare", params={"a": a, "b": b}) for a, b in asked]

    assert client.get("/compare").status_code == 200
    assert [each.status_code for each in answers] == [422] * 5
    assert f"The second plan: There is no plan {theirs}." in text_of(answers[0])
    assert f"The second plan: Several plans begin with {begin}: write more of the id." in text_of(answers[1])
    assert f"The second plan: There is no plan whose id begins with {others}." in text_of(answers[2])
    for answer, name in ((answers[3], "plan_"), (answers[4], "z")):
        assert f"The second plan: {name} is no beginning of a plan's id" in text_of(answer)


@pytest.mark.parametrize("sight", [{"tenant": "initech"}, {"repositories": ("initech/till",)}], ids=["tenant", "repo"])
def test_the_plans_of_others_do_not_hide_the_one_that_a_beginning_means(
    gateway: Gateway, planner: Planner, sight: dict[str, Any]
) -> None:
    ours = planner.submit(tenant="initech", context={"repo": "initech/till"})
    alike = next(repo for repo in map("acme/{}".format, count()) if bucket(repo) == bucket("initech/till"))
    for _ in range(25):
        planner.submit(context={"repo": alike})

    answer = signed_in(gateway, Right.VIEWER, **sight).get(f"/compare?a={ours[5:8]}&b={ours}")

    assert answer.status_code == 200, text_of(answer)
    assert "Every step came to the same in both." in text_of(answer)


def test_what_is_no_beginning_of_an_id_has_no_plan_looked_at(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_lists, "_places", None)

    answer = signed_in(gateway, Right.VIEWER).get("/compare?a=z&b=plan_z")

    assert answer.status_code == 422


def test_of_a_beginning_so_many_plans_are_looked_at_and_then_the_whole_id_is_asked_for(
    gateway: Gateway, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_LOOKS", 3)
    older, *_ = (planner.submit(context={"repo": f"acme/{number}"}) for number in range(6))
    client = signed_in(gateway, Right.VIEWER)

    told = text_of(client.get(f"/compare?a={older[:9]}&b={older}"))

    assert f"The first plan: None of the newest plans begins with {older[:9]}: write the whole id." in told
    assert client.get(f"/compare?a={older}&b={older}").status_code == 200


def backtest(client: httpx.Client, *lines: Any) -> httpx.Response:
    """Send lines as the form does; what is no text is written as JSON."""
    (csrf,) = re.findall('class="paste".*?name="csrf" value="(.*?)"', client.get("/backtest").text, re.DOTALL)
    text = "\r\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return client.post("/backtest", data={"csrf": csrf, "lines": text})


def test_a_backtest_becomes_a_table(gateway: Gateway, planner: Planner) -> None:
    unread = {"source": "old.json", "why": "It has no first line."}
    unknown = {**EARLIER, "verdict": "goes_on", "basis": "unknown", "would": None}

    answer = backtest(signed_in(gateway, Right.VIEWER), EARLIER, SAME, unknown, unread, {"sum": {"plans": 3}})
    told = text_of(answer)

    assert answer.status_code == 200
    assert "What the other rules would have done to 3 plans 1 the same 1 ended earlier" in told
    assert "Facts 100 to 200 at least 1 min 100 to 200 100 to 200" in told
    assert "task COMPLETED HALTED consecutive_failures 7 100 to 200 at least 1 min fact" in told
    assert "not ended where they were" in told
    assert "old.json It has no first line." in told
    assert f"/plans/{PLAN}" in Markup(answer.text).links("/plans/.*")
    assert "The last line" not in told


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "There is nothing in it"),
        ("{", "Line 1 is no JSON: "),
        ("[1]", "Line 1 is no JSON object."),
        ("Unknown plan", "Line 1 is no JSON"),
        ({"plan_id": PLAN}, "Line 1 is no line of a backtest: kind: is missing"),
        ({**EARLIER, "verdict": "worse"}, "Line 1 is no line of a backtest: verdict: "),
        ({**EARLIER, "tokens_saved": {"least": "x", "most": 1}}, "tokens_saved.least: "),
        ({**EARLIER, "really": {**REALLY, "at": "yesterday"}}, "really.at: "),
        ('{"a": ' + "[" * 5000, "Line 1 is no JSON"),
    ],
    ids=["nothing", "half", "list", "words", "few", "verdict", "figure", "time", "deep"],
)
def test_what_is_no_backtest_says_why(gateway: Gateway, line: Any, why: str) -> None:
    answer = backtest(signed_in(gateway, Right.VIEWER), line)

    assert answer.status_code == 422, answer.text
    assert why in text_of(answer)


def test_lines_that_cannot_be_read_keep_no_other_from_the_table(gateway: Gateway) -> None:
    answer = backtest(signed_in(gateway, Right.VIEWER), EARLIER, "", "oops", SAME)

    assert answer.status_code == 422
    assert "Not all of it could be read: Line 3 is no JSON" in text_of(answer)
    assert "done to 2 plans" in text_of(answer)
    assert "which has the sum, is not there" in text_of(answer)
    assert "\N{REPLACEMENT CHARACTER}" not in answer.text  # what was sent can be put right and sent again


def test_a_backtest_has_no_more_rows_than_a_page_takes(gateway: Gateway) -> None:
    short = {**EARLIER, "plan_id": "p", "source": ""}

    answer = backtest(signed_in(gateway, Right.VIEWER), *[short] * (MOST_ROWS + 3))

    assert "3 more are counted above and not shown." in text_of(answer)
    assert answer.text.count('<th scope="row" data-label="Plan">') == MOST_ROWS


def test_a_backtest_is_data(gateway: Gateway) -> None:
    hostile = {**EARLIER, "plan_id": HOSTILE[:64], "kind": "<img>", "really": {**REALLY, "state": "<script>x"}}
    client = signed_in(gateway, Right.VIEWER)

    for lines in ([hostile, {"source": HOSTILE, "why": HOSTILE}], ["</textarea><script>"], [{**EARLIER, HOSTILE: 1}]):
        answer = backtest(client, *lines)
        tags = [tag for tag, _ in Markup(answer.text).elements]
        assert (tags.count("script"), tags.count("img"), tags.count("textarea")) == (1, 1, 1)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", answer.text.replace("\r", ""))


def test_a_backtest_needs_the_form_of_the_session(gateway: Gateway) -> None:
    client, other = signed_in(gateway, Right.VIEWER), signed_in(gateway, Right.VIEWER)
    (foreign,) = re.findall('class="paste".*?name="csrf" value="(.*?)"', other.get("/backtest").text, re.DOTALL)

    assert client.post("/backtest", data={"csrf": foreign, "lines": "{}"}).status_code == 403
    assert client.post("/backtest", data={"lines": "{}"}).status_code == 403
    assert gateway.with_token(None).post("/backtest", headers={"Origin": gateway.url}).status_code in (401, 415)
