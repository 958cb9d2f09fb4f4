"""Pull requests of a forge over REST: finds the open one of a branch, or opens one.

The token is read from its file for each call, and sent in a header to the one server that the operator named.
Redirections are not followed: they could send the token elsewhere.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from schemas import codec
from worker.controller.readiness import CannotWork
from worker.controller.remote import MAX_TOKEN_BYTES
from worker.host.github_app import GitHubApp, NoAppToken
from worker.host.regular_files import read_setting

log = logging.getLogger("planner.controller")

TIMEOUT_S = 30
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MESSAGE_CHARS = 300
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
TOO_MANY, FORBIDDEN, UNPROCESSABLE, CONFLICT = 429, 403, 422, 409
OK, REDIRECTION, SERVER_ERROR = 200, 300, 500


class ForgeKind(StrEnum):
    """The REST interface of a forge."""

    GITHUB = "github"
    GITLAB = "gitlab"


class Refused(Exception):
    """The delivery is impossible, and a retry would not change that; the message has the reason."""


class _AlreadyThere(Refused):
    """The forge refused the pull request, maybe because the branch already has one."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A request to merge the branch `head` into the branch `base`."""

    head: str
    base: str
    title: str
    text: str
    is_draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()  # users, and teams as `organisation/team`


@dataclass(frozen=True, slots=True)
class Forge:
    """The repository `project` at a forge's `api`, such as https://api.github.com."""

    kind: ForgeKind
    api: str
    project: str
    token_file: Path
    app: GitHubApp | None = None  # creates the tokens, with the key in `token_file`

    def pull_request(self, wanted: PullRequest) -> str:
        """Return the URL of the branch's open pull request, and open one if there is none.

        Raises Refused, or CannotWork if the forge does not answer for now.
        """
        if found := self.find(wanted.head):
            return found
        try:
            made = self._call("POST", self._pull_requests, self._body(wanted))
        except _AlreadyThere as refused:
            if found := self.find(wanted.head):  # another program opened one meanwhile
                return found
            raise Refused(str(refused)) from refused
        url = _url(made)
        for method, path, body in self._beside(made, wanted):
            try:
                self._call(method, path, body)
            except (Refused, CannotWork) as error:  # such as an owner who may not review
                log.warning("pull request incomplete", extra={"reason": str(error)})
        return url

    def _beside(self, made: Any, wanted: PullRequest) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the calls that label a new pull request and request its review."""
        number = made.get("number") if isinstance(made, dict) else None
        if self.kind is ForgeKind.GITLAB or not isinstance(number, int):
            return
        base = f"/repos/{quote(self.project)}"
        if wanted.labels:
            yield "POST", f"{base}/issues/{number}/labels", {"labels": list(wanted.labels)}
        teams = [each.partition("/")[2] for each in wanted.reviewers if "/" in each]
        people = [each for each in wanted.reviewers if "/" not in each]
        if wanted.reviewers:
            asked = {"reviewers": people, "team_reviewers": teams}
            yield "POST", f"{base}/pulls/{number}/requested_reviewers", asked

    @property
    def _pull_requests(self) -> str:
        if self.kind is ForgeKind.GITHUB:
            return f"/repos/{quote(self.project)}/pulls"
        return f"/projects/{quote(self.project, safe='')}/merge_requests"

    def find(self, head: str) -> str | None:
        """Return the URL of a branch's open pull request; None if there is none.

        Raises errors as `pull_request` does.
        """
        if self.kind is ForgeKind.GITHUB:
            asked = {"state": "open", "head": f"{self.project.partition('/')[0]}:{head}"}
        else:
            asked = {"state": "opened", "source_branch": head}
        found = self._call("GET", f"{self._pull_requests}?{urlencode(asked)}")
        ours = [each for each in found if _is_of_no_fork(each)] if isinstance(found, list) else []
        return _url(ours[0]) if ours else None

    def _body(self, wanted: PullRequest) -> dict[str, Any]:
        if self.kind is ForgeKind.GITHUB:
            body = {"head": wanted.head, "base": wanted.base, "title": wanted.title, "body": wanted.text}
            return body | ({"draft": True} if wanted.is_draft else {})
        found = {"source_branch": wanted.head, "target_branch": wanted.base, "description": wanted.text}
        found |= {"title": f"Draft: {wanted.title}" if wanted.is_draft else wanted.title}
        people = [user for each in wanted.reviewers if "/" not in each and (user := self._user(each))]
        more = {"labels": ",".join(wanted.labels), "reviewer_ids": people}
        return found | {name: value for name, value in more.items() if value}

    def _user(self, name: str) -> int | None:
        """Return the id of a GitLab user; None if there is none with this name."""
        try:
            found = self._call("GET", f"/users?{urlencode({'username': name})}")
        except (Refused, CannotWork):
            return None
        known = found[0].get("id") if isinstance(found, list) and found and isinstance(found[0], dict) else None
        return known if isinstance(known, int) else None

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of the forge. Raises Refused or CannotWork."""
        token = self._token()
        return self._send(method, path, body, token)

    def _token(self) -> str:
        """Return the token in the file, or a token of the GitHub App's installation. Raises Refused or CannotWork."""
        if self.app is None:
            return read_token(self.token_file)
        try:
            return self.app.token(lambda path, bearer: self._send("POST", path, None, bearer))
        except NoAppToken as error:
            raise CannotWork(str(error)) from error

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, token: str) -> Any:
        """Return the answer of the forge to a call with `token`. Raises Refused or CannotWork."""
        headers = {"User-Agent": "planner-controller", "Content-Type": "application/json"}
        if self.kind is ForgeKind.GITHUB:
            headers |= {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
            headers |= {"X-GitHub-Api-Version": "2022-11-28"}
        else:
            headers |= {"PRIVATE-TOKEN": token, "Accept": "application/json"}
        connection = _connection(self.api)
        try:
            given = None if body is None else codec.dumps(body)
            connection.request(method, urlsplit(self.api).path.rstrip("/") + path, given, headers)
            answer = connection.getresponse()
            data = answer.read(MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as error:
            raise CannotWork(f"{self.api}: {error or type(error).__name__}".replace(token, "***")) from error
        finally:
            connection.close()
        if OK <= answer.status < REDIRECTION:
            return _json(data)
        said = f"{method} {self.api}{path.partition('?')[0]}: HTTP {answer.status} {_message(_json(data))}"
        told = {name.casefold(): value for name, value in answer.getheaders()}
        raise _error(answer.status, told, said.strip().replace(token, "***"))


def read_token(file: Path) -> str:
    """Return the token in `file`. Raises CannotWork if the file is readable for other users, or has no token."""
    try:
        if file.stat().st_mode & FOR_OTHERS:
            raise CannotWork(f"{file} may be used by others too: chmod 600 {file}")
        token = read_setting(file, MAX_TOKEN_BYTES).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise CannotWork(f"{file}: {error.strerror}") from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise CannotWork(f"{file} holds no token")
    return token


def _error(status: int, headers: Mapping[str, str], said: str) -> Exception:
    """Return CannotWork for an error that may pass, and Refused or _AlreadyThere for others."""
    is_limited = status == FORBIDDEN and (headers.get("retry-after") or headers.get("x-ratelimit-remaining") == "0")
    if status == TOO_MANY or status >= SERVER_ERROR or is_limited:
        return CannotWork(said)
    return _AlreadyThere(said) if status in (UNPROCESSABLE, CONFLICT) else Refused(said)


def _connection(api: str) -> HTTPConnection:
    """Connect to `api`, through the proxy that the environment names for it."""
    parts = urlsplit(api)
    host, make = parts.hostname or "", HTTPSConnection if parts.scheme == "https" else HTTPConnection
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if not proxy:
        return make(host, parts.port, timeout=TIMEOUT_S)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection = make(through.hostname or "", through.port, timeout=TIMEOUT_S)
    connection.set_tunnel(host, parts.port)
    return connection


def _json(data: bytes) -> Any:
    try:
        return codec.loads(data)
    except codec.DecodeError:
        return None


def _is_of_no_fork(found: Any) -> bool:
    """Return whether a merge request is from the project itself, and not from a fork's branch of the same name."""
    return isinstance(found, dict) and found.get("source_project_id") == found.get("project_id")


def _url(found: Any) -> str:
    """Return the web address of a pull request. Raises CannotWork if the answer has none."""
    for name in ("html_url", "web_url"):
        url = found.get(name) if isinstance(found, dict) else None
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            return url
    raise CannotWork("the forge's answer has no URL of a pull request")


def _message(found: Any) -> str:
    """Return the message of a refusal on one line."""
    if not isinstance(found, dict):
        return ""
    said = [found.get(name) for name in ("message", "error", "errors")]
    return " ".join(" ".join(str(each) for each in said if each).split())[:MESSAGE_CHARS]
