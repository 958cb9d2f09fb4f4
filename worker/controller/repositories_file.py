"""repos.toml: the repositories of a controller, where they come from, and what each needs (docs/controllers.md)."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from worker.controller.readiness import agent_trouble
from worker.controller.setup import Setup
from worker.host.regular_files import read

MAX_BYTES = 1024 * 1024


class WrongRepositories(Exception):
    """The file cannot be used; the message has a sentence for each mistake."""


def _words(command: str) -> str:
    try:
        shlex.split(command)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error
    return command


def _agent(command: str) -> str:
    if trouble := agent_trouble(shlex.split(_words(command))):
        raise ValueError(trouble)
    return command


def _below(path: str) -> str:
    if {".git", "..", ".", ""}.intersection(path.casefold().split("/")):
        raise ValueError("is no plain path in the clone")
    return path


def _place(path: Path, info: ValidationInfo) -> Path:
    return Path(info.context or ".") / path.expanduser()


def _file(path: Path, info: ValidationInfo) -> Path:
    if not (found := _place(path, info)).is_file():
        raise ValueError(f"there is no file {found}")
    return found


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*$", max_length=200)]
# A password in an URL would stand in lists of processes and in reasons: a token has a file.
Url = Annotated[str, StringConstraints(pattern=r"^(?:https?://[^\s@]+|(?:ssh://|file:///|/|[\w.-]+@[\w.-]+:)\S+)$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./-]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
Below = Annotated[str, StringConstraints(pattern=r"^[\w@./-]+$"), AfterValidator(_below)]
File = Annotated[Path, AfterValidator(_file)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RepositorySettings(_Table):
    """One repository. Commands are split as a shell would, and run without one; paths begin at the file's folder."""

    url: Url
    base: Branch | None = None  # where plans without `base_sha` begin; the branch that the remote is on unless named
    agent: Annotated[str, AfterValidator(_agent)] | None = None  # else that of --exec
    agent_timeout_s: float = Field(default=900.0, gt=0, le=900)
    setup: Annotated[str, AfterValidator(_words)] | None = None  # run as the agent is, once for each of the lock files
    setup_timeout_s: float = Field(default=600.0, gt=0, le=3600)
    lock_files: tuple[Below, ...] = ()
    setup_results: tuple[Below, ...] = ()  # what it makes in the clone
    environment: dict[Variable, str] = Field(default_factory=dict)  # of agent and verifications
    user: Annotated[str, StringConstraints(pattern=r"^[^\s:]+$")] = "x-access-token"  # with the token
    token_file: File | None = None  # for https
    ssh_key: File | None = None  # for ssh; else the agent of SSH_AUTH_SOCK

    @model_validator(mode="after")
    def _says_what_the_setup_makes(self) -> Self:
        if bool(self.setup) != bool(self.setup_results) or bool(self.setup) != bool(self.lock_files):
            raise ValueError("setup, lock_files and setup_results go together")
        return self

    @property
    def made_by_setup(self) -> Setup | None:
        """Return the setup command with what it makes, if there is one."""
        if not self.setup:
            return None
        return Setup(tuple(shlex.split(self.setup)), self.lock_files, self.setup_results, self.setup_timeout_s)


class RepositoriesFile(_Table):
    """The file as a whole."""

    folder: Annotated[Path, AfterValidator(_place)] = Field(default=Path("clones"), validate_default=True)
    keep_days: int = Field(default=30, ge=0, le=3650)  # after which what a plan has left is dropped; 0: never
    repositories: dict[Name, RepositorySettings] = Field(min_length=1)

    @property
    def private(self) -> tuple[Path, ...]:
        """Name what agents may not reach: the clones, tokens and keys."""
        tables = self.repositories.values()
        return (self.folder, *(file for table in tables for file in (table.token_file, table.ssh_key) if file))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file at `path`; raises WrongRepositories with a sentence for each mistake."""
        try:
            return cls.model_validate(tomllib.loads(read(path.absolute(), MAX_BYTES).decode()), context=path.parent)
        except (OSError, UnicodeDecodeError) as error:
            raise WrongRepositories(f"{path} cannot be read: {error}.") from error
        except tomllib.TOMLDecodeError as error:
            raise WrongRepositories(f"{path} is no TOML: {error}.") from error
        except ValidationError as error:
            mistakes = (f"{path}: {'.'.join(map(str, e['loc']))}: {e['msg']}." for e in error.errors())
            raise WrongRepositories("\n".join(mistakes)) from error
