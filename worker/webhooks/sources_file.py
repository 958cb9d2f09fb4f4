"""PLANNER_WEBHOOKS_FILE: the accepted sources of webhooks, and the rules that make goals of them (docs/webhooks.md).

A rule is an operator's policy: files, commands, approvals, queues and tenants are never read from a payload.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from schemas import goal as wire
from schemas.base import CommandLine, EndpointId, Name, QueueName, RiskLevel
from schemas.base import Path as FilePath
from schemas.wording import expected
from tasks.base.errors import PlannerError
from tasks.delivered.seen import Stale
from tasks.text.patterns import pattern_fault
from worker.host.github_app import GitHubApp
from worker.host.regular_files import read_setting

MAX_BYTES = 1024 * 1024
MAX_SECRET_BYTES = 4096
MAX_DELIVERY, MAX_GITHUB_DELIVERY = 1024 * 1024, 25 * 1024 * 1024  # the latter is GitHub's own limit
HERE = ("localhost", "127.0.0.1", "::1")
COMMIT = re.compile(r"(?!0+$)(?:[0-9a-f]{40}|[0-9a-f]{64})")
NO_COMMIT = "that has 40 or 64 hexadecimal digits"


class WrongSources(PlannerError):
    """The file cannot be used; the message has a sentence for each mistake."""


class Scheme(StrEnum):
    """The kind of sender: how a delivery is signed, and the form of its payload."""

    GITHUB = "github"
    GITLAB = "gitlab"
    STANDARD = "standard"


class Allowance(StrEnum):
    """Events that are ignored unless a rule allows them: a plan may have caused them, or they may have foreign code."""

    FORKS = "forks"
    OWN_BRANCHES = "own_branches"
    OWN_APP = "own_app"
    EDITED = "edited"


APIS = {Scheme.GITHUB: "https://api.github.com", Scheme.GITLAB: "https://gitlab.com/api/v4"}
COMMENTS = frozenset(
    {"issue_comment", "note", "commit_comment", "discussion_comment", "pull_request_review_comment"}
)  # events that carry a person's words


def _api(url: str) -> str:
    if not url.startswith("https://") and urlsplit(url).hostname not in HERE:
        raise ValueError("begins with https://, or a token could be read on its way")
    return url.rstrip("/")


def _place(path: Path, info: ValidationInfo) -> Path:
    return Path(info.context or ".") / path.expanduser()


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _allowed(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [f"{each}: {found.message.rstrip('.')}" for each in patterns if (found := pattern_fault(each))]:
        raise ValueError("; ".join(wrong))
    return patterns


SourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Template = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"\S")]
Repository = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*(?:/[\w.-]+)+$", max_length=200)]
Word = Annotated[str, StringConstraints(pattern=r"^\S{1,100}$")]
Host = Annotated[str, StringConstraints(pattern=r"^(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)+$")]
Api = Annotated[str, StringConstraints(pattern=r"^https?://[^\s@?#]+$"), AfterValidator(_api)]
File = Annotated[Path, AfterValidator(_place)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(wire.Limits):
    """Limits of the plans; here an unknown name is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Delivery(wire.Delivery):
    """The delivery of the plans' changes; here an unknown name is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Rule(_Table):
    """One `[[source.rule]]`: which events become which goal."""

    on: Word
    when: Expression | None = None
    repos: tuple[Repository, ...] = ()
    repo: Expression | None = None  # where a payload that is of no forge names its repository
    allow: tuple[Allowance, ...] = ()
    from_: tuple[Word, ...] | None = Field(default=None, alias="from", min_length=1)
    tenant: Name = "default"
    queue: QueueName = "default"
    goal: Template | None = None
    command: Word | None = None  # a comment's first word: what follows it is the goal
    constraints: tuple[Template, ...] = Field(default=(), max_length=20)
    failure_log: Template | None = None
    language: Name | None = None
    test_command: CommandLine | None = None
    workdir: FilePath | None = None
    allowed_files: Annotated[tuple[FilePath, ...], AfterValidator(_allowed)] = ()
    files: Literal["forge"] | None = None
    files_from: File | None = None
    failures: Literal["forge", "none"] | None = None  # annotations and test reports
    base_sha: Template | None = None
    approvals: tuple[RiskLevel, ...] = ()
    drafter: Name | None = None
    mend: bool = True
    limits: Limits | None = None
    delivery: Delivery | None = None
    callback: EndpointId | None = None
    coalesce: Template | None = None
    supersedes: Template | None = None
    order: Expression | None = None
    resolves: Expression | None = None

    @property
    def expressions(self) -> Iterator[tuple[str, str]]:
        """Yield the rule's keys whose value is an expression, with this expression."""
        for key in ("when", "repo", "order", "resolves"):
            if given := getattr(self, key):
                yield key, given

    @property
    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield the rule's keys whose value is a text with expressions in braces, with this text."""
        for key in ("goal", "failure_log", "base_sha", "coalesce", "supersedes"):
            if given := getattr(self, key):
                yield key, given
        yield from (("constraints", each) for each in self.constraints)

    def mistakes(self, scheme: Scheme) -> Iterator[tuple[str, str]]:
        """Yield each key that contradicts another key or the scheme, with the reason."""
        is_comment = self.on in COMMENTS and scheme is not Scheme.STANDARD
        if bool(self.goal) == bool(self.command):
            yield "goal", "needs either `goal` or `command`"
        if self.command and not is_comment:
            yield "command", "is of comments: `on` one of " + ", ".join(sorted(COMMENTS))
        if scheme is not Scheme.STANDARD and not self.repos:
            yield "repos", "names the repositories that may be worked on, such as ['acme/shop']"
        if scheme is not Scheme.STANDARD and self.repo:
            yield "repo", f"is of the scheme standard; a payload of {scheme} names its repository itself"
        if self.repo and not self.repos:
            yield "repos", "names the repositories that `repo` may find"
        if len(self.repos) > 1 and scheme is Scheme.STANDARD and not self.repo:
            yield "repo", "is the place in the payload that names one of the repositories"
        if scheme is Scheme.GITLAB and is_comment and not self.from_:
            yield "from", "names the users who may comment: a payload of gitlab has no role of its author"
        yield from self._contradictions(scheme)

    def _contradictions(self, scheme: Scheme) -> Iterator[tuple[str, str]]:
        if self.files and self.files_from:
            yield "files_from", "is a listing, and so is files = 'forge': leave one"
        if self.base_sha and "{{" not in self.base_sha and not COMMIT.fullmatch(self.base_sha.strip().lower()):
            yield "base_sha", f"is no id of a commit, so nothing would be sent: {NO_COMMIT}"
        if self.files and not self.base_sha:
            yield "base_sha", "says of which commit files = 'forge' lists the files"
        if scheme is Scheme.STANDARD and (self.files or self.failures == "forge"):
            yield "files", "the scheme standard has no forge to ask; files_from names a listing"
        for key in ("order", "resolves"):
            if getattr(self, key) and not self.supersedes:
                yield key, "needs `supersedes`, which finds the newer or solved event"


