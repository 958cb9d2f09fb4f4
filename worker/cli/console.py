"""The common behaviour of commands: exit codes, failures, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from tasks.base.errors import PlannerError
from worker.host.embedded_server import NotInstalled
from worker.host.terminal import Terminal, document

if TYPE_CHECKING:  # these cost a second on a slow machine, and `planner --help` needs none of them
    from schemas.envelope import FieldError, Problem
    from worker.client.planner import Planner
    from worker.client.redis_planner import RedisPlanner
    from worker.settings.settings import Settings

MAX_SOURCE_BYTES = 64 * 1024 * 1024  # the contents have smaller limits

OK, FAILED, USAGE, MISSING, TIMED_OUT = 0, 1, 2, 3, 4
INTERRUPTED = 130  # by Ctrl-C, as shells have it

SecretsFd = Annotated[
    int | None,
    typer.Option(min=3, metavar="N", help='Read secrets from this descriptor: {"PLANNER_REDIS_URL": "..."}.'),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts; errors too.")]


class Kind(StrEnum):
    """The kinds of goal. It repeats schemas.base.GoalKind, so that `planner --help` need not import that."""

    TASK = "task"
    GAP_REPORT = "gap_report"
    CAMPAIGN = "campaign"
    REVIEWED_PLAN = "reviewed_plan"
    EVOLUTION = "evolution"


class Failure(Exception):
    """A command cannot do its work. It is shown as an RFC 9457 problem, never as a stack trace."""

    def __init__(self, problem: Problem, exit_code: int) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.exit_code = exit_code

    @classmethod
    def of(cls, code: str, detail: str, exit_code: int = FAILED, errors: Sequence[FieldError] = ()) -> Failure:
        """Return the Failure with this code; the HTTP status of its problem follows from the exit code."""
        from schemas.envelope import Problem

        status = {USAGE: 422, MISSING: 404, TIMED_OUT: 504}.get(exit_code, 500)
        return cls(Problem.of(code, detail, tuple(errors), status), exit_code)


@contextmanager
def open_link(block_s: float = 0.0, *, agreed: bool = True) -> Iterator[RedisPlanner]:
    """Connect to PLANNER_REDIS_URL while the block lasts. Raises Failure if that is not possible.

    With `agreed` the server must have the number of partitions in PLANNER_PARTITIONS.
    """
    from worker.client import redis_connection
    from worker.client.redis_planner import RedisPlanner

    settings = read_settings()
    check_redis(settings)
    with failures(), redis_connection.opened(settings, block_s, agreed=agreed) as client:
        yield RedisPlanner(client, settings)


@contextmanager
def open_planner(block_s: float = 0.0, *, agreed: bool = True) -> Iterator[Planner]:
    """Connect to the planner of PLANNER_URL or PLANNER_REDIS_URL while the block lasts. Raises Failure.

    `block_s` and `agreed` apply to its Redis, as in `open_link`.
    """
    settings = planner_settings()
    if settings.url is None:
        with open_link(block_s, agreed=agreed) as planner:
            yield planner
        return
    from worker.client.http_link import GatewayLink
    from worker.client.http_planner import HttpPlanner

    with failures(), closing(GatewayLink(settings)) as link:
        yield HttpPlanner(link, settings)


@contextmanager
def as_planner(link: RedisPlanner, what: str) -> Iterator[None]:
    """Raise Failure if Redis does not permit `what` to this user, because it needs the planner's own account."""
    from urllib.parse import urlsplit

    from redis.exceptions import NoPermissionError

    try:
        yield
    except NoPermissionError as error:
        user = urlsplit(link.settings.redis_url).username or "default"
        detail = (
            f"The user {user} of Redis may not {what}. That takes the planner's own account: set PLANNER_REDIS_URL to "
            "that of the user planner (docs/deployment.md, Roles)."
        )
        raise Failure.of("no_permission", detail) from error


def check_redis(settings: Settings) -> None:
    """Raise Failure if only a gateway is configured, because the command works on Redis itself."""
    if settings.url and not settings.given_redis_url:
        detail = "This command works on Redis itself, and PLANNER_URL names a gateway: set PLANNER_REDIS_URL."
        raise Failure.of("needs_redis", detail, USAGE)


