"""The configuration of one controller."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from schemas.step import DELIVERIES
from worker.agents.agent import Agent
from worker.controller.logs_folder import LogsFolder
from worker.controller.repositories_file import RepositoriesFile
from worker.controller.setup import Setup
from worker.sandbox.paths import PathGrant
from worker.sandbox.sandbox import SandboxMode
from worker.sandbox.user import User
from worker.settings.settings import Settings


def unique_name() -> str:
    """Return a name from host, process and a random part, because no two controllers may be the same consumer."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The configuration of a controller that reads `queues` in the first `partitions` partitions.

    It works in separate clones of the git repository `workdir`, or of the repositories in the file `repositories`.
    Without an `agent` it does only test steps.
    """

    redis_url: str = ""
    gateway: Settings | None = None  # with a gateway and its key, in place of `redis_url`
    workdir: Path = Path()
    repositories: RepositoriesFile | None = None
    setup: Setup | None = None  # of `workdir`
    agent: Agent | None = None
    queues: tuple[str, ...] = ("default",)
    partitions: int = 1
    name: str = field(default_factory=unique_name)
    claimant: str = ""  # name for claims if several controllers work on this host
    once: bool = False  # stop after one step
    is_strict: bool = False  # a change of a file that the step may not change is a violation, and is not put back
    mutants: int = 0  # number of mutants of each change; its failing tests run on them
    heartbeat_s: float = 20.0  # a third of the lease's 60 s
    agent_timeout_s: float = 900.0  # the planner's time for a claimed attempt, without its verification
    worktrees: Path | None = None  # where worktrees are made; None: the system's temporary directory
    sandbox: SandboxMode = SandboxMode.AUTO  # whether agents and verifications are confined
    agent_user: User | None = None  # user of agents and verifications, if it is another one
    agent_env: tuple[str, ...] = ()  # further variables of ours for agents
    agent_paths: tuple[PathGrant, ...] = ()  # paths for agents in addition to worktree and system
    tool_paths: tuple[PathGrant, ...] = ()  # paths for verifications, and for the agent, too
    tool_network: bool = False  # whether verifications of `workdir` may reach the network
    holdout: Path | None = None  # a folder of tests that no agent gets, each by its digest
    logs: LogsFolder | None = None  # where records of attempts are kept
    sends_transcripts: bool = False  # to the planner, truncated, in addition to `logs`
    secrets: tuple[str, ...] = ()  # left out of both, next to texts that look like secrets
    hidden: tuple[Path, ...] = ()  # paths that neither may reach, although they are in one of those

    @property
    def all_queues(self) -> tuple[str, ...]:
        """The queues that the controller reads; with the queue of deliveries if its file permits any."""
        delivers = self.repositories is not None and self.repositories.delivers
        return tuple(dict.fromkeys((*self.queues, *([DELIVERIES] if delivers else ()))))
