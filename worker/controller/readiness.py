"""Reasons on this host, or at its model's provider, that prevent a step; checked before the work.

Such a step is returned to the planner with the reason; it has not failed.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from schemas.outcome import ReleaseKind
from worker.agents.agent import Agent
from worker.host.git import GitError
from worker.sandbox.process import Job
from worker.sandbox.sandbox import Sandbox

VERSION_S = 60.0
VERSION_CHARS = 500
INTERPRETERS = re.compile(r"(?:python[0-9.]*|node|deno|bun|ruby|perl|php|(?:ba|z|da)?sh)")
log = logging.getLogger("planner.controller")


class CannotWork(Exception):
    """The step cannot be done here now; the message is the reason."""

    kind = ReleaseKind.HOST


class StepTrouble(CannotWork):
    """This step cannot be done here, because it names something that is missing; other steps are not affected."""


class NotUnderstood(StepTrouble):
    """The step requires additions to its spec that this controller does not support."""

    kind = ReleaseKind.REQUIRES


class ReviewIsFull(StepTrouble):
    """People have as many open changes or lines to review in the repository as its operator permits."""

    kind = ReleaseKind.REVIEW


class NotVerifiable(CannotWork):
    """A tool of the verification could not run here; that may affect every step of the repository."""


class UnknownCommit(StepTrouble, GitError):
    """A commit is neither here nor at the remote."""


class SetupFailed(CannotWork):
    """The setup command of a repository failed."""


class ProviderTrouble(CannotWork):
    """The provider of the agent's model does not serve us: too many requests, an expired login, an outage."""

    kind = ReleaseKind.PROVIDER


class RemoteTrouble(CannotWork, GitError):
    """The remote of a repository does not answer, or refuses access."""


def agent_trouble(argv: Sequence[str]) -> str | None:
    """Return why the command `argv` of an agent cannot be started here, as far as that can be checked."""
    if not argv:
        return None
    if not shutil.which(argv[0]):
        return f"{argv[0]}: there is no such program on PATH that may be run"
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    if INTERPRETERS.fullmatch(Path(argv[0]).name) and script.startswith("/") and not Path(script).exists():
        return f"{script}: there is no such file"
    return None


def start_trouble(agent: Agent, sandbox: Sandbox, variables: Sequence[str] = ()) -> str | None:
    """Return why the program of `agent` does not run here, in its sandbox and with its variables; None if it does."""
    if trouble := agent_trouble(agent.argv):
        return trouble
    if not agent.version:
        return None
    with TemporaryDirectory(prefix="planner-version-") as folder:
        if sandbox.user:
            sandbox.user.own(Path(folder))
        job = Job(agent.version, Path(folder), VERSION_S, lambda: True, env=agent.variables_of_run(variables))
        done = sandbox.with_grants(*agent.grants()).run(job, writable=(Path(folder),))
    if done.exit_code:
        tail = f"{done.stdout}\n{done.stderr}".strip()[-VERSION_CHARS:]
        return f"{agent.name}: `{shlex.join(agent.version)}` ended with {done.exit_code} in the agent's sandbox: {tail}"
    log.info("agent_ready", extra={"agent": agent.name, "version": done.stdout.strip()[:VERSION_CHARS]})
    return None
