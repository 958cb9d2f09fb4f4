"""What keeps this host, or the provider of its model, from a step: looked for before the work.

Such a step is handed back with the reason; it has not failed.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.agents.agent import Agent
from worker.host.git import GitError
from worker.sandbox.process import Job
from worker.sandbox.sandbox import Sandbox

VERSION_S = 60.0
VERSION_CHARS = 500
INTERPRETERS = re.compile(r"(?:python[0-9.]*|node|deno|bun|ruby|perl|php|(?:ba|z|da)?sh)")
log = logging.getLogger("planner.controller")

_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")


class CannotWork(Exception):
    """The step cannot be done here now; the message is the reason."""


class StepTrouble(CannotWork):
    """The step cannot be done here, which says nothing of any other: somebody named what is not to be had."""


class UnknownCommit(StepTrouble, GitError):
    """A commit is not here, nor at the remote."""


class ProviderTrouble(CannotWork):
    """The provider of the agent's model is not there for us: too many requests, an expired login, an outage."""


class RemoteTrouble(CannotWork, GitError):
    """The remote of a repository does not answer, or refuses us."""


def agent_trouble(argv: Sequence[str]) -> str | None:
    """Say why the command `argv` of an agent cannot be started here, if that can be known."""
    if not argv:
        return None
    if not shutil.which(argv[0]):
        return f"{argv[0]}: there is no such program on PATH that may be run"
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    if INTERPRETERS.fullmatch(Path(argv[0]).name) and script.startswith("/") and not Path(script).exists():
        return f"{script}: there is no such file"
    return None


def start_trouble(agent: Agent, sandbox: Sandbox) -> str | None:
    """Say why the program of `agent` does not run here, in the sandbox that it will have."""
    if trouble := agent_trouble(agent.argv):
        return trouble
    if not agent.version:
        return None
    with TemporaryDirectory(prefix="planner-version-") as folder:
        if sandbox.user:
            sandbox.user.own(Path(folder))
        job = Job(agent.version, Path(folder), VERSION_S, lambda: True, env=agent.variables_of_run())
        done = sandbox.with_grants(*agent.grants()).run(job, writable=(Path(folder),))
    if done.exit_code:
        tail = f"{done.stdout}\n{done.stderr}".strip()[-VERSION_CHARS:]
        return f"{agent.name}: `{shlex.join(agent.version)}` ended with {done.exit_code} in the agent's sandbox: {tail}"
    log.info("agent_ready", extra={"agent": agent.name, "version": done.stdout.strip()[:VERSION_CHARS]})
    return None


def is_of(wanted: str, names: Iterable[str]) -> bool:
    """Say whether `wanted`, such as `acme/shop` or a URL, is one of the repositories that `names` tell of.

    A path of this machine does not say whose a repository is: its last word is compared.
    """
    asked = place_of(wanted)
    for name in names:
        known = place_of(name)
        if known == asked or known.endswith(f"/{asked}"):
            return True
        if name.startswith(("/", "file:")) and known.rpartition("/")[2] == asked.rpartition("/")[2]:
            return True
    return False


def place_of(name: str) -> str:
    """Reduce the name or URL of a repository to what is the same however it is reached, such as `host/acme/shop`."""
    return "/".join(filter(None, host_and_path(name))).casefold()


def host_and_path(name: str) -> tuple[str, str]:
    """Split the name or URL of a repository into its host, if it tells one, and its path, such as `acme/shop`."""
    host, path = "", name.strip()
    if "://" in path:
        host, _, path = path.partition("://")[2].partition("/")
        host = host.rpartition("@")[2].partition(":")[0]
    elif found := _SCP.fullmatch(path):
        host, path = found[1], found[2]
    return host, path.strip("/").removesuffix(".git")
