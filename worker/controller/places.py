"""The places where a controller works: a clone of its one repository, or one clone for each repository of a file."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from worker.agents.agent import Agent
from worker.controller.config import ControllerConfig
from worker.controller.holdout import Holdouts
from worker.controller.instructions import Trust
from worker.controller.readiness import CannotWork, StepTrouble
from worker.controller.remote import Remote, without_users
from worker.controller.repositories_file import RepositoriesFile, RepositorySettings
from worker.controller.repository import Repository
from worker.controller.setup import Setup
from worker.controller.shared import SharedRepository
from worker.controller.worktree import Worktree, worktree
from worker.host.git import GitError
from worker.host.remote_names import is_of
from worker.sandbox.paths import grants_of
from worker.sandbox.sandbox import Sandbox
from worker.settings.credentials import NAMED_LIKE_SECRETS

SETUPS = {  # by lock file
    "uv.lock": "uv sync",
    "poetry.lock": "poetry install",
    "pdm.lock": "pdm sync",
    "Pipfile.lock": "pipenv sync --dev",
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "yarn.lock": "yarn install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "bun.lockb": "bun install --frozen-lockfile",
    "composer.lock": "composer install",
    "Gemfile.lock": "bundle install",
}
log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class Place:
    """One clone, its agent, and the sandboxes for the agent and for the verification."""

    tree: Worktree
    program: Agent | None
    agent: Sandbox
    tool: Sandbox
    agent_timeout_s: float
    environment: dict[str, str] = field(default_factory=dict)
    setup: Setup | None = None
    instructions: Trust = Trust.DATA
    agent_env: tuple[str, ...] = ()  # further variables of ours for the agent
    holdout: Holdouts | None = None  # tests that no agent gets
    proposed: str = ""  # the option of a setup that may be missing

    @property
    def isolation(self) -> str:
        """The isolation of a verification here, in the words of receipts."""
        return " ".join(("clone", *self.tool.isolation))

    @property
    def login(self) -> frozenset[str]:
        """The variables for the agent only: neither a setup nor a verification sees them."""
        named = self.program.login if self.program else frozenset[str]()
        return named.union(filter(NAMED_LIKE_SECRETS.search, self.agent_env))


class Places:
    """The places of one controller; a clone of a repository in a file is made with its first step."""

    def __init__(self, config: ControllerConfig, stack: ExitStack) -> None:
        self._config, self._stack = config, stack
        self._tool = _sandbox(config)
        self._tool.check()
        self._holdout = Holdouts(config.holdout) if config.holdout else None
        if config.holdout and not self._tool.confines:
            log.warning("holdout_in_reach", extra={"path": str(config.holdout)})
        self._known: dict[str, Place] = {}

    @classmethod
    @contextmanager
    def opened(cls, config: ControllerConfig) -> Iterator[Self]:
        """Yield places while the block lasts. Raises GitError or NoSandbox if they cannot be set up."""
        with ExitStack() as stack:
            places = cls(config, stack)
            if not config.repositories:
                places._open("", Repository(config.workdir), config.agent)
            yield places

    @property
    def count(self) -> int:
        """Number of repositories."""
        return len(self._config.repositories.repositories) if self._config.repositories else 1

    def of(self, repo: str | None) -> Place:
        """Return the place for a step of the repository `repo`. Raises CannotWork with the reason if there is none.

        A step without a repository is accepted only if this controller has exactly one. A single clone without remotes
        accepts every name.
        """
        file = self._config.repositories
        if file:
            return self._of_file(repo, file)
        place = self._known[""]
        names = place.tree.names
        if repo and names and not is_of(repo, names):
            raise StepTrouble(
                f"the repository {repo} is not here: the clone's remotes are {without_users(', '.join(names))}"
            )
        return place

    def delivered(self, repo: str | None) -> tuple[SharedRepository, RepositorySettings]:
        """Return the clone of `repo` with its settings, if the file of repositories permits deliveries to it.

        Raises CannotWork if it does not, or if there is no such file.
        """
        if not (file := self._config.repositories):
            raise StepTrouble("this controller has no file of repositories, which permits deliveries")
        name = _named(repo, file)
        if not file.repositories[name].delivery.push:
            raise StepTrouble(f"{name}: the file of repositories permits no delivery here")
        return _clone(name, file), file.repositories[name]

    def _of_file(self, repo: str | None, file: RepositoriesFile) -> Place:
        name = _named(repo, file)
        if name not in self._known:
            table, repository = file.repositories[name], _clone(name, file)
            try:
                self._open(name, repository, table.agent or self._config.agent, table)
            except (GitError, OSError, subprocess.TimeoutExpired) as error:
                raise CannotWork(f"{name}: {error}") from error
        return self._known[name]

    def _open(
        self, name: str, repository: Repository, program: Agent | None, table: RepositorySettings | None = None
    ) -> None:
        config = self._config
        setup = table.made_by_setup if table else config.setup
        proposed = "" if setup else propose(repository)
        if proposed:
            log.warning("no_setup", extra={"repository": name or str(repository.path), "proposed": proposed})
        granted = (*(program.grants() if program else ()), *grants_of(setup.argv if setup else ()))
        made = worktree(repository, config.name, config.worktrees, config.agent_user)
        self._known[name] = Place(
            tree=self._stack.enter_context(made),
            program=program,
            agent=sandbox_of_agents(config).with_grants(*granted),
            tool=replace(self._tool, has_network=table.network if table else config.tool_network),
            agent_timeout_s=table.agent_timeout_s if table else config.agent_timeout_s,
            environment=table.environment if table else {},
            instructions=table.instructions if table else Trust.DATA,
            setup=setup,
            agent_env=config.agent_env,
            holdout=self._holdout,
            proposed=proposed,
        )


def propose(repository: Repository) -> str:
    """Return the setup option that the lock files of a repository suggest; "" if there are none."""
    try:
        listed = repository.git.line("ls-tree", "--name-only", "HEAD").splitlines()
    except GitError:  # it has no commit yet
        return ""
    return next((f'--setup "{command}"' for name, command in SETUPS.items() if name in listed), "")


def _named(repo: str | None, file: RepositoriesFile) -> str:
    """Return the name of the repository `repo` in the file. Raises CannotWork if the file does not have it."""
    tables = file.repositories
    found = [name for name, table in tables.items() if not repo or is_of(repo, (name, table.url))]
    found = [repo] if repo in tables else found
    if not repo and len(found) != 1:
        raise StepTrouble(f"the step names no repository (context.repo); there are here: {', '.join(tables)}")
    if len(found) != 1:
        raise StepTrouble(f"{repo} is {len(found) or 'none'} of the repositories here: {', '.join(found or tables)}")
    return found[0]


def _clone(name: str, file: RepositoriesFile) -> SharedRepository:
    """Return the clone of the repository `name`, and make it if it is missing. Raises CannotWork."""
    table = file.repositories[name]
    remote = Remote(table.url, table.user, table.token_file, table.ssh_key, table.known_hosts)
    try:
        return SharedRepository(file.folder / f"{name}.git", remote, table.base, file.keep_days)
    except (GitError, OSError, subprocess.TimeoutExpired) as error:
        raise CannotWork(f"{name}: {error}") from error


def sandbox_of_agents(config: ControllerConfig) -> Sandbox:
    """Return the sandbox that all agents share; the needs of a single agent are granted in addition."""
    return _sandbox(config).with_grants(*config.agent_paths)


def _sandbox(config: ControllerConfig) -> Sandbox:
    hidden = config.hidden + (config.repositories.private if config.repositories else ())
    hidden += (config.logs.path,) if config.logs else ()
    hidden += (config.holdout,) if config.holdout else ()
    return Sandbox(config.sandbox, config.tool_paths, hidden, config.agent_user)