def refuse_server(settings: Settings, *, writes: bool = True) -> None:
    """Raise Failure if the server of PLANNER_REDIS_URL cannot be used; a server that is away is accepted.

    With `writes`, Failure is also raised if the server is unsafe and the settings do not allow that.
    """
    from redis.exceptions import RedisError

    from worker.store import clients, deployment

    try:
        with clients.connect(settings.redis_url) as client:
            clients.check_version(client)
            deployment.check(client, settings.partitions)
            if writes and not settings.allow_unsafe_redis:
                clients.check_safe(client)
    except deployment.WrongDeployment as error:
        raise Failure.of(error.code, str(error), USAGE) from error
    except ValueError as error:
        raise Failure.of("wrong_settings", f"PLANNER_REDIS_URL: {error}", USAGE) from error
    except (RedisError, clients.RefusedRedis) as error:
        if why := clients.refusal(error, settings.redis_url):
            raise Failure.of(why.code, str(why)) from error


def planner_settings(secrets_fd: int | None = None) -> Settings:
    """Return the settings for a client of a planner.

    Raises Failure if they name a gateway and a Redis server, because the rights there may differ. The gateway of a
    `planner up` with the same PLANNER_DATA_DIR needs no configured key.
    """
    from pydantic import SecretStr

    from worker.host import nearby_server

    settings = read_settings(secrets_fd, nearby=False)
    if settings.url is None:
        return read_settings()
    if settings.given_redis_url:
        detail = "PLANNER_URL and PLANNER_REDIS_URL are both set: leave the one by which the planner shall be asked."
        raise Failure.of("two_addresses", detail, USAGE)
    if settings.api_key or settings.id_token:
        return settings
    found = nearby_server.api_key(settings.data_dir, settings.url.rstrip("/"))
    return settings.model_copy(update={"api_key": SecretStr(found)}) if found else settings


@contextmanager
def refused(
    code: str, before: str = "", after: str = "", exit_code: int = USAGE, by: type[Exception] = PlannerError
) -> Iterator[None]:
    """Turn an exception of class `by` in the block into a Failure, with its message between `before` and `after`."""
    try:
        yield
    except by as error:
        why = getattr(error, "strerror", None) or error
        raise Failure.of(code, f"{before}{why}{after}", exit_code) from error


@contextmanager
def needs_extra(name: str, what: str) -> Iterator[None]:
    """Turn a missing module of the extra `name` into a Failure, which states that `what` requires it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("worker."):
            raise
        detail = f"{what} comes with the extra: pip install 'planner-worker[{name}]' ({error.name} is missing)."
        raise Failure.of("not_installed", detail, USAGE) from error


@contextmanager
def failures() -> Iterator[None]:
    """Turn a Trouble that a planner's client raises in the block into a Failure."""
    from worker.client.trouble import NotFound, Trouble, WrongUse

    try:
        yield
    except Trouble as trouble:
        code = USAGE if isinstance(trouble, WrongUse) else MISSING if isinstance(trouble, NotFound) else FAILED
        raise Failure(trouble.problem, code) from trouble


def read_settings(secrets_fd: int | None = None, *, nearby: bool = True) -> Settings:
    """Return the settings. Raises Failure with a sentence for each wrong value.

    Secrets may come from the file descriptor `secrets_fd`. If no server is configured, `nearby` selects the server of a
    running `planner up` with the same PLANNER_DATA_DIR.
    """
    import os

    from worker.host import nearby_server
    from worker.settings import credentials
    from worker.settings.settings import WrongSettings, load

    if secrets_fd is not None:
        os.environ[credentials.DESCRIPTOR] = str(secrets_fd)
    with refused("wrong_settings", by=WrongSettings):
        settings = load()
    if nearby and "redis_url" not in settings.model_fields_set and (url := nearby_server.url(settings.data_dir)):
        return settings.model_copy(update={"redis_url": url})
    return settings


