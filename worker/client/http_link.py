"""A connection to a gateway: sends requests with their key, and reports errors in sentences."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from pydantic import ValidationError

from schemas import codec
from schemas.envelope import Problem
from worker.client.http_key import GatewayKey
from worker.client.trouble import Away, NoRight, NotFound, Refused, Trouble, WrongUse
from worker.host.code_version import CODE_VERSION
from worker.settings.settings import Settings

TIMEOUT_S = 15.0  # in addition to the time that the gateway was asked to wait
CONNECT_S = 5.0
PATIENCE_S = 5.0  # time in that unanswered requests are repeated
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})  # the same request may succeed later
FINAL = "tenant_full"  # code of a refusal that lasts
KINDS: Mapping[int, type[Refused]] = {400: WrongUse, 401: NoRight, 403: NoRight, 404: NotFound, 422: WrongUse}


class GatewayLink:
    """The gateway in the settings; every request may be sent twice, as the contract permits."""

    def __init__(self, settings: Settings, patience_s: float = PATIENCE_S) -> None:
        self.url = str(settings.url).rstrip("/")
        self.key = GatewayKey(settings, self.url)
        self._patience_s = patience_s
        about = {"User-Agent": f"planner/{CODE_VERSION}", "Accept": "application/json"}
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_S)
        try:
            self._client = httpx.Client(headers=about, timeout=timeout, limits=httpx.Limits(keepalive_expiry=30))
        except (OSError, ValueError) as error:  # such as a proxy's URL, or a file of certificates
            raise WrongUse.of("wrong_settings", f"No connection can be made over HTTP: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON document at `path`; `params` are its query."""
        return self.ask("GET", path, params=params)

    def ask(
        self,
        method: str,
        path: str,
        *,
        data: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Return the JSON response to a request; while none arrives, repeat the request for a while. Raises Trouble.

        `wait_s` is the time in seconds that the gateway was asked to wait before it answers.
        """
        end, pause = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        while True:
            try:
                with self._asked(method, path, data, params or {}, headers or {}, wait_s) as answer:
                    return codec.loads(answer.read())
            except codec.DecodeError as error:
                raise Trouble.of("no_planner", f"{self._who} answered no JSON to {method} {path}.") from error
            except Away as away:
                pause = max(pause, away.retry_after_s)
                if time.monotonic() + pause > end:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    @contextmanager
    def stream(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str], quiet_s: float = TIMEOUT_S
    ) -> Iterator[httpx.Response]:
        """Yield a response as it arrives, with at most `quiet_s` of silence. Raises Trouble, also inside the block."""
        with self._asked("GET", path, None, params, headers, quiet_s - TIMEOUT_S) as answer:
            yield answer

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, Any],
        headers: Mapping[str, str],
        wait_s: float,
    ) -> Iterator[httpx.Response]:
        said = {name: value for name, value in params.items() if value is not None}
        shown = {**({"Content-Type": "application/json"} if data is not None else {}), **headers}
        try:
            for is_last in (self.key.is_given, True):
                shown["Authorization"] = f"Bearer {self.key.show(self._client)}"
                timeout = httpx.Timeout(TIMEOUT_S + wait_s, connect=CONNECT_S)
                with self._client.stream(
                    method, self.url + path, content=data, params=said, headers=shown, timeout=timeout
                ) as answer:
                    if answer.status_code == httpx.codes.UNAUTHORIZED and not is_last:
                        self.key.forget()
                        continue
                    self._check(answer)
                    yield answer
                    return
        except httpx.HTTPStatusError as error:
            raise self._away(f"{error.response.status_code} {error.response.reason_phrase}") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._unanswered(error) from error

    def _check(self, answer: httpx.Response) -> None:
        """Raise the Trouble that a response reports; return if the request succeeded."""
        if answer.is_success:
            return
        if answer.is_redirect:
            detail = f"{self._who} points to {answer.headers.get('location')!r}: PLANNER_URL has to name that one."
            raise WrongUse.of("redirect", detail)
        answer.read()
        kind: type[Trouble] = KINDS.get(answer.status_code, Refused)
        try:
            problem = Problem.model_validate_json(answer.content)
        except ValidationError:  # from a proxy, or from another program than a planner
            detail = f"{self._who} answered {answer.status_code} {answer.reason_phrase}: is PLANNER_URL right?"
            problem, kind = Problem.of("no_planner", detail, status=answer.status_code), Trouble
        if answer.status_code in LATER and problem.code != FINAL:
            away = self._away(problem.detail, problem)
            wait = answer.headers.get("retry-after", "")
            away.retry_after_s = float(wait) if wait.isdigit() else 0.0
            raise away
        raise kind(problem)

    @property
    def _who(self) -> str:
        return f"The planner at {self.url}"

    def _unanswered(self, error: Exception) -> Trouble:
        cause: BaseException | None = error
        while cause and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause:
            detail = f"{self._who} has a certificate that is not trusted here ({error}): SSL_CERT_FILE names more."
            return Refused.of("wrong_certificate", detail)
        return self._away(str(error) or type(error).__name__)

    def _away(self, why: str, problem: Problem | None = None) -> Away:
        detail = f"{self._who} does not answer ({why}). Is PLANNER_URL right, and a gateway running?"
        away = Away(problem or Problem.of("no_planner", detail, status=Away.status))
        away.who, away.why = self._who, why
        return away
