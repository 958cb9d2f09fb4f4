"""What callbacks decide without a network: when to try, what to sign, whom to call."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from schemas import codec
from worker.callbacks import message
from worker.callbacks.addresses import BadUrl, may_call, parse_url
from worker.callbacks.message import About, sign, write_secret
from worker.callbacks.schedule import DELIVERED, FAILED, HOUR, MINUTE, WAITS_S, Answer, Next, follow
from worker.store.endpoints import EVENTS, Endpoint, EndpointKind, Secret

NOW = 1_800_000_000
SHA = "9f1c2d4e" * 5
ABOUT = About("plan.completed", "plan_3c-" + "0" * 32, "ci-4711", "COMPLETED", NOW * 1000, SHA)


def an_endpoint(kind: EndpointKind = "webhook", url: str = "https://ci.example/hook", **more: Any) -> Endpoint:
    known: dict[str, Any] = {"tenant": None, "repo": "acme/shop", "named": False}
    return Endpoint("ep_" + "0" * 16, kind, url, EVENTS, created=0, secrets=(Secret(""),), **(known | more))


# --- when it is tried ---


def test_ten_tries_over_three_days_wait_as_the_table_says() -> None:
    waits = [follow(Answer(500), tries, 0, NOW) for tries in range(1, 11)]

    assert [each.wait_s for each in waits[:-1]] == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
    assert (WAITS_S[0], len(WAITS_S), waits[-1]) == (0, 10, Next(FAILED))


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        (Answer(200), Next(DELIVERED)),
        (Answer(204), Next(DELIVERED)),
        (Answer(301), Next(wait_s=5)),
        (Answer(308), Next(wait_s=5)),
        (Answer(400), Next(wait_s=5)),
        (Answer(404), Next(wait_s=5)),
        (Answer(410), Next(FAILED, disables=True)),
        (Answer(0, "no answer"), Next(wait_s=5)),
        (Answer(503, retry_after="90"), Next(wait_s=90)),
        (Answer(429, retry_after="90"), Next(wait_s=90)),
        (Answer(429, retry_after="1"), Next(wait_s=5)),
        (Answer(429, retry_after=format_datetime(datetime.fromtimestamp(NOW + 60, UTC), usegmt=True)), Next(wait_s=60)),
        (Answer(429, retry_after="9" * 5000), Next(wait_s=24 * HOUR)),
        (Answer(429, retry_after="-1"), Next(wait_s=5)),
        (Answer(429, retry_after="soon"), Next(wait_s=5)),
        (Answer(503, retry_after="Mon, 01 Jan 2024 00:00:00 +99999999999999"), Next(wait_s=5)),
        (Answer(503, retry_after=f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"), Next(wait_s=5)),
        (Answer(500, retry_after="90"), Next(wait_s=5)),
    ],
)
def test_what_follows_an_answer(answer: Answer, after: Next) -> None:
    assert follow(answer, 1, 0, NOW) == after


def test_a_wait_is_stretched_by_a_fifth_at_most() -> None:
    assert follow(Answer(500), 2, 1, NOW).wait_s == 6 * MINUTE


def test_a_forge_that_refuses_a_status_is_not_asked_again_and_is_not_disabled() -> None:
    assert follow(Answer(422), 1, 0, NOW, is_forge=True) == Next(FAILED)
    assert follow(Answer(410), 1, 0, NOW, is_forge=True) == Next(wait_s=5)


# --- what is sent ---


def test_a_message_is_thin_and_signed_with_each_secret() -> None:
    old, new = write_secret(b"o" * 32), write_secret(b"n" * 32)
    post = message.write(an_endpoint(), ABOUT, "msg_1", (new, old), "https://planner.example/", NOW)

    assert codec.loads(post.body) == {
        "type": "plan.completed",
        "timestamp": "2027-01-15T08:00:00.000Z",
        "data": {
            "plan_id": ABOUT.plan_id,
            "goal_id": "ci-4711",
            "state": "COMPLETED",
            "links": {"plan": f"https://planner.example/v1/plans/{ABOUT.plan_id}"},
        },
    }
    assert post.headers["webhook-id"] == "msg_1"
    assert len(post.headers["webhook-signature"].split()) == 2


def test_the_libraries_of_standard_webhooks_know_both_secrets_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = write_secret(b"o" * 32), write_secret(b"n" * 32)
    now = int(datetime.now(UTC).timestamp())
    headers = sign((new, old), "msg_1", now, b'{"a": 1}')

    assert Webhook(new).verify(b'{"a": 1}', headers) == Webhook(old).verify(b'{"a": 1}', headers) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(write_secret(b"x" * 32)).verify(b'{"a": 1}', headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(b'{"a": 2}', headers)


@pytest.mark.parametrize("public_url", [None, ""])
def test_links_are_paths_where_nobody_said_where_the_gateway_is(public_url: str | None) -> None:
    post = message.write(an_endpoint(), ABOUT, "msg_1", (write_secret(b"o" * 32),), public_url, NOW)
    status = message.write(an_endpoint("github"), ABOUT, "msg_1", ("tok",), public_url, NOW)

    assert codec.loads(post.body)["data"]["links"] == {"plan": f"/v1/plans/{ABOUT.plan_id}"}
    assert "target_url" not in codec.loads(status.body)  # a forge could not follow a path


@pytest.mark.parametrize(
    ("kind", "url", "name", "state", "header"),
    [
        ("github", f"https://api.example/repos/acme/shop/statuses/{SHA}", "context", "success", "authorization"),
        ("gitlab", f"https://api.example/projects/acme%2Fshop/statuses/{SHA}", "name", "success", "private-token"),
    ],
)
def test_a_forge_is_told_the_status_of_the_plans_commit(
    kind: EndpointKind, url: str, name: str, state: str, header: str
) -> None:
    post = message.write(an_endpoint(kind, "https://api.example/"), ABOUT, "msg_1", ("tok",), "https://p.example", NOW)

    assert post.url == url
    assert post.headers[header].removeprefix("Bearer ") == "tok"
    assert codec.loads(post.body) == {
        "state": state,
        name: "planner",
        "description": "The plan is completed.",
        "target_url": f"https://p.example/v1/plans/{ABOUT.plan_id}",
    }


@pytest.mark.parametrize("sha", [None, "9f1c2d4", "main", "../" + SHA[3:], SHA.upper(), SHA + "\n"])
def test_a_status_needs_a_whole_commit(sha: str | None) -> None:
    about = About("plan.completed", "p", "g", "COMPLETED", 0, sha)

    assert message.obstacle(an_endpoint("github"), about, "COMPLETED") == message.NO_COMMIT
    assert message.obstacle(an_endpoint(), about, "COMPLETED") == ""


def test_a_plan_that_has_ended_does_not_become_pending_again() -> None:
    about = About("plan.input_requested", "p", "g", "EXECUTING", 0, SHA)

    assert message.obstacle(an_endpoint("github"), about, "HALTED") == message.OVERTAKEN
    assert message.obstacle(an_endpoint("github"), about, "EXECUTING") == ""
    assert message.obstacle(an_endpoint("github"), about, None) == ""


# --- who is told ---


@pytest.mark.parametrize(
    ("endpoint", "tenant", "repo", "callback", "hears"),
    [
        ({"repo": None}, "acme", None, "", True),
        ({"repo": None, "tenant": "acme"}, "acme", "acme/shop", "", True),
        ({"repo": None, "tenant": "acme"}, "other", "acme/shop", "ep_" + "0" * 16, False),
        ({"repo": "acme/shop"}, "acme", "acme/shop", "", True),
        ({"repo": "acme/shop"}, "acme", "acme/other", "", False),
        ({"repo": "acme/shop"}, "acme", "acme/other", "ep_" + "0" * 16, True),
        ({"repo": None, "named": True}, "acme", None, "", False),
        ({"repo": None, "named": True}, "acme", None, "ep_" + "1" * 16, False),
        ({"repo": None, "named": True}, "acme", None, "ep_" + "0" * 16, True),
    ],
)
def test_who_hears_of_a_plan(
    endpoint: dict[str, Any], tenant: str, repo: str | None, callback: str, hears: bool
) -> None:
    assert an_endpoint(**endpoint).hears("plan.completed", tenant, repo, callback) is hears


# --- where it may go ---

INSIDE = [
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::2", "fc00::1", "fd00:ec2::254", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
    *("100::1", "2001:db8::1", "3fff::1", "5f00::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1"),
    *("::127.0.0.1", "::10.0.0.1", "::169.254.169.254", "::8.8.8.8"),
    *("2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "2002:c0a8:101::"),
    *("64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b:2::1"),
]
OUTSIDE = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "2002:808:808::1"]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_of_the_inside_are_not_called(address: str) -> None:
    assert not may_call(ip_address(address), (), "https")


@pytest.mark.parametrize("address", OUTSIDE)
def test_addresses_of_the_internet_are_called_with_tls_alone(address: str) -> None:
    assert may_call(ip_address(address), (), "https")
    assert not may_call(ip_address(address), (), "http")


def test_what_the_operator_allows_is_called_in_each_of_its_forms_and_nothing_beside_it() -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00::1"))

    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::1"):
        assert may_call(ip_address(address), allowed, "http"), address
    for address in ("10.2.2.3", "127.0.0.1", "fd00::2", "::1", "0.0.0.0"):
        assert not may_call(ip_address(address), allowed, "https"), address


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://a.example/",
            "file:///etc/passwd",
            "gopher://a.example",
            "javascript:alert(1)",
            "//a.example",
            "a",
            "",
        ),
        *("https://", "https:///x", "https://user@a.example/", "https://user:pw@a.example/", "https://:pw@a.example/"),
        *("https://@a.example/", "https://a.example@127.0.0.1/", "https://a.example#@127.0.0.1/"),
        *("https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/"),
        *("https://127.0.0.1./", "https://a.0x7f/", "https://1.2.3.4.5/", "https://0/", "https://017700000001/"),
        *("https://[::1", "https://a.example:99999/", "https://a.example:x/", "https://a b/", "https://a.example/\n"),
        *("https://a.example\\@127.0.0.1/", "https://[fe80::1%25eth0]/", "https://127.0.0.1%00.a.example/"),
        "https://a.example/" + "x" * 2000,
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        parse_url(url)


@pytest.mark.parametrize(
    "url", ["https://a.example", "https://a.example:8443/x?y=z", "http://[::1]:80/", "https://1.2.3.4/"]
)
def test_urls_that_can_be_read(url: str) -> None:
    assert parse_url(url).raw_host
