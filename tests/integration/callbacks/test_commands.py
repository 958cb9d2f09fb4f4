"""`planner endpoints` as operators type it: what is refused says what to do, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from schemas import codec
from tests.integration.callbacks.conftest import Calls, run, told
from worker.store.endpoints import read_all

URL = "https://ci.example/hook"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add",), "Name a URL"),
        (("add", "ftp://a.example"), "begins with https://"),
        (("add", "https://user:pw@a.example/"), "no user, no password"),
        (("add", "https://2130706433/"), "in its usual form"),
        (("add", "https://169.254.169.254/latest"), "it is not public"),
        (("add", "http://8.8.8.8/"), "without TLS"),
        (("add", URL, "--events", "plan.done"), "not plan.done"),
        (("add", URL, "--events", " , "), "--events takes some of"),
        (("add", URL, "--commit-status", "github"), "Name a URL, or --commit-status"),
        (("add", "--commit-status", "github", "--api", URL), "Name a URL, or --commit-status"),
        (("add", "--commit-status", "github", "--api", URL, "--token-file", "TOKEN"), "needs --repo"),
        (("add", "--commit-status", "github", "--api", URL, "--token-file", "TOKEN", "--repo", "../x"), "needs --repo"),
        (("add", "--commit-status", "github", "--api", URL, "--token-file", "NONE", "--repo", "a/b"), "NONE"),
        (
            ("add", "--commit-status", "gitlab", "--api", URL, "--token-file", "EMPTY", "--repo", "a/b"),
            "token is empty",
        ),
        (("show", "ep_0"), "There is no endpoint"),
        (("disable", "ep_0"), "There is no endpoint"),
        (("rotate", "ep_0"), "There is no endpoint"),
        (("replay", "ep_0"), "Name deliveries"),
        (("replay", "ep_0", "--failed"), "There is no endpoint"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TOKEN").write_text("tok")
    Path("EMPTY").write_text("\n")

    refused = run(*words, "--json")

    assert refused.exit_code == (3 if "no endpoint" in says else 2), refused.output
    assert says in codec.loads(refused.stdout)["detail"]
    assert read_all(calls.redis) == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is not set"),
        ("", "needs a key"),
        ("short\n", "needs a key"),
        ("\xff\n", "cannot be read"),
        ("/", "cannot"),
    ],
)
def test_without_a_file_of_keys_nothing_is_added(
    calls: Calls, keys: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, says: str
) -> None:
    if content is None:
        monkeypatch.delenv("PLANNER_SECRET_FILE")
    elif content == "/":
        monkeypatch.setenv("PLANNER_SECRET_FILE", str(keys.parent))
    else:
        keys.write_bytes(content.encode("latin-1"))

    refused = run("add", URL, "--json")

    assert (refused.exit_code, codec.loads(refused.stdout)["code"]) == (2, "no_secret_file")
    assert says in codec.loads(refused.stdout)["detail"]
    assert "short" not in refused.stdout
    assert read_all(calls.redis) == {}


def test_secrets_outlive_a_change_of_the_key_of_the_file(calls: Calls, keys: Path) -> None:
    endpoint, old = calls.add(URL), keys.read_bytes()

    keys.write_bytes(Fernet.generate_key() + b"\n" + old)
    assert told(run("rotate", endpoint, "--json"))["secrets"] == 2
    keys.write_bytes(keys.read_bytes().splitlines()[0])  # both were encrypted anew
    assert told(run("rotate", endpoint, "--json"))["secrets"] == 2

    keys.write_bytes(Fernet.generate_key())
    refused = run("rotate", endpoint, "--json")
    assert (refused.exit_code, codec.loads(refused.stdout)["code"]) == (2, "no_secret_file")


def test_people_see_endpoints_and_the_secret_once(calls: Calls) -> None:
    assert "There are no endpoints" in run("list").stdout
    shown = run("add", URL, "--tenant", "acme").stdout
    (endpoint,) = read_all(calls.redis).values()

    assert endpoint.id in shown
    assert "whsec_" in shown
    assert endpoint.id in run("list").stdout
    assert "Nothing was sent yet." in run("show", endpoint.id).stdout
    assert "receives no more messages" in run("disable", endpoint.id).stdout
    assert "disabled: by an operator" in run("show", endpoint.id).stdout
    assert "whsec_" not in run("show", endpoint.id).stdout + run("list").stdout