class Delivered(_Table):
    """The table `[source.delivered]`: the repositories whose delivered changes are followed until they are merged."""

    repos: tuple[Repository, ...] = Field(min_length=1, max_length=1000)
    tenant: Name = "default"  # whose plans' changes these are; those of another tenant are not followed
    follow_up: bool = True  # whether red checks and reviews become plans; else they are only seen
    check_rounds: int = Field(default=2, ge=0, le=10)  # such plans for red checks, and as many for reviews
    land_again: Stale = Stale.CONFLICT  # when the change is put on top of its target branch once more; `no`: never
    land_rounds: int = Field(default=2, ge=0, le=100)  # such plans
    token_share: float = Field(default=0.5, gt=0, le=1)  # of the tokens of the plan that delivered, for all of them
    quiet_s: int = Field(default=300, ge=0, le=86_400)  # a review is answered as a whole, once it has been quiet
    max_open_changes: int | None = Field(default=None, ge=1)  # with so many a repository begins no new plan
    poll_s: int = Field(default=300, ge=10, le=86_400)  # seconds between looks without a webhook

    def has(self, repo: str) -> bool:
        """Return whether `repo` is one of the repositories; the case of letters does not count."""
        return repo.casefold() in {each.casefold() for each in self.repos}


class Source(_Table):
    """One table `[[source]]`: a sender of webhooks to /v1/webhooks/{name}."""

    name: SourceName
    scheme: Scheme
    secret_file: Annotated[tuple[File, ...], BeforeValidator(_listed)] = Field(min_length=1, max_length=8)
    app: Word | None = None  # slug of our own app, or name of our own user: its events are ignored
    own_branches: tuple[Word, ...] = ("planner/*",)  # as controllers push them
    api: Api | None = None
    token_file: File | None = None
    app_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,40}$")] | None = None  # of a GitHub App
    app_key_file: File | None = None  # its private key, in place of `token_file`
    app_installation: int | None = Field(default=None, ge=1)
    download_hosts: tuple[Host, ...] | None = None  # hosts that the forge redirects to for artifacts
    delivered: Delivered | None = None
    rule: tuple[Rule, ...] = Field(default=(), max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _with_api(cls, values: Any) -> Any:
        """Fill in the public API of the provider; the operator must name the API of another server."""
        if isinstance(values, dict) and "api" not in values and values.get("scheme") in tuple(APIS):
            return {**values, "api": APIS[Scheme(values["scheme"])]}
        return values

    @property
    def most_bytes(self) -> int:
        """Maximum size of a delivery, in bytes."""
        return MAX_GITHUB_DELIVERY if self.scheme is Scheme.GITHUB else MAX_DELIVERY

    @property
    def asks_for_failures(self) -> bool:
        """Whether the forge is asked about failures by default: if there is a token for it."""
        return self.has_token and self.scheme is not Scheme.STANDARD

    @property
    def artifact_hosts(self) -> tuple[str, ...]:
        """The hosts for downloads of artifacts, in addition to the forge's own."""
        if self.download_hosts is not None:
            return self.download_hosts
        if self.api == APIS[Scheme.GITHUB]:
            return ("*.blob.core.windows.net", "*.githubusercontent.com")
        return ()

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets that may have signed a delivery, several during a rotation. Raises WrongSources."""
        return tuple(read_secret(path) for path in self.secret_file)

    @property
    def has_token(self) -> bool:
        """Whether there are credentials for the forge's API."""
        return self.token_file is not None or self.github_app is not None

    @property
    def github_app(self) -> GitHubApp | None:
        """The App whose installation uses the API, if one is named."""
        if self.app_id and self.app_key_file and self.app_installation:
            return GitHubApp(self.app_id, self.app_key_file, self.app_installation, self.api or "")
        return None

    def token(self) -> str | None:
        """Return the token for the forge's API, if there is one. Raises WrongSources."""
        return read_secret(self.token_file) if self.token_file else None


class SourcesFile(_Table):
    """The content of PLANNER_WEBHOOKS_FILE."""

    source: tuple[Source, ...] = Field(min_length=1, max_length=100)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the file at `path`, without its secrets. Raises WrongSources with a sentence for each mistake."""
        place = path.absolute()
        values: Any = None
        try:
            values = tomllib.loads(read_setting(place, MAX_BYTES).decode())
            found = cls.model_validate(values, context=place.parent)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text in UTF-8"
            raise WrongSources(f"{path} cannot be read: {why}.") from error
        except tomllib.TOMLDecodeError as error:
            raise WrongSources(f"{path} is no TOML: {error}.") from error
        except ValidationError as error:
            wrong = (f"{path}: {_place_of(e['loc'], values)}: {_sentence(e)}." for e in _first(error.errors()))
            raise WrongSources("\n".join(wrong)) from error
        if mistakes := [f"{path}: {each}." for each in found.mistakes()]:
            raise WrongSources("\n".join(mistakes))
        return found

    def named(self, name: str) -> Source | None:
        """Return the source with this name, if there is one."""
        return next((each for each in self.source if each.name == name), None)

    def following(self, tenant: str, repo: str) -> Source | None:
        """Return the source that follows a tenant's delivered changes in `repo`; None if no source does."""
        found = ((each, each.delivered) for each in self.source if each.delivered)
        return next((each for each, allowed in found if allowed.tenant == tenant and allowed.has(repo)), None)

    def mistakes(self) -> Iterator[str]:
        """Yield a sentence for each contradiction in the file."""
        names = [each.name for each in self.source]
        values = {"source": [{"name": name} for name in names]}
        for at, source in enumerate(self.source):
            if not (source.rule or source.delivered):
                yield f"{_place_of(('source', at), values)}: it has neither rules nor a table `delivered`"
            app = (source.app_id, source.app_key_file, source.app_installation)
            if any(app) and (not all(app) or source.token_file or source.scheme is not Scheme.GITHUB):
                why = "an App of GitHub has app_id, app_key_file and app_installation, and no token_file"
                yield f"{_place_of(('source', at, 'app_id'), values)}: {why}"
            if source.delivered and source.scheme is Scheme.STANDARD:
                yield f"{_place_of(('source', at, 'delivered'), values)}: the scheme standard has no forge to ask"
            if names.index(source.name) != at:
                yield f"{_place_of(('source', at, 'name'), values)}: another source has this name"
            for number, rule in enumerate(source.rule):
                for key, why in rule.mistakes(source.scheme):
                    yield f"{_place_of(('source', at, 'rule', number, key), values)}: {why}"


def read_secret(path: Path) -> str:
    """Return the secret in a file. Raises WrongSources with a message that has no word of the file."""
    try:
        text = read_setting(path, MAX_SECRET_BYTES).decode("ascii").strip()
    except OSError as error:
        raise WrongSources(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise WrongSources(f"{path} holds no secret: that is one line of ASCII.") from error
    if not text.isprintable() or not text:
        raise WrongSources(f"{path} holds no secret: that is one line of ASCII.")
    return text


_MODELS: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): SourcesFile,
    ("source",): Source,
    ("source", "rule"): Rule,
    ("source", "delivered"): Delivered,
    ("source", "rule", "limits"): Limits,
    ("source", "rule", "delivery"): Delivery,
}


