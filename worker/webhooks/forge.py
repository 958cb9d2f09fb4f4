"""Reads commits and failed runs from a forge's REST interface: files, annotations, test reports.

The token is sent in a header to the one server that the operator named, and nowhere else. Downloads are treated as
data, and limited in size.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urljoin, urlsplit

import httpx

from schemas import codec
from tasks.base.errors import PlannerError
from worker.host.github_app import GitHubApp, NoAppToken
from worker.sources.checkout import FILE_MODES, as_path
from worker.webhooks.sources_file import Scheme, Source

TIMEOUT_S = 15.0  # for a connection, and for each piece of an answer
WHOLE_S = 60.0  # for all requests about one goal
MAX_BYTES, MAX_ARTIFACT_BYTES = 16 * 1024 * 1024, 32 * 1024 * 1024
MOST_REDIRECTS, MOST_PAGES, PAGE = 3, 100, 100
MOST_RETRY_S = 3600.0
TOO_MANY, NO_TOKEN, FORBIDDEN, SERVER_ERROR, OK, NO_REQUEST = 429, 401, 403, 500, 200, 400


class ForgeAway(PlannerError):
    """The forge does not answer for now; `retry_after_s` is the wait that it asks for, if it does."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ForgeRefuses(PlannerError):
    """The forge does not have this answer, and another request would change nothing."""


class Tree(NamedTuple):
    """The files of a commit, and whether the list is complete."""

    files: list[str]
    is_whole: bool


