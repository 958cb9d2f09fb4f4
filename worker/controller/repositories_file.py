"""repos.toml: the repositories of a controller, with their URLs and settings (docs/controllers.md)."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Self
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

from schemas.wording import expected
from worker.agents.agent import Agent, command_agent, is_named, named_agent
from worker.controller.forge import Forge, ForgeKind, read_token
from worker.controller.instructions import Trust
from worker.controller.readiness import CannotWork, agent_trouble
from worker.controller.setup import Setup
from worker.host.github_app import GitHubApp
from worker.host.regular_files import read
from worker.host.remote_names import host_and_path

MAX_BYTES = 1024 * 1024
PLAN = "{plan_id}"
NO_BRANCH = re.compile(r"\.\.|//|/\.|\.lock(?:/|$)|[/.]$")  # names that git does not allow
APIS = {  # by the host of a repository, where that is the provider's own
    "github.com": (ForgeKind.GITHUB, "https://api.github.com"),
    "gitlab.com": (ForgeKind.GITLAB, "https://gitlab.com/api/v4"),
}
PATHS = {ForgeKind.GITHUB: "/api/v3", ForgeKind.GITLAB: "/api/v4"}  # of a forge's own server
HERE = ("localhost", "127.0.0.1", "::1")


class WrongRepositories(Exception):
    """The file cannot be used; the message has a sentence for each mistake."""


def _words(command: str) -> str:
    try:
        shlex.split(command)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error
    return command


def _agent(text: object, info: ValidationInfo) -> Agent:
    """Return the agent for its name, the path of its data file, or a command."""
    if not isinstance(text, str):
        raise ValueError("is no text")
    agent = named_agent(text, info.context) if is_named(text) else command_agent(text)
    if not agent:
        raise ValueError("is empty: leave it out")
    if trouble := agent_trouble(agent.argv):
        raise ValueError(trouble)
    return agent


def _below(path: str) -> str:
    if {".git", "..", ".", ""}.intersection(path.casefold().split("/")):
        raise ValueError("is no plain path in the clone")
    return path


def _of_the_plan(template: str) -> str:
    if PLAN not in template or "{" in template.replace(PLAN, "") or NO_BRANCH.search(template):
        raise ValueError(f"is no name of a branch with {PLAN} in it, which keeps plans off the branches of others")
    return template


def _api(url: str) -> str:
    if not url.startswith("https://") and urlsplit(url).hostname not in HERE:
        raise ValueError("begins with https://, or a token could be read on its way")
    return url.rstrip("/")


def _place(path: Path, info: ValidationInfo) -> Path:
    return Path(info.context or ".") / path.expanduser()


def _file(path: Path, info: ValidationInfo) -> Path:
    if not (found := _place(path, info)).is_file():
        raise ValueError(f"there is no file {found}")
    return found


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*$", max_length=200)]
# No password: an URL is visible in lists of processes and in reasons. A token has a file.
Url = Annotated[str, StringConstraints(pattern=r"^(?:https?://[^\s@]+|(?:ssh://|file:///|/|[\w.-]+@[\w.-]+:)\S+)$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./-]*$")]
PlanBranch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./{}-]*$"), AfterValidator(_of_the_plan)]
Api = Annotated[str, StringConstraints(pattern=r"^https?://[^\s@?#]+$"), AfterValidator(_api)]
Project = Annotated[str, StringConstraints(pattern=r"^[\w.-]+(?:/[\w.-]+)+$", max_length=300)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
Below = Annotated[str, StringConstraints(pattern=r"^[\w@./-]+$"), AfterValidator(_below)]
File = Annotated[Path, AfterValidator(_file)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeliverySettings(_Table):
    """The deliveries that plans of one repository may have if their goals ask for one; by default none."""

    push: bool = False  # a branch with the verified changes
    pull_request: bool = False  # and a pull request for it
    branch: PlanBranch = f"planner/{PLAN}"
    draft: bool = False  # until the checks are green, which workers see to (docs/delivered-changes.md)
    labels: bool = True  # planner, its risk, and findings about tests
    reviewers: bool = True  # by the CODEOWNERS of the target
    max_open_changes: int | None = Field(default=None, ge=1)  # limit of open changes; at the limit deliveries wait
    max_review_lines: int | None = Field(default=None, ge=1)  # limit of their lines, added and removed
    forge: ForgeKind | None = None  # known of github.com and gitlab.com
    api: Api | None = None  # known where the repository has an https or ssh URL
    project: Project | None = None  # the repository's name at the forge: that of the URL unless named
    token_file: File | None = None  # for the forge; else the one of the repository
    app_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,40}$")] | None = None  # of a GitHub App
    app_key_file: File | None = None  # its private key, in place of a token
    app_installation: int | None = Field(default=None, ge=1)


class RepositorySettings(_Table):
    """The settings of one repository. Commands are split into words, and run without a shell.

    Relative paths begin at the folder of repos.toml.
    """

    url: Url
    base: Branch | None = None  # where plans without `base_sha` begin; the branch that the remote is on unless named
    agent: Annotated[Agent, BeforeValidator(_agent)] | None = None  # else that of the command line
    agent_timeout_s: float = Field(default=900.0, gt=0, le=900)
    instructions: Trust = Trust.DATA  # what its AGENTS.md and CLAUDE.md are for agents
    setup: Annotated[str, AfterValidator(_words)] | None = None  # run as the agent is, once for each of the lock files
    setup_timeout_s: float = Field(default=600.0, gt=0, le=3600)
    lock_files: tuple[Below, ...] = ()  # else all manifests and lock files
    setup_results: tuple[Below, ...] = ()  # its results in the clone; by default all new files
    environment: dict[Variable, str] = Field(default_factory=dict)  # of agent and verifications
    network: bool = False  # whether verifications may reach the network; agent and setup may
    user: Annotated[str, StringConstraints(pattern=r"^[^\s:]+$")] = "x-access-token"  # with the token
    token_file: File | None = None  # for https
    ssh_key: File | None = None  # for ssh; else the agent of SSH_AUTH_SOCK
    known_hosts: File | None = None  # for ssh, in addition to those of the user and of the system

    @model_validator(mode="after")
    def _names_nothing_without_a_setup(self) -> Self:
        if (self.setup_results or self.lock_files) and not self.setup:
            raise ValueError("lock_files and setup_results are those of a setup")
        return self

    delivery: DeliverySettings = DeliverySettings()

    @model_validator(mode="after")
    def _can_open_what_it_may(self) -> Self:
        if self.delivery.pull_request:
            if not self.delivery.push:
                raise ValueError("delivery.pull_request needs delivery.push too")
            try:
                forge = self.forge
                if forge.app is None:
                    read_token(forge.token_file)
            except CannotWork as error:
                raise ValueError(f"delivery: {error}") from error
        return self

    @property
    def forge(self) -> Forge:
        """The forge for pull requests. Raises ValueError if it is not known."""
        given, (host, path) = self.delivery, host_and_path(self.url)
        kind, api = APIS.get(host.casefold(), (None, ""))
        if given.forge and given.forge is not kind:  # a server of one's own
            kind, api = given.forge, f"https://{host}{PATHS[given.forge]}" if host else ""
        api, token_file = given.api or api, given.app_key_file or given.token_file or self.token_file
        if not kind:
            raise ValueError("delivery.forge has to be named: github or gitlab")
        if not api:
            raise ValueError("delivery.api has to be named, such as https://git.example/api/v4")
        if not token_file:
            raise ValueError("delivery.pull_request needs a token_file")
        app = None
        if named := (given.app_id or given.app_key_file or given.app_installation):
            if not (given.app_id and given.app_key_file and given.app_installation) or kind is not ForgeKind.GITHUB:
                raise ValueError(f"delivery: {named} is of a GitHub App: app_id, app_key_file and app_installation")
            app = GitHubApp(given.app_id, given.app_key_file, given.app_installation, api)
        return Forge(kind, api, given.project or path, token_file, app)

    @property
    def made_by_setup(self) -> Setup | None:
        """The setup command with its results; None if there is none."""
        if not self.setup:
            return None
        return Setup(tuple(shlex.split(self.setup)), self.lock_files, self.setup_results, self.setup_timeout_s)


class RepositoriesFile(_Table):
    """The content of repos.toml."""

    folder: Annotated[Path, AfterValidator(_place)] = Field(default=Path("clones"), validate_default=True)
    keep_days: int = Field(default=30, ge=0, le=3650)  # days after which a plan's refs are deleted; 0: never
    repositories: dict[Name, RepositorySettings] = Field(min_length=1)

    @property
    def private(self) -> tuple[Path, ...]:
        """The paths that agents may not reach: the clones, tokens and keys."""
        tables = self.repositories.values()
        files = (
            file
            for t in tables
            for file in (t.token_file, t.ssh_key, t.delivery.token_file, t.delivery.app_key_file)
            if file
        )
        return (self.folder, *files)

    @property
    def delivers(self) -> bool:
        """Whether plans of any of the repositories may be delivered."""
        return any(table.delivery.push for table in self.repositories.values())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the file at `path`. Raises WrongRepositories with a sentence for each mistake."""
        place = path.absolute()  # git runs in the clones
        try:
            return cls.model_validate(tomllib.loads(read(place, MAX_BYTES).decode()), context=place.parent)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise WrongRepositories(f"{path} cannot be read: {why}.") from error
        except tomllib.TOMLDecodeError as error:
            raise WrongRepositories(f"{path} is no TOML: {error}.") from error
        except ValidationError as error:
            mistakes = (f"{path}: {'.'.join(map(str, e['loc']))}: {expected(e)}." for e in error.errors())
            raise WrongRepositories("\n".join(mistakes)) from error
