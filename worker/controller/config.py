"""How one controller is told to work."""

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
    """Name this controller by host, process and a random part: no two may share a consumer."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """A controller of `queues` in the first `partitions` partitions.

    It works on the git repository `workdir`, or on those of the file `repositories`, in clones of its own.
    Without an `agent` there are only test steps.
    """

    redis_url: str = ""
    gateway: Settings | None = None  # which name a gateway and its key, in place of `redis_url`
    workdir: Path = Path()
    repositories: RepositoriesFile | None = None
    setup: Setup | None = None  # of `workdir`
    agent: Agent | None = None
    queues: tuple[str, ...] = ("default",)
    partitions: int = 1
    name: str = field(default_factory=unique_name)
    claimant: str = ""  # whom attempts are claimed as, where several work side by side here: one host, however many
    once: bool = False  # end after one step
    is_strict: bool = False  # a change of a file that the step may not change is a violation, and is not put back
    mutants: int = 0  # of each change, on which its failing tests are run again
    heartbeat_s: float = 20.0  # a third of the lease's 60 s
    agent_timeout_s: float = 900.0  # what the planner grants a claimed attempt beside its verification
    worktrees: Path | None = None  # where worktrees are made; None: the system's temporary directory
    sandbox: SandboxMode = SandboxMode.AUTO  # whether agents and verifications are confined
    agent_user: User | None = None  # whom agents and verifications run as, where that is not us
    agent_env: tuple[str, ...] = ()  # variables of ours that agents have beside the basic ones and their own
    agent_paths: tuple[PathGrant, ...] = ()  # what the agent may reach beside its worktree and the system
    tool_paths: tuple[PathGrant, ...] = ()  # what the verifications may, and the agent too
    tool_network: bool = False  # whether verifications of `workdir` may reach the network
    holdout: Path | None = None  # a folder of tests that no agent gets, each by its digest
    logs: LogsFolder | None = None  # where what was done in attempts is kept
    sends_transcripts: bool = False  # to the planner, cut, beside what `logs` keeps
    secrets: tuple[str, ...] = ()  # which are not, beside what looks like one
    hidden: tuple[Path, ...] = ()  # what neither may reach, although it lies in one of those

    @property
    def all_queues(self) -> tuple[str, ...]:
        """Name what it reads: deliveries too, where its file permits one."""
        delivers = self.repositories is not None and self.repositories.delivers
        return tuple(dict.fromkeys((*self.queues, *([DELIVERIES] if delivers else ()))))
