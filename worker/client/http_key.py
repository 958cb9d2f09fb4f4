"""The key for a gateway: a given one, or one that a CI job receives for the OIDC token of its platform."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from threading import Lock

import httpx
from pydantic import BaseModel, ValidationError

from worker.client.trouble import NoRight, WrongUse
from worker.settings.settings import Settings

TOKEN_URL, TOKEN_KEY = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
SHOWN = re.compile(r"[\x21-\x7e]{1,8192}")  # characters of a header
AGAIN = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
MARGIN_S = 60.0  # time before a key's end at which another one is requested
NO_KEY = (
    "PLANNER_URL names a planner, and it wants a key: set PLANNER_API_KEY or PLANNER_API_KEY_FILE."
    " A CI job may show the token of its platform instead (docs/ci.md)."
)


class _Given(BaseModel):
    """The key that a gateway returns for a token."""

    key: str
    expires_at: datetime


class _Issued(BaseModel):
    """GitHub's answer to a job that asks for its OIDC token."""

    value: str


class GatewayKey:
    """The key for the gateway at `url`: a configured key, or one that is requested with a token.

    Errors about a token never contain it.
    """

    def __init__(self, settings: Settings, url: str) -> None:
        self._url, self._audience = url, settings.oidc_audience or url
        self._fixed = settings.api_key.get_secret_value() if settings.api_key else None
        self._token = settings.id_token.get_secret_value() if settings.id_token else None
        self._issuer = os.environ.get(TOKEN_URL, ""), os.environ.get(TOKEN_KEY, "")
        if not (self._fixed or self._token or all(self._issuer)):
            raise WrongUse.of("no_key", NO_KEY)
        for name, value in (("PLANNER_API_KEY", self._fixed), ("PLANNER_ID_TOKEN", self._token)):
            if value and not SHOWN.fullmatch(value):
                raise WrongUse.of("wrong_settings", f"{name}: it has characters that no key has.")
        self._key, self._until, self._lock = "", 0.0, Lock()

    @property
    def is_given(self) -> bool:
        """Whether the key was configured, so that no other one can be requested."""
        return self._fixed is not None

    def show(self, client: httpx.Client) -> str:
        """Return the key. With a token, request a new key if there is none yet or it expires soon."""
        if self._fixed:
            return self._fixed
        with self._lock:
            if time.time() > self._until - MARGIN_S:
                given = self._exchange(client)
                self._key, self._until = given.key, given.expires_at.timestamp()
            return self._key

    def forget(self) -> None:
        """Make the next call of `show` request a new key, unless the key was configured."""
        self._until = 0.0

    def _exchange(self, client: httpx.Client) -> _Given:
        answer = client.post(f"{self._url}/v1/token", json={"token": self._token or self._issued(client)})
        if answer.status_code in AGAIN or answer.is_server_error:
            answer.raise_for_status()
        try:
            given = _Given.model_validate_json(answer.content)
        except ValidationError:
            detail = f"The planner at {self._url} gives no key for the token of this job ({answer.status_code})"
            raise NoRight.of("token_refused", f"{detail}: {_reason(answer)}") from None
        if not SHOWN.fullmatch(given.key):
            raise NoRight.of("token_refused", f"The planner at {self._url} gave a key that is none.")
        return given

    def _issued(self, client: httpx.Client) -> str:
        """Request the token of this job from GitHub."""
        url, key = self._issuer
        try:
            answer = client.get(
                httpx.URL(url).copy_merge_params({"audience": self._audience}),
                headers={"Authorization": f"Bearer {key}"},
            )
            return _Issued.model_validate_json(answer.raise_for_status().content).value
        except (httpx.InvalidURL, httpx.HTTPStatusError, ValidationError) as error:
            why = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else "no token in its answer"
            detail = f"GitHub gave this job no token ({why}): its permissions need `id-token: write`."
            raise NoRight.of("no_token", detail) from None


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, LookupError, TypeError):
        return "see the gateway's PLANNER_OIDC_FILE."