def family(name: str, about: str) -> typer.Typer:
    """Return a family of commands, `planner NAME ...`, for `app.command`."""
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(name=name, help=about, no_args_is_help=True, rich_markup_mode="rich", context_settings=names)


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Turn a function into a command; its return value is the exit code.

    If a parameter's type is a dataclass, each field of it becomes an option. A Failure is shown in the requested form,
    and Ctrl-C ends without a message. All arguments must be UTF-8.
    """
    groups: dict[str, Any] = {name: hint for name, hint in get_type_hints(function).items() if is_dataclass(hint)}
    parameters = list(_options(function, groups))

    @wraps(function)
    def run(**options: Any) -> None:
        try:
            _check_texts(parameters, options)
            given = dict(options)
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            code = function(**given)
        except Failure as failure:
            show_failure(failure, as_json=bool(options.get("as_json")))
            code = failure.exit_code
        except KeyboardInterrupt:
            code = INTERRUPTED
        except NotInstalled as missing:
            show_failure(Failure.of("not_installed", str(missing)), as_json=bool(options.get("as_json")))
            code = FAILED
        raise typer.Exit(code or OK)

    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options(function: Callable[..., Any], groups: Mapping[str, Any]) -> Iterator[Parameter]:
    """Yield the options of a command; those of a group replace its parameter."""
    hints = get_type_hints(function, include_extras=True)
    for each in signature(function).parameters.values():
        if group := groups.get(each.name):
            of_group = get_type_hints(group, include_extras=True)
            for field in fields(group):
                annotation = of_group[field.name]
                yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)
        else:
            yield each.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[each.name])


def _check_texts(parameters: Iterable[Parameter], options: Mapping[str, Any]) -> None:
    """Raise Failure for an argument that is not UTF-8, unless it names an existing file."""
    for parameter in parameters:
        value = options.get(parameter.name)
        for text in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(text, str) or _is_utf8(text) or (_names_files(parameter) and lexists(text)):
                continue
            shown = text.encode(errors="backslashreplace").decode()
            raise Failure.of("not_utf8", f"{shown} is not UTF-8: only the name of a file need not be.", USAGE)


def _is_utf8(text: str) -> bool:
    """Return whether an argument was valid UTF-8; invalid bytes are lone surrogates in the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_files(parameter: Parameter) -> bool:
    """Return whether a parameter of a command may be the name of a file, by its metavar."""
    told = get_args(parameter.annotation)
    metavar = next((each.metavar for each in told if getattr(each, "metavar", None)), "")
    return any(word in metavar for word in ("FILE", "DIR", "PATH", "POLICY"))


def read_source(source: str, most: int = MAX_SOURCE_BYTES) -> bytes:
    """Return at most `most` bytes of a regular file, or of stdin for `-`. Raises Failure."""
    from worker.host.regular_files import read

    if source != "-":
        try:
            return read(Path(source), most)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Failure.of("unreadable_file", f"{source}: {why}.", USAGE) from error
    data = typer.get_binary_stream("stdin").read(most + 1)
    if len(data) > most:
        raise Failure.of("unreadable_file", f"Standard input has more than {most} bytes, which is the limit.", USAGE)
    return data


def say(*parts: Any) -> None:
    """Print for a person; a pipe gets whole lines for grep."""
    console = Terminal(highlight=False)
    is_text = all(isinstance(part, str) for part in parts)
    console.print(*parts, markup=False, soft_wrap=is_text and not console.is_terminal, crop=False)


def say_json(value: Any, *, line: bool = False) -> None:
    """Print one JSON document: indented, or as one line of a stream."""
    from schemas import codec

    text = codec.dumps(value, default=_plain) + b"\n" if line else codec.pretty(_plain(value))
    document(text.decode())


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def show_failure(failure: Failure, *, as_json: bool) -> None:
    """Print a failure: for a script as its one document on stdout, for a person on stderr."""
    if as_json:
        say_json(failure.problem)
        return
    console = Terminal(stderr=True, highlight=False)
    console.print(failure.problem.detail, style="red", markup=False, soft_wrap=True)
    for error in failure.problem.errors:
        console.print(f"  {error.pointer or '/'}  {error.message} ({error.code})", markup=False, soft_wrap=True)
