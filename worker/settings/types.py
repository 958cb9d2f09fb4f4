"""What a setting may be, where that is more than a number or a word."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints
from pydantic_settings import NoDecode

from tasks.text.forbidden_paths import wrong_name
from worker.sandbox.paths import Grant, grants
from worker.settings import lists, sentinel


def _readable(url: str) -> str:
    """Refuse a URL of sentinels that cannot be read, at the start instead of at the first connection."""
    if sentinel.is_watched(url):
        sentinel.parse(url)
    return url


def _forbiddable(name: str) -> str:
    if wrong := wrong_name(name):
        raise ValueError(wrong)
    return name


RedisUrl = Annotated[
    str, StringConstraints(pattern=r"^(redis|rediss|unix|redis\+sentinel)://."), AfterValidator(_readable)
]
DrafterName = Literal["none", "queue", "http", "cli", "backend"]
DrafterNames = Annotated[tuple[DrafterName, ...], NoDecode, BeforeValidator(lists.names)]
CheckName = Literal["ruff-check", "ruff-format", "black", "flake8", "mypy", "pyright", "compileall"]
CheckNames = Annotated[tuple[CheckName, ...], NoDecode, BeforeValidator(lists.names)]
Argv = Annotated[tuple[str, ...], NoDecode, BeforeValidator(lists.argv)]
Grants = Annotated[tuple[Grant, ...], NoDecode, BeforeValidator(grants)]
Names = Annotated[tuple[Annotated[str, AfterValidator(_forbiddable)], ...], NoDecode, BeforeValidator(lists.names)]
Variables = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(lists.variables)]
