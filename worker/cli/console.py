"""How every command speaks: its exit codes, its failures, and JSON where a script listens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console

if TYPE_CHECKING:  # these cost a second on a slow machine, and `planner --help` needs none of them
    from redis import Redis

    from schemas.envelope import FieldError, Problem
    from worker.settings import Settings

OK, FAILED, USAGE, MISSING = 0, 1, 2, 3

# What JSON may hold as it is and what could steer a terminal all the same: C1 controls, bidirectional marks.
UNSAFE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts; errors too.")]


class Kind(StrEnum):
    """The kinds of goal; as schemas.base.GoalKind, which `planner --help` need not wait for."""

    TASK = "task"
    GAP_REPORT = "gap_report"
    CAMPAIGN = "campaign"
    REVIEWED_PLAN = "reviewed_plan"
    EVOLUTION = "evolution"


class Failure(Exception):
    """A command cannot do what it was asked; told as an RFC 9457 problem, never as a stack trace."""

    def __init__(self, problem: Problem, exit_code: int) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.exit_code = exit_code

    @classmethod
    def of(cls, code: str, detail: str, exit_code: int = FAILED, errors: Sequence[FieldError] = ()) -> Failure:
        """Make the failure `code`; the HTTP status in the problem follows from the exit code."""
        from schemas.envelope import Problem

        status = {USAGE: 422, MISSING: 404}.get(exit_code, 500)
        return cls(Problem.of(code, detail, tuple(errors), status), exit_code)


@dataclass(frozen=True, slots=True)
class Link:
    """The planner's server as a command sees it."""

    client: Redis
    settings: Settings

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.settings.partitions


@contextmanager
def linked(block_s: float = 0.0) -> Iterator[Link]:
    """Connect to PLANNER_REDIS_URL for as long as the block lasts; raises Failure where that cannot work."""
    from redis.exceptions import ConnectionError as NoConnection
    from redis.exceptions import RedisError
    from redis.exceptions import TimeoutError as TookTooLong

    from worker.clients import connect

    settings = configured()
    try:
        client = connect(settings.redis_url, block_s)
    except ValueError as error:
        raise Failure.of("wrong_settings", f"PLANNER_REDIS_URL: {error}", USAGE) from error
    try:
        with client:
            yield Link(client, settings)
    except (NoConnection, TookTooLong) as error:
        hint = "Start one with `planner up`, or set PLANNER_REDIS_URL."
        raise Failure.of("no_redis", f"No Redis answers at {_place(settings.redis_url)} ({error}). {hint}") from error
    except RedisError as error:
        raise Failure.of("redis_refused", f"Redis at {_place(settings.redis_url)} refused: {error}") from error


def configured() -> Settings:
    """Read the settings; raises Failure with a sentence per wrong value."""
    from worker.settings import WrongSettings, load

    try:
        return load()
    except WrongSettings as error:
        raise Failure.of("wrong_settings", str(error), USAGE) from error


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Make a function a command: what it returns is the exit code, and a Failure is told in the form asked for."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> None:
        try:
            code = function(*args, **options)
        except Failure as failure:
            _tell(failure, as_json=bool(options.get("as_json")))
            code = failure.exit_code
        raise typer.Exit(code or OK)

    return run


def read_source(source: str) -> bytes:
    """Read a file, or stdin for `-`; raises Failure where that cannot be done."""
    try:
        return typer.get_binary_stream("stdin").read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise Failure.of("unreadable_file", f"{source}: {error.strerror}.", USAGE) from error


def say(*parts: Any) -> None:
    """Print for a person; a pipe gets lines of text whole, so that grep finds them."""
    console = Console(highlight=False)
    is_text = all(isinstance(part, str) for part in parts)
    console.print(*parts, markup=False, soft_wrap=is_text and not console.is_terminal)


def say_json(value: Any, *, line: bool = False) -> None:
    """Print one JSON document: indented, or as one line of a stream of them."""
    from schemas import codec

    text = codec.dumps(value, default=_plain) + b"\n" if line else codec.pretty(_plain(value))
    typer.echo(UNSAFE.sub(_escaped, text.decode()), nl=False)


def _escaped(unsafe: re.Match[str]) -> str:
    return f"\\u{ord(unsafe[0]):04x}"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _tell(failure: Failure, *, as_json: bool) -> None:
    """Tell what went wrong: to a script on stdout, where it reads its one document; to a person on stderr."""
    if as_json:
        say_json(failure.problem)
        return
    console = Console(stderr=True, highlight=False)
    console.print(failure.problem.detail, style="red", markup=False, soft_wrap=True)
    for error in failure.problem.errors:
        console.print(f"  {error.pointer or '/'}  {error.message} ({error.code})", markup=False, soft_wrap=True)


def _place(url: str) -> str:
    """Name a server without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
