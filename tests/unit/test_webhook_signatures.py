"""Signatures of webhooks: as each forge makes them, with several secrets while one takes the place of another."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.support.webhooks import SECRET, SIGNING, by_github, by_standard
from worker.webhooks.signatures import is_signed
from worker.webhooks.sources_file import Scheme

NOW = 1_760_000_000
OTHER = "whsec_" + b64encode(b"f" * 32).decode()
BODY = b'{"a": 1}'


def test_github_signs_the_raw_bytes() -> None:
    headers, raw = by_github("ping", BODY)

    assert is_signed(Scheme.GITHUB, headers, raw, ["new", SECRET], NOW)
    assert not is_signed(Scheme.GITHUB, headers, raw + b" ", [SECRET], NOW)
    assert not is_signed(Scheme.GITHUB, headers, raw, ["new"], NOW)
    assert not is_signed(Scheme.GITHUB, {}, raw, [SECRET], NOW)
    assert not is_signed(Scheme.GITHUB, headers | {"x-hub-signature-256": ""}, raw, [SECRET], NOW)
    assert not is_signed(Scheme.GITHUB, headers | {"x-hub-signature-256": "sha256=\udcff\u00e9"}, raw, [SECRET], NOW)


def test_the_documented_example_of_github() -> None:
    shown = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    assert is_signed(Scheme.GITHUB, {"x-hub-signature-256": shown}, b"Hello, World!", [SECRET], NOW)


@pytest.mark.parametrize("scheme", [Scheme.STANDARD, Scheme.GITLAB])
def test_a_signature_of_standard_webhooks_is_good_for_five_minutes(scheme: Scheme) -> None:
    headers, raw = by_standard(BODY, NOW)

    assert is_signed(scheme, headers, raw, [OTHER, SIGNING], NOW)
    assert is_signed(scheme, headers, raw, [SIGNING], NOW + 300)
    assert is_signed(scheme, headers, raw, [SIGNING], NOW - 300)
    assert not is_signed(scheme, headers, raw, [SIGNING], NOW + 301)
    assert not is_signed(scheme, headers, raw, [SIGNING], NOW - 301)
    assert not is_signed(scheme, headers, raw, [OTHER], NOW)
    assert not is_signed(scheme, headers, raw, ["no base64 !", ""], NOW)


def test_one_of_several_signatures_is_enough() -> None:
    headers, raw = by_standard(BODY, NOW)
    shown = headers["webhook-signature"]

    assert is_signed(Scheme.STANDARD, headers | {"webhook-signature": f"v1a,xx v1,AAAA {shown}"}, raw, [SIGNING], NOW)
    assert not is_signed(Scheme.STANDARD, headers | {"webhook-signature": f"v2,{shown[3:]}"}, raw, [SIGNING], NOW)
    assert not is_signed(Scheme.STANDARD, headers | {"webhook-signature": "v1, v1,"}, raw, [SIGNING], NOW)
    for name, value in (("webhook-id", "msg_2"), ("webhook-id", ""), ("webhook-timestamp", "1e9"), *TIMES):
        assert not is_signed(Scheme.STANDARD, headers | {name: value}, raw, [SIGNING], NOW)


TIMES = tuple(("webhook-timestamp", value) for value in (str(NOW + 1), "", f"+{NOW}", f" {NOW}", "9" * 5000, "\uff11"))


def test_a_token_of_gitlab_is_compared_whole_and_a_signing_secret_is_no_token() -> None:
    assert is_signed(Scheme.GITLAB, {"x-gitlab-token": SECRET}, BODY, [SIGNING, SECRET], NOW)
    assert not is_signed(Scheme.GITLAB, {"x-gitlab-token": SECRET[:-1]}, BODY, [SECRET], NOW)
    assert not is_signed(Scheme.GITLAB, {"x-gitlab-token": SIGNING}, BODY, [SIGNING], NOW)
    assert not is_signed(Scheme.GITLAB, {"x-gitlab-token": ""}, BODY, [SECRET], NOW)
    assert not is_signed(Scheme.GITLAB, {"x-gitlab-token": SECRET, "webhook-signature": "v1,x"}, BODY, [SECRET], NOW)
    assert not is_signed(Scheme.STANDARD, {"x-gitlab-token": SECRET}, BODY, [SECRET], NOW)