class Forge:
    """The forge of one source, for one goal; use it in a `with`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.api = source.api or ""
        self._end = time.monotonic() + WHOLE_S
        self._client = httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)
        try:
            self._headers = _headers(source)
            if app := source.github_app:
                self._headers["Authorization"] = f"Bearer {self._app_token(app)}"
        except PlannerError:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def files(self, repo: str, commit: str) -> Tree:
        """Return the regular files of a commit, as many as the forge lists. Raises ForgeAway or ForgeRefuses."""
        if self._source.scheme is Scheme.GITLAB:
            asked = (
                f"{self.project(repo)}/repository/tree?recursive=true&ref={commit}&pagination=keyset&per_page={PAGE}"
            )
            entries, is_whole = self.pages(asked)
        else:
            found = self.json(f"{self.project(repo)}/git/trees/{commit}?recursive=1")
            tree = found if isinstance(found, dict) else {}
            entries, is_whole = _dicts(tree.get("tree")), tree.get("truncated") is False
        names = (str(entry.get("path")) for entry in entries if entry.get("mode") in FILE_MODES)
        return Tree([path for name in names if (path := as_path(name.encode(errors="replace")))], is_whole)

    def texts(self, repo: str, commit: str, paths: Iterable[str]) -> dict[str, str]:
        """Return small files of a commit, without those that the forge refuses. Raises ForgeAway."""
        found: dict[str, str] = {}
        place = "repository/files" if self._source.scheme is Scheme.GITLAB else "contents"
        for path in paths:
            name = quote(path, safe="" if self._source.scheme is Scheme.GITLAB else "/")
            with suppress(ForgeRefuses):
                told = self.json(f"{self.project(repo)}/{place}/{name}?ref={commit}")
                if isinstance(told, dict) and told.get("encoding") == "base64":
                    found[path] = b64decode(str(told.get("content"))).decode(errors="replace")
        return found

    def project(self, repo: str) -> str:
        """Return the API address of a repository."""
        if self._source.scheme is Scheme.GITLAB:
            return f"{self.api}/projects/{quote(repo, safe='')}"
        return f"{self.api}/repos/{quote(repo)}"

    def json(self, url: str, most: int = MAX_BYTES) -> Any:
        """Return the forge's answer as JSON. Raises ForgeAway or ForgeRefuses."""
        return _json(self.read(url, most)[0], url)

    def pages(self, url: str, name: str = "") -> tuple[list[dict[str, Any]], bool]:
        """Return the entries of at most MOST_PAGES pages, and whether these are all pages.

        Raises ForgeAway or ForgeRefuses.

        With `name`, each page is an object with its entries in the field `name`.
        """
        entries: list[dict[str, Any]] = []
        for _ in range(MOST_PAGES):
            data, answer = self.read(url)
            found = _json(data, url)
            entries += _dicts(found.get(name) if name and isinstance(found, dict) else found)
            url = answer.links.get("next", {}).get("url", "")
            if not url:
                return entries, True
        return entries, False

    def read(self, url: str, most: int = MAX_BYTES, *, elsewhere: bool = False) -> tuple[bytes, httpx.Response]:
        """Return the data at `url` of the forge. Raises ForgeAway or ForgeRefuses.

        A redirection is followed on the forge's own server. With `elsewhere` it may also lead to a host for artifacts,
        which does not receive the token.
        """
        for _ in range(MOST_REDIRECTS + 1):
            is_own = _origin(url) == _origin(self.api)
            if not is_own and not (elsewhere and self._is_for_artifacts(url)):
                raise ForgeRefuses(f"The forge sends on to {_origin(url)[1]}, which is not followed (download_hosts).")
            data, answer = self._ask(url, most, self._headers if is_own else {})
            if not answer.has_redirect_location:
                return data, answer
            url = _joined(url, answer.headers["location"])
        raise ForgeRefuses("The forge sends on too often.")

    def send(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
        """Write to the forge's own server and return its answer. Raises ForgeAway or ForgeRefuses."""
        if _origin(url) != _origin(self.api):
            raise ForgeRefuses(f"{_origin(url)[1]} is not the forge.")
        given = None if body is None else codec.dumps(body)
        headers = {**self._headers, "Content-Type": "application/json"}
        data, _ = self._ask(url, MAX_BYTES, headers, method, given)
        return _json(data, url) if data.strip() else None

    def _app_token(self, app: GitHubApp) -> str:
        """Return a token of the App's installation. Raises ForgeAway or ForgeRefuses."""

        def ask(path: str, bearer: str) -> Any:
            url = f"{self.api}{path}"
            headers = {**self._headers, "Authorization": f"Bearer {bearer}"}
            return _json(self._ask(url, MAX_BYTES, headers, "POST", b"")[0], url)

        try:
            return app.token(ask)
        except NoAppToken as error:
            raise ForgeAway(str(error)) from error

    def _ask(
        self, url: str, most: int, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> tuple[bytes, httpx.Response]:
        place, data = url.partition("?")[0], bytearray()
        try:
            with self._client.stream(method, url, headers=headers, content=body) as answer:
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > most:
                        raise ForgeRefuses(f"{place}: the answer has more than {most} bytes.")
                    if time.monotonic() > self._end:
                        raise ForgeAway(f"{place}: no end of the answer within {WHOLE_S:g} s.")
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise ForgeAway(f"{place}: {type(error).__name__}.") from error
        except httpx.InvalidURL as error:
            raise ForgeRefuses(f"{place}: this is no URL.") from error
        if answer.status_code == NO_TOKEN and (app := self._source.github_app):
            app.forget()
        if answer.status_code >= NO_REQUEST or answer.status_code < OK:
            raise _error(answer, f"{place}: HTTP {answer.status_code}.")
        return bytes(data), answer

    def _is_for_artifacts(self, url: str) -> bool:
        scheme, host, _ = _origin(url)
        return scheme == "https" and any(fnmatchcase(host.rstrip("."), each) for each in self._source.artifact_hosts)


def _headers(source: Source) -> dict[str, str]:
    """Return the headers for the forge's own server. Raises WrongSources."""
    token, headers = source.token(), {"User-Agent": "planner"}
    if source.scheme is Scheme.GITLAB:
        return headers | ({"PRIVATE-TOKEN": token} if token else {})
    headers |= {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of a URL; empty for a text that is no URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", "", None


def _joined(url: str, location: str) -> str:
    """Return the target of a redirection. Raises ForgeRefuses."""
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise ForgeRefuses("The forge redirects to an invalid URL.") from error


def _error(answer: httpx.Response, said: str) -> PlannerError:
    """Return ForgeAway for an error that may pass, and ForgeRefuses for any other."""
    asked, status = _number(answer, "retry-after"), answer.status_code
    if is_used_up := answer.headers.get("x-ratelimit-remaining") == "0":
        asked = asked or _number(answer, "x-ratelimit-reset") - time.time()
    is_limited = status == FORBIDDEN and (is_used_up or "retry-after" in answer.headers)
    if status == TOO_MANY or status >= SERVER_ERROR or is_limited:
        return ForgeAway(said, max(0.0, min(asked, MOST_RETRY_S)))
    return ForgeRefuses(said)


def _number(answer: httpx.Response, header: str) -> float:
    said = answer.headers.get(header, "")
    return float(said) if said.isascii() and said.isdigit() else 0.0


def _json(data: bytes, url: str) -> Any:
    try:
        return codec.loads(data)
    except codec.DecodeError as error:
        raise ForgeAway(f"{url.partition('?')[0]}: the answer is no JSON.") from error


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