def _place_of(loc: tuple[int | str, ...], values: Any) -> str:
    """Return a place in the file in words: `source 1 (github), rule 2, repos`."""
    words: list[str] = []
    for part in loc:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            values = None
        if not isinstance(part, int):
            words.append(str(part))
        elif words and words[-1] in ("source", "rule"):
            name = values.get("name") if isinstance(values, dict) and words[-1] == "source" else None
            words[-1] += f" {part + 1}" + (f" ({name})" if isinstance(name, str) else "")
        else:
            words.append(str(part + 1))
    return ", ".join(words) or "the file"


def _sentence(error: ErrorDetails) -> str:
    """Return the mistake in the value of a key; for an unknown key, with the most similar known key."""
    if error["type"] != "extra_forbidden":
        return expected(error)
    model = _MODELS.get(tuple(part for part in error["loc"][:-1] if isinstance(part, str)))
    known = [field.alias or name for name, field in model.model_fields.items()] if model else []
    near = get_close_matches(str(error["loc"][-1]), known, 1)
    return "there is no such key" + (f": it may be `{near[0]}`" if near else f"; there are {', '.join(known)}")


def _first(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors, without those about a list that is empty only because its items are wrong."""
    places = [error["loc"] for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(each[: len(place)] == place != each for each in places)
    ]
