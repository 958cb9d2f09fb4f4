"""Tokens of a GitHub App by installation: each lasts an hour, and is renewed before its end.

Source: docs.github.com, "Generating an installation access token for a GitHub App".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from worker.host.regular_files import read_setting

MAX_KEY_BYTES = 16 * 1024
JWT_S, SKEW_S = 540, 60  # GitHub takes at most 600 seconds, and its clock may differ
EARLY_S = 300  # before the end of a token, when the next one is asked for


class NoAppToken(Exception):
    """There is no token of the App; the message has the reason."""


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """An App with its private key (a PEM file, read for each token), and one of its installations."""

    app_id: str
    key_file: Path
    installation: int
    api: str = ""  # the server of the App, whose tokens no other server gets

    def token(self, ask: Callable[[str, str], Any]) -> str:
        """Return a token that lasts for at least some minutes. Raises NoAppToken, and the errors of `ask`.

        `ask` sends an empty POST to a path of the API with a bearer token, and returns the answer's JSON.
        """
        known, until = _tokens.get(self, ("", 0.0))
        if time.time() < until - EARLY_S:
            return known
        answer = ask(f"/app/installations/{self.installation}/access_tokens", self._signed())
        token, ends = (answer.get(name) if isinstance(answer, dict) else None for name in ("token", "expires_at"))
        try:
            until = datetime.fromisoformat(str(ends)).timestamp()
        except ValueError:
            until = 0.0
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
            raise NoAppToken("the answer of the forge has no token of an installation")
        _tokens[self] = token, until
        return token

    def forget(self) -> None:
        """Forget the token, which the forge has refused."""
        _tokens.pop(self, None)

    def _signed(self) -> str:
        """Return a signed JSON Web Token of the App, which requests an installation token. Raises NoAppToken."""
        try:
            import jwt
        except ImportError as error:
            raise NoAppToken("a GitHub App needs pyjwt: pip install 'planner-worker[gateway]'") from error
        try:
            key, now = read_setting(self.key_file, MAX_KEY_BYTES), int(time.time())
            return jwt.encode({"iat": now - SKEW_S, "exp": now + JWT_S, "iss": self.app_id}, key, algorithm="RS256")
        except OSError as error:
            raise NoAppToken(f"{self.key_file} cannot be read: {error.strerror}") from error
        except (ValueError, jwt.PyJWTError) as error:
            raise NoAppToken(f"{self.key_file} has no RSA key in PEM") from error


_tokens: dict[GitHubApp, tuple[str, float]] = {}  # with the time of its end
