"""Tokens of a GitHub App: asked for by its key, used for an hour, and by both clients of forges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support import webhooks
from tests.support.forge_server import TOKEN, ForgeServer, playing
from worker.controller.repositories_file import RepositoriesFile, WrongRepositories
from worker.host.github_app import GitHubApp, NoAppToken
from worker.webhooks.checking import read_checked
from worker.webhooks.forge import Forge, ForgeAway, ForgeRefuses
from worker.webhooks.sources_file import WrongSources

APP = 'app_id = "Iv23"\napp_key_file = "app.pem"\napp_installation = 5'
ASKED = "/github/app/installations/5/access_tokens"


class AppServer(ForgeServer):
    """A forge that gives the installation its token where the App has signed."""

    key: Any = None
    left_s = 3600

    def answer(self, method: str, target: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if target != ASKED:
            return super().answer(method, target, headers, body)
        self.asked.append(f"{method} {target}")
        signed = headers["authorization"].removeprefix("Bearer ")
        said = jwt.decode(signed, self.key.public_key(), algorithms=["RS256"], issuer="Iv23")
        assert said["exp"] - said["iat"] <= 600
        assert said["iat"] < time.time()
        ends = datetime.now(UTC) + timedelta(seconds=self.left_s)
        return 201, {"token": TOKEN, "expires_at": ends.isoformat(timespec="seconds")}


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[AppServer]:
    server = AppServer()
    server.key = rsa.generate_private_key(65537, 2048)
    pem = server.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "app.pem").write_bytes(pem)
    (tmp_path / "app.pem").chmod(0o600)
    with playing(server):
        server.told["/github/repos/acme/shop/pulls"] = []
        yield server


def source(tmp_path: Path, forge: AppServer, more: str = APP) -> Path:
    text = webhooks.source("github", "github", webhooks.RULE, more=f'{more}\napi = "{forge.url}/github"')
    return webhooks.write(tmp_path, text)


@pytest.mark.parametrize(("left_s", "times"), [(3600, 1), (200, 2)])
def test_a_worker_asks_for_a_token_once_an_hour(tmp_path: Path, forge: AppServer, left_s: int, times: int) -> None:
    forge.left_s = left_s
    (about,) = read_checked(source(tmp_path, forge)).source

    for _ in range(2):
        with Forge(about) as client:
            assert client.json(f"{forge.url}/github/repos/acme/shop/pulls") == []

    assert [each for each in forge.asked if ASKED in each] == [f"POST {ASKED}"] * times


def test_a_token_that_the_forge_refuses_is_asked_for_again(tmp_path: Path, forge: AppServer) -> None:
    (about,) = read_checked(source(tmp_path, forge)).source
    with Forge(about) as client:
        client.json(f"{forge.url}/github/repos/acme/shop/pulls")
        forge.status = 401
        with pytest.raises(ForgeRefuses):
            client.json(f"{forge.url}/github/repos/acme/shop/pulls")
    forge.status = 0

    with Forge(about):
        assert [each for each in forge.asked if ASKED in each] == [f"POST {ASKED}"] * 2


def test_a_controller_opens_pull_requests_as_the_app(tmp_path: Path, forge: AppServer) -> None:
    (tmp_path / "repos.toml").write_text(
        '[repositories."acme/shop"]\nurl = "/srv/shop"\n[repositories."acme/shop".delivery]\npush = true\n'
        f'pull_request = true\nforge = "github"\napi = "{forge.url}/github"\nproject = "acme/shop"\n{APP}\n'
    )

    found = RepositoriesFile.read(tmp_path / "repos.toml").repositories["acme/shop"].forge.find("planner/x")

    assert found is None
    assert forge.asked[0] == f"POST {ASKED}"


def test_a_half_named_app_and_a_wrong_key_are_told(tmp_path: Path, forge: AppServer) -> None:
    half = APP.replace("app_installation = 5", "")
    with pytest.raises(WrongSources, match="app_id, app_key_file and app_installation, and no token_file"):
        read_checked(source(tmp_path, forge, half))
    (tmp_path / "repos.toml").write_text(
        '[repositories."acme/shop"]\nurl = "/srv/shop"\n[repositories."acme/shop".delivery]\npush = true\n'
        f'pull_request = true\nforge = "github"\napi = "{forge.url}/github"\nproject = "acme/shop"\n{half}\n'
    )
    with pytest.raises(WrongRepositories, match="app_id, app_key_file and app_installation"):
        RepositoriesFile.read(tmp_path / "repos.toml")
    (tmp_path / "app.pem").write_text("no key")
    (about,) = read_checked(source(tmp_path, forge)).source

    with pytest.raises(ForgeAway, match="has no RSA key"), Forge(about):
        pass
    with pytest.raises(NoAppToken, match="no token of an installation"):
        GitHubApp("Iv23", _key(tmp_path, forge), 6).token(lambda *_: {"token": None})


def _key(tmp_path: Path, forge: AppServer) -> Path:
    pem = forge.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "app.pem").write_bytes(pem)
    return tmp_path / "app.pem"
