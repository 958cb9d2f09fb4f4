"""The types of settings that are more than a number or a word."""

from __future__ import annotations

import shlex
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints

from schemas import codec
from tasks.text.forbidden_paths import wrong_name
from worker.sandbox.paths import PathGrant, grants
from worker.settings import cluster, sentinel


def _readable(url: str) -> str:
    """Return the URL. Raises ValueError if a Sentinel or cluster URL is invalid, so that the start fails."""
    if sentinel.is_watched(url):
        sentinel.parse(url)
    if cluster.is_cluster(url):
        cluster.parse(url)
    return url


def _forbiddable(name: str) -> str:
    if wrong := wrong_name(name):
        raise ValueError(wrong)
    return name


def _names(value: Any) -> Any:
    """Return names that are separated by commas."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def _weights(value: Any) -> Any:
    """Return `name=number` pairs that are separated by commas."""
    if not isinstance(value, str):
        return value
    pairs = [pair.rpartition("=") for pair in value.split(",") if pair.strip()]
    if any(not (sign and name.strip()) for name, sign, _ in pairs):
        raise ValueError("is not like acme=2,other=0.5")
    return {name.strip(): number.strip() for name, _, number in pairs}


def _argv(value: Any) -> Any:
    """Return a command: a JSON list of words, or words with a shell's quotes; no shell is used."""
    if not isinstance(value, str):
        return value
    try:
        words = codec.loads(value) if value.lstrip().startswith("[") else shlex.split(value)
    except ValueError as error:
        raise ValueError(f"is neither a JSON list nor words: {error}") from error
    return tuple(words)


def _variables(value: Any) -> Any:
    """Return a JSON object of texts."""
    if not isinstance(value, str):
        return value
    try:
        return codec.loads(value)
    except ValueError:  # its text would quote a possible secret
        raise ValueError("is no JSON object") from None


def _networks(value: Any) -> Any:
    """Return addresses and networks that are separated by commas."""
    if not isinstance(value, str):
        return value
    return tuple(ip_network(each, strict=False) for each in filter(None, map(str.strip, value.split(","))))


REDIS_URL = r"^(rediss?|unix|rediss?\+sentinel|rediss?\+cluster)://."
RedisUrl = Annotated[str, StringConstraints(pattern=REDIS_URL), AfterValidator(_readable)]
OutputName = Literal["text", "claude", "codex"]  # readers of worker.agents.readers
DrafterName = Literal["none", "queue", "http", "cli", "backend"]
DrafterNames = Annotated[tuple[DrafterName, ...], BeforeValidator(_names)]
CheckName = Literal["ruff-check", "ruff-format", "black", "flake8", "mypy", "pyright", "compileall"]
CheckNames = Annotated[tuple[CheckName, ...], BeforeValidator(_names)]
Argv = Annotated[tuple[str, ...], BeforeValidator(_argv)]
Grants = Annotated[tuple[PathGrant, ...], BeforeValidator(grants)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]
Names = Annotated[tuple[Annotated[str, AfterValidator(_forbiddable)], ...], BeforeValidator(_names)]
Words = Annotated[tuple[str, ...], BeforeValidator(_names)]
Variables = Annotated[dict[str, SecretStr], BeforeValidator(_variables)]
Weight = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)]
Weights = Annotated[dict[str, Weight], BeforeValidator(_weights)]
