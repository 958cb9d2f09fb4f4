"""`POST /v1/token`: tokens of CI jobs, good ones, forged ones, and those of somebody else."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.testclient import TestClient
from redis import Redis

from tests.support.issuer import AUDIENCE, GITHUB, GITLAB, Issuer, running_issuer
from worker.gateway import oidc
from worker.gateway.app import create_app
from worker.settings.oidc_file import WrongIssuers, issuers_of
from worker.settings.settings import Settings, WrongSettings, load
from worker.store import api_keys
from worker.store.clients import connect

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
TABLE = """
[[issuer]]
iss = "{iss}"
aud = "{aud}"
kind = "{kind}"
tenant = "acme"
right = "producer"
queues = ["ci"]
{rest}
"""
NOT_ON_GITHUB: dict[str, Any] = dict.fromkeys(GITHUB)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect(redis_url) as made:
        yield made


def gateway(redis_url: str, folder: Path, *tables: str) -> TestClient:
    file = folder / "oidc.toml"
    file.write_text("\n".join(tables))
    settings = Settings(redis_url=redis_url, oidc_file=file)
    return TestClient(create_app(settings), base_url="http://localhost")


def table(issuer: Issuer, kind: str = "github", rest: str = "repositories = [11]", aud: str = AUDIENCE) -> str:
    return TABLE.format(iss=issuer.url, aud=aud, kind=kind, rest=rest)


def told(door: TestClient, token: str) -> tuple[int, str]:
    answer = door.post("/v1/token", json={"token": token})
    assert token not in answer.text
    return answer.status_code, answer.json().get("code", "")


@pytest.mark.parametrize("kid", ["r", "e"])
def test_a_job_gets_a_key_of_its_repository_for_an_hour(
    redis_url: str, client: Redis, issuer: Issuer, tmp_path: Path, kid: str, caplog: pytest.LogCaptureFixture
) -> None:
    door = gateway(redis_url, tmp_path, table(issuer, rest='owner_id = "7"\nrefs = ["refs/heads/*"]'))
    token = issuer.token(kid, aud=AUDIENCE)

    answer = door.post("/v1/token", json={"token": token})

    assert (answer.status_code, answer.headers["Cache-Control"], set(answer.json())) == (
        200,
        "no-store",
        {"key", "expires_at"},
    )
    found = api_keys.find(client, answer.json()["key"])
    assert found is not None
    assert (found.tenant, found.rights, found.queues) == ("acme", ("producer",), ("ci",))
    assert (found.repositories, found.subject) == (("acme/shop",), GITHUB["sub"])
    left = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    assert 3500 < client.ttl(f"planner:{{keys}}:key:{found.key_id}") <= 3600
    assert answer.json()["key"].split("_")[2] not in caplog.text
    assert token not in caplog.text


def test_jobs_of_protected_refs_get_keys_on_gitlab(redis_url: str, issuer: Issuer, tmp_path: Path) -> None:
    rest = 'repositories = ["11"]\nrefs = ["refs/heads/main", "refs/tags/v*"]'
    door = gateway(redis_url, tmp_path, table(issuer, "gitlab", rest))

    def of(**claims: Any) -> tuple[int, str]:
        return told(door, issuer.token(**(NOT_ON_GITHUB | GITLAB | claims)))

    assert of() == (200, "")
    assert of(project_id=11) == (200, "")
    assert of(ref="v1", ref_type="tag") == (200, "")
    for wrong in ({"ref_protected": "false"}, {"ref_protected": None}, {"project_id": "12"}, {"ref": "other"}):
        assert of(**wrong) == (403, "token_not_allowed")


@pytest.mark.parametrize("event", ["issue_comment", "workflow_run", "pull_request_target", "issues", "watch"])
def test_a_job_of_an_event_that_strangers_begin_gets_a_key_where_it_is_named_alone(
    redis_url: str, issuer: Issuer, tmp_path: Path, event: str
) -> None:
    folders = [tmp_path / name for name in ("every", "some", "others")]
    for folder in folders:
        folder.mkdir()
    every, some, others = (
        gateway(redis_url, folders.pop(0), table(issuer, rest="repositories = [11]\n" + events))
        for events in ("", f'events = ["push", "{event}"]', 'events = ["push", "schedule"]')
    )

    assert [told(door, issuer.token(event_name=event))[0] for door in (every, some, others)] == [403, 200, 403]
    assert [told(door, issuer.token(event_name="push"))[0] for door in (every, some, others)] == [200, 200, 200]
    assert [told(door, issuer.token(event_name="pull_request"))[0] for door in (every, some, others)] == [200, 403, 403]


def test_events_of_gitlab_are_its_pipelines_sources(redis_url: str, issuer: Issuer, tmp_path: Path) -> None:
    rest = 'repositories = ["11"]\nevents = ["push"]'
    door = gateway(redis_url, tmp_path, table(issuer, "gitlab", rest))

    def of(**claims: Any) -> int:
        return told(door, issuer.token(**(NOT_ON_GITHUB | GITLAB | claims)))[0]

    assert [of(pipeline_source=each) for each in ("push", "schedule", None)] == [200, 403, 403]


@pytest.mark.parametrize(
    ("ref", "status"), [("refs/tags/v1", 200), ("refs/tags/v1/x", 403), ("refs/heads/a/b", 200), ("refs/heads", 403)]
)
def test_a_star_in_a_ref_stops_at_a_slash(
    redis_url: str, issuer: Issuer, tmp_path: Path, ref: str, status: int
) -> None:
    door = gateway(redis_url, tmp_path, table(issuer, rest='owner_id = "7"\nrefs = ["refs/tags/*", "refs/heads/**"]'))

    assert told(door, issuer.token(ref=ref))[0] == status


@pytest.mark.parametrize(
    "claims",
    [
        {"repository_id": "12"},  # of the same name, which was given to somebody else
        {"repository_id": None},
        {"repository": None},
        {"repository": "x" * 300},
        {"repository_owner_id": "8"},
        {"event_name": "pull_request_target"},
        {"event_name": None},
        {"ref": "refs/pull/3/merge"},
        {"ref": None},
    ],
    ids=str,
)
def test_a_job_that_is_not_configured_gets_no_key(
    redis_url: str, client: Redis, issuer: Issuer, tmp_path: Path, claims: dict[str, Any]
) -> None:
    rest = 'repositories = [11]\nowner_id = 7\nrefs = ["refs/heads/main"]'
    door = gateway(redis_url, tmp_path, table(issuer, rest=rest))

    assert told(door, issuer.token(**claims)) == (403, "token_not_allowed")
    assert told(door, issuer.token()) == (200, "")
    assert len(api_keys.every(client)) == 1


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def forged(issuer: Issuer) -> Iterator[str]:
    """Yield tokens that are not to be believed."""
    now, stranger = int(time.time()), rsa.generate_private_key(65537, 2048)
    good = {"iss": issuer.url, "aud": AUDIENCE, "iat": now, "exp": now + 300, **GITHUB}
    stranger_jwk = jwt.algorithms.RSAAlgorithm.to_jwk(stranger.public_key(), as_dict=True)
    here = {"jku": issuer.url + "/evil", "x5u": issuer.url + "/evil", "jwk": stranger_jwk}
    yield jwt.encode(good, stranger, "RS256", headers={"kid": "r", **here})
    yield jwt.encode(good, stranger, "RS256", headers={"kid": "evil", **here})
    yield jwt.encode(good, stranger, "RS256", headers=here)
    symmetric = f"{encoded({'alg': 'HS256', 'kid': 'r'})}.{encoded(good)}"
    for form in (serialization.Encoding.DER, serialization.Encoding.PEM):
        public = issuer.rsa.public_key().public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo)
        made = hmac.new(public, symmetric.encode(), "sha256").digest()
        yield f"{symmetric}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
    yield f"{encoded({'alg': 'none', 'kid': 'r'})}.{encoded(good)}."
    yield jwt.encode(good, issuer.rsa, "RS512", headers={"kid": "r"})
    yield jwt.encode(good, issuer.rsa, "PS256", headers={"kid": "r"})
    for iss in ([issuer.url], {"a": 1}, 7):
        yield f"{encoded({'alg': 'RS256', 'kid': 'r'})}.{encoded(good | {'iss': iss})}.x"
    yield issuer.token(header={"kid": "e"})
    yield issuer.token(header={"crit": ["exp"], "exp": 1})
    head, _, signature = issuer.token().split(".")
    other = encoded(good | {"repository_id": "12"})
    yield ".".join((head, other, signature))
    yield ".".join((head, other, ""))
    yield from (
        "x",
        "a.b.c",
        "..",
        "é" * 100,
        "[" * 15_000,
        head + "." + base64.b64encode(b"[" * 11_000).decode() + ".x",
    )
    yield head + "." + base64.b64encode(b'{"iss": 1e999, "exp": 1e999}').decode() + ".x"


def test_no_forged_token_is_believed_and_no_key_is_taken_from_one(
    redis_url: str, client: Redis, issuer: Issuer, tmp_path: Path
) -> None:
    door = gateway(redis_url, tmp_path, table(issuer))

    for token in forged(issuer):
        assert told(door, token) == (401, "wrong_token"), token[:200]

    assert api_keys.every(client) == []
    assert "/evil" not in issuer.asked
    assert issuer.asked.count("/keys") == 1  # however many keys are named that are not there
    assert told(door, issuer.token()) == (200, "")


def test_times_audience_and_issuer_are_exact_up_to_a_minute(redis_url: str, issuer: Issuer, tmp_path: Path) -> None:
    door, now = gateway(redis_url, tmp_path, table(issuer)), int(time.time())

    rights: tuple[dict[str, Any], ...] = ({"exp": now - 50}, {"iat": now + 50}, {"nbf": now + 50})
    for claims in rights:
        assert told(door, issuer.token(**claims)) == (200, "")
    wrongs: tuple[dict[str, Any], ...] = (
        *({"exp": now - 70}, {"iat": now + 70}, {"nbf": now + 70}, {"exp": None}, {"iat": None}),
        *({"aud": "https://github.com/acme"}, {"aud": [AUDIENCE, "other"]}, {"aud": [AUDIENCE]}, {"aud": None}),
        *({"aud": AUDIENCE + "/"}, {"iss": issuer.url + "/"}, {"iss": "https://other.example"}, {"iss": None}),
        *({"exp": float("inf")}, {"exp": "soon"}),
    )
    for wrong in wrongs:
        assert told(door, issuer.token(**wrong)) == (401, "wrong_token"), wrong


def test_an_issuer_that_is_away_or_odd_is_told_as_such(redis_url: str, issuer: Issuer, tmp_path: Path) -> None:
    keys, discovery = issuer.documents["/keys"], issuer.documents[issuer.discovery]
    odd: list[dict[str, bytes]] = [
        {"/keys": b"{}"},
        {"/keys": b"x" * (oidc.MAX_BYTES + 1)},
        {issuer.discovery: discovery.replace(issuer.url.encode(), b"https://other.example", 1)},
        {issuer.discovery: discovery.replace(b"/keys", b"@other.example/keys")},
        {issuer.discovery: json.dumps({"issuer": issuer.url, "jwks_uri": "http://other.example/keys"}).encode()},
    ]
    for documents in odd:
        issuer.documents |= {"/keys": keys, issuer.discovery: discovery} | documents
        assert told(gateway(redis_url, tmp_path, table(issuer)), issuer.token()) == (503, "issuer_away")
    issuer.documents |= {"/keys": keys, "/moved": keys, issuer.discovery: discovery}
    issuer.redirects["/keys"] = issuer.url + "/moved"
    assert told(gateway(redis_url, tmp_path, table(issuer)), issuer.token()) == (503, "issuer_away")
    assert "/moved" not in issuer.asked


def test_a_key_that_the_issuer_makes_is_asked_for_and_one_that_it_drops_counts_no_more(
    redis_url: str, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = issuer.documents["/keys"]
    issuer.documents["/keys"] = json.dumps({"keys": json.loads(both)["keys"][:1]}).encode()
    door = gateway(redis_url, tmp_path, table(issuer))
    assert told(door, issuer.token("r")) == (200, "")
    issuer.documents["/keys"] = json.dumps({"keys": json.loads(both)["keys"][1:]}).encode()
    assert told(door, issuer.token("e")) == (401, "wrong_token")

    monkeypatch.setattr(oidc, "PAUSE_S", 0.0)

    assert told(door, issuer.token("e")) == (200, "")
    assert told(door, issuer.token("r")) == (401, "wrong_token")


def test_of_several_tables_the_one_that_fits_counts(
    redis_url: str, client: Redis, issuer: Issuer, tmp_path: Path
) -> None:
    second = table(issuer, rest="repositories = [12]").replace('"acme"', '"other"').replace('"ci"', '"ci-2"')
    third = table(issuer, rest="repositories = [11]", aud="https://third.example").replace('"producer"', '"viewer"')
    door = gateway(redis_url, tmp_path, table(issuer), second, third)

    tokens = [issuer.token(), issuer.token(repository_id="12"), issuer.token(aud="https://third.example")]
    found = [api_keys.find(client, door.post("/v1/token", json={"token": each}).json()["key"]) for each in tokens]

    assert [(each.tenant, each.rights[0]) for each in found if each] == [
        ("acme", "producer"),
        ("other", "producer"),
        ("acme", "viewer"),
    ]


def test_a_gateway_without_issuers_and_one_whose_queue_is_anothers_give_no_key(
    redis_url: str, client: Redis, issuer: Issuer, tmp_path: Path
) -> None:
    none = TestClient(create_app(Settings(redis_url=redis_url)), base_url="http://localhost")
    assert told(none, issuer.token()) == (404, "no_issuers")
    door = gateway(
        redis_url, tmp_path, table(issuer), table(issuer, rest="repositories = [12]").replace('"acme"', '"b"')
    )
    assert told(door, issuer.token()) == (200, "")
    assert told(door, issuer.token(repository_id="12")) == (403, "queue_taken")
    assert told(door, "x" * 20_000) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"iss": "http://issuer.example"}, "iss: "),
        ({"iss": "ftp://issuer.example"}, "iss: "),
        ({"iss": "https://user@issuer.example"}, "iss: "),
        ({"aud": "https://github.com/acme"}, "aud: "),
        ({"aud": "https://issuer.example"}, "aud: "),
        ({"aud": "sts.amazonaws.com"}, "aud: "),
        ({"iss": "https://["}, "iss: "),
        ({"right": "admin"}, "right: "),
        ({"right": "king"}, "right: "),
        ({"kind": "jenkins"}, "kind: "),
        ({"repositories": []}, "repositories or owner_id is needed"),
        ({"repositories": ["acme/shop"]}, "repositories.0: "),
        ({"refs": ["main"]}, "refs.0: "),
        ({"queues": []}, "queues: "),
        ({"repos": [1]}, "repos: "),
    ],
    ids=str,
)
def test_a_wrong_file_is_refused_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    good = {"iss": "https://issuer.example", "aud": AUDIENCE, "kind": "github", "repositories": [11]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in (good | changed).items()]

    with pytest.raises(WrongIssuers) as wrong:
        issuers_of("\n".join(["[[issuer]]", *lines]))

    assert len(str(wrong.value).splitlines()) == 1
    assert sentence in str(wrong.value)


def test_a_file_that_is_no_toml_or_empty_is_refused_and_the_one_of_the_docs_is_not() -> None:
    for text in ("[[issuer", "", "issuer = []"):
        with pytest.raises(WrongIssuers):
            issuers_of(text)
    (example,) = re.findall("```toml\n(.*?)```", SECURITY.read_text(), re.DOTALL)
    assert issuers_of(example)[0].repositories == ("123456789",)


def test_a_setting_that_names_no_file_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANNER_OIDC_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(WrongSettings, match=r"PLANNER_OIDC_FILE: .*none\.toml cannot be read"):
        load()
