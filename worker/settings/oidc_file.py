"""PLANNER_OIDC_FILE: the issuers of OIDC tokens, and the rights of the keys for them (docs/security.md).

It is read once, at the start; a wrong file stops the start with one sentence for each mistake.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from schemas.api_key import ALWAYS_SHARED, Right
from schemas.base import Name, QueueName
from schemas.wording import expected
from tasks.base.errors import PlannerError
from worker.host.regular_files import read_setting

MAX_BYTES = 1024 * 1024
GITHUB = "github.com"  # whose tokens are for https://github.com/OWNER where a job asks for no audience
ONLY_NAMED = frozenset(  # events that strangers begin, whose jobs run with the rights of the repository
    (
        *("pull_request_target", "workflow_run", "issue_comment", "issues", "discussion", "discussion_comment"),
        *("fork", "gollum", "watch"),  # of a public repository: anybody may copy it, edit its wiki, give it a star
    )
)
OTHERS = frozenset({"sts.amazonaws.com", "api://AzureADTokenExchange"})  # audiences of tokens for other services


class WrongIssuers(PlannerError):
    """The file of issuers cannot be used."""


def _text(value: Any) -> Any:
    """Return an integer from TOML as text, because tokens contain ids as texts; other values are unchanged."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[str, BeforeValidator(_text), StringConstraints(pattern=r"^[0-9]{1,20}$")]
Event = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,60}$")]
Ref = Annotated[str, StringConstraints(pattern=r"^refs/\S{1,250}$")]


class Issuer(BaseModel):
    """One `[[issuer]]` table: who issues tokens, which repositories get keys, and which rights these keys have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iss: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    aud: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    kind: Literal["github", "gitlab"]
    tenant: Name = "default"
    right: Right = Right.PRODUCER
    queues: tuple[QueueName, ...] = Field(default=(ALWAYS_SHARED,), min_length=1)
    repositories: tuple[Id, ...] = ()
    owner_id: Id | None = None
    refs: tuple[Ref, ...] = ()  # any without one; `*` stops at `/`, `**` does not
    events: tuple[Event, ...] = ()  # what began the job; any but ONLY_NAMED without one

    def mistakes(self) -> Iterator[str]:
        """Yield a sentence for each value that makes the issuer unsafe or useless."""
        if not is_safe_url(self.iss, self.iss):
            yield f"iss: {self.iss!r} is no https URL (http is for an issuer on this machine's loopback alone)"
        own = {_place(self.iss)} | ({GITHUB} if self.kind == "github" else set())
        if self.aud in OTHERS or _place(self.aud) in own - {""}:
            yield (
                f"aud: {self.aud!r} is an audience that tokens have by default, or for another service. Name an"
                " audience of the gateway alone, such as its URL, and request it in the job"
            )
        if not (self.repositories or self.owner_id):
            yield "repositories or owner_id is needed: without them every repository of the issuer gets a key"
        if self.right is Right.ADMIN:
            yield "right: a job is given no admin key"


def _place(url: str) -> str:
    """Return host and port of a URL, such as `example.org:443`; an empty text if it is invalid."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def is_safe_url(url: str, issuer: str) -> bool:
    """Return whether an issuer's keys may be fetched from `url`: over https, or over http on this machine."""
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if not parts.hostname or parts.username is not None or parts.fragment or not port_is_one:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_here(url) and _is_here(issuer))


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=8)
def issuers(path: Path | None) -> tuple[Issuer, ...]:
    """Return the issuers in the file at `path`. Raises WrongIssuers with one sentence for each mistake."""
    if path is None:
        return ()
    try:
        text = read_setting(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongIssuers(f"{path} cannot be read: {error}.") from error
    return issuers_of(text)


def issuers_of(text: str) -> tuple[Issuer, ...]:
    """Return the issuers in a text. Raises WrongIssuers with one sentence for each mistake."""
    try:
        file = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise WrongIssuers(f"It is no TOML: {error}.") from error
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, e['loc']))}: {expected(e)}, not {e['input']!r}." for e in error.errors()]
        raise WrongIssuers("\n".join(mistakes)) from error
    wrong = [f"issuer.{at}.{mistake}." for at, each in enumerate(file.issuer) for mistake in each.mistakes()]
    if wrong or not file.issuer:
        raise WrongIssuers("\n".join(wrong) or "It has no [[issuer]].")
    return file.issuer


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: tuple[Issuer, ...]
