"""`planner controller`: processes that give steps to an agent."""

from __future__ import annotations

import logging
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from shutil import which
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.agent_variables import AgentEnv, agent_variables
from worker.cli.console import FAILED, OK, USAGE, Failure, SecretsFd, command, planner_settings, refused

if TYPE_CHECKING:
    from worker.agents.agent import Agent
    from worker.controller import ControllerConfig
    from worker.controller.logs_folder import LogsFolder
    from worker.controller.repositories_file import RepositoriesFile
    from worker.controller.setup import Setup
    from worker.sandbox.paths import PathGrant
    from worker.sandbox.user import User
    from worker.settings.settings import Settings


OFF = "off"


class SandboxChoice(StrEnum):
    """Whether agents and verifications are confined.

    It repeats the choices of `worker.sandbox`, so that `--help` need not import that.
    """

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


@command
def controller(
    command_line: Annotated[
        str, typer.Option("--exec", "-x", metavar="CMD", help="The agent's command; without an agent, only tests run.")
    ] = "",
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="The agent: claude, codex, or a data file; `command` is that of --exec."
        ),
    ] = None,
    workdir: Annotated[
        Path, typer.Option("--workdir", "-C", exists=True, file_okay=False, help="The git repository to work on.")
    ] = Path(),
    repos: Annotated[
        Path | None, typer.Option("--repos", metavar="FILE", help="A file of repositories, instead of --workdir.")
    ] = None,
    setup: Annotated[
        str,
        typer.Option(
            metavar="CMD", help="The command that sets a clone of --workdir up, such as 'uv sync'; runs as the agent."
        ),
    ] = "",
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="The queue to read; repeatable.")] = None,
    name: Annotated[str | None, typer.Option(help="Its name among the consumers; unique.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=64, help="The number of controllers.")] = 1,
    once: Annotated[bool, typer.Option("--once", help="End after one step.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="A change of a file that the step may not change is a violation.")
    ] = False,
    mutate: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=20, help="Put N mistakes into each change; report those that its tests miss."
        ),
    ] = 0,
    agent_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH[:rw]", help="A path that the agent may read or write, such as its login; repeatable."
        ),
    ] = None,
    agent_env: AgentEnv = None,
    tool_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH[:rw]", help="The same for verifications and the agent, such as a cache of packages."
        ),
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", exists=True, file_okay=False, help="Folders and archives of tests that no agent gets."
        ),
    ] = None,
    tool_network: Annotated[
        bool, typer.Option("--tool-network", help="Verifications of --workdir may reach the network.")
    ] = False,
    sandbox: Annotated[
        SandboxChoice | None, typer.Option(help="Confine agents and verifications. Default: PLANNER_SANDBOX.")
    ] = None,
    agent_user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|UID", help="As root: the user of agents and verifications. Default: PLANNER_AGENT_USER."
        ),
    ] = None,
    logs: Annotated[
        str | None,
        typer.Option(metavar="DIR|off", help="The folder of attempts. Default: `attempts` in PLANNER_STATE_DIR."),
    ] = None,
    logs_days: Annotated[float, typer.Option(min=0, help="The days to keep attempts.")] = 14,
    logs_size: Annotated[
        float,
        typer.Option(metavar="GB", min=0, help="The total size of kept attempts; the oldest are deleted above it."),
    ] = 2,
    send_transcripts: Annotated[
        bool, typer.Option("--send-transcripts", help="Send the output of agents to the planner: 64 kB an attempt.")
    ] = False,
    secrets_fd: SecretsFd = None,
) -> int:
    """Run controllers: each runs an agent for a step, verifies the change, and reports.

    [b]planner controller --agent claude --workdir ~/src/shop --count 4[/b]

    [b]planner controller --exec "my-agent --quiet" --workdir ~/src/shop[/b]

    CMD reads the step spec on its standard input; docs/agents.md lists the input of other agents, such as their login.
    Each controller works in its own clone. Verified changes are committed to the branch planner/<plan id> of the
    repository. A step that drafts, explores or reviews has an `input` in its spec. The output of CMD, JSON or text, is
    then its answer. docs/controllers.md has the other forms of an answer. Ends on SIGTERM.

    If the kernel has Landlock, agents and verifications may read the system and write to their worktree. Name other
    paths that they need, such as a login in your home: [b]--agent-path ~/.my-agent:rw --tool-path ~/.npm:rw[/b]

    CMD has PATH, HOME, the language, the time zone, proxies and certificates of this environment, and variables that
    you name: [b]--agent-env MY_AGENT_KEY[/b]

    As root, run agents and verifications as an ordinary user. That user cannot read your files, even without Landlock:
    [b]--agent-user agent --agent-path /home/agent/.my-agent:rw[/b]

    The agent's output and change, and the verification, are stored for people: [b]planner attempt PLAN STEP[/b]
    """
    from schemas.step import DELIVERIES
    from worker.controller.config import ControllerConfig, unique_name
    from worker.sandbox.sandbox import NoSandbox, Sandbox, SandboxMode
    from worker.settings import credentials
    from worker.telemetry import tracing
    from worker.telemetry.logs import set_up_logs

    if repos and workdir != Path():
        raise Failure.of("two_places", "--repos names the repositories; --workdir says nothing beside it.", USAGE)
    if repos and tool_network:
        raise Failure.of("two_places", "--repos has `network` of each repository; leave --tool-network out.", USAGE)
    if repos and setup:
        raise Failure.of("two_places", "--repos names the setup of each repository; leave --setup out.", USAGE)
    if which("git") is None:
        raise Failure.of("no_git", "There is no git on the PATH; a controller needs 2.38 or newer.", USAGE)
    settings, repositories = planner_settings(secrets_fd), _repositories(repos)
    program = _agent(agent, command_line)
    if DELIVERIES in (queue or ()) and not (repositories and repositories.delivers):
        raise Failure.of("wrong_queue", "--queue deliver: no repository of --repos permits a delivery.", USAGE)
    credentials.protect()
    set_up_logs(settings.log_level)
    config = ControllerConfig(
        redis_url=settings.redis_url,
        gateway=settings if settings.url else None,
        workdir=workdir,
        repositories=repositories,
        setup=_setup(setup),
        agent=program,
        queues=tuple(queue or ("default",)),
        partitions=settings.partitions,
        once=once,
        is_strict=strict,
        mutants=mutate,
        name=name or unique_name(),
        sandbox=SandboxMode(sandbox or settings.sandbox),
        agent_env=agent_variables(agent_env),
        agent_paths=_grants("--agent-path", agent_path),
        tool_paths=_grants("--tool-path", tool_path),
        tool_network=tool_network,
        holdout=holdout.absolute() if holdout else None,
        logs=_logs(settings, logs, logs_days, logs_size),
        sends_transcripts=send_transcripts,
        secrets=_secrets(repositories),
        hidden=settings.private,
        agent_user=_user(agent_user or settings.agent_user),
    )
    with refused("no_sandbox", exit_code=FAILED, by=NoSandbox):
        Sandbox(config.sandbox, user=config.agent_user).check()
        _check_agents(config)
    with refused("wrong_settings", by=tracing.CannotTrace):
        tracing.start(settings, "planner-controller")
    try:
        return _run(config, count)
    finally:
        tracing.stop()


def _repositories(file: Path | None) -> RepositoriesFile | None:
    from worker.controller.repositories_file import RepositoriesFile, WrongRepositories

    with refused("wrong_repositories", by=WrongRepositories):
        return RepositoriesFile.read(file) if file else None


def _setup(command_line: str) -> Setup | None:
    from worker.controller.setup import Setup

    with refused("wrong_setup", "--setup ", by=ValueError):
        words = tuple(shlex.split(command_line))
    return Setup(words) if words else None


def _logs(settings: Settings, place: str | None, days: float, gigabytes: float) -> LogsFolder | None:
    """Return the folder for attempts; None if it is off or cannot be made.

    Raises Failure if the user named a folder that cannot be made.
    """
    from worker.controller.logs_folder import LogsFolder, logs_path

    if place == OFF:
        return None
    folder = LogsFolder(logs_path(settings.state, place), days, int(gigabytes * 1000**3))
    try:
        folder.make()
    except OSError as error:
        if place:
            raise Failure.of("wrong_logs", f"--logs {place}: {error.strerror or error}.", USAGE) from error
        logging.getLogger("planner.controller").warning("attempts_not_kept", extra={"error": str(error)})
        return None
    return folder


def _secrets(repositories: RepositoriesFile | None) -> tuple[str, ...]:
    """Return the values of the agents' variables with names like those of secrets, such as the key of a provider."""
    from worker.settings.credentials import NAMED_LIKE_SECRETS

    tables = repositories.repositories.values() if repositories else ()
    given = [os.environ, *(table.environment for table in tables)]
    return tuple(
        value
        for each in given
        for name, value in each.items()
        if NAMED_LIKE_SECRETS.search(name) and not value.isdigit()
    )


def _agent(name: str | None, command_line: str) -> Agent | None:
    from worker.agents.agent import COMMAND, WrongAgent, command_agent, named_agent
    from worker.controller.readiness import agent_trouble

    if name not in (None, COMMAND) and command_line:
        raise Failure.of("wrong_agent", f"--agent {name} has a command of its own: leave --exec out.", USAGE)
    if name == COMMAND and not command_line:
        raise Failure.of("wrong_agent", "--agent command needs --exec CMD.", USAGE)
    option = "--exec" if command_line else "--agent"
    with refused("wrong_agent", f"{option} ", ".", by=WrongAgent):
        found = command_agent(command_line) if name in (None, COMMAND) else named_agent(name)
    if found and (trouble := agent_trouble(found.argv)):
        raise Failure.of("wrong_agent", f"{option} {trouble}.", USAGE)
    return found


def _check_agents(config: ControllerConfig) -> None:
    """Run each agent's version command in its sandbox. Raises Failure if one does not work."""
    from worker.controller.places import sandbox_of_agents
    from worker.controller.readiness import start_trouble

    tables = config.repositories.repositories.values() if config.repositories else ()
    found = [config.agent, *(table.agent for table in tables)]
    for agent in {each.name: each for each in found if each}.values():
        if trouble := start_trouble(agent, sandbox_of_agents(config), config.agent_env):
            raise Failure.of("wrong_agent", f"{trouble}.", USAGE)


def _user(name: str | None) -> User | None:
    from worker.sandbox.user import User, WrongUser

    with refused("wrong_user", "--agent-user ", by=WrongUser):
        return User.find(name) if name else None


def _grants(option: str, texts: list[str] | None) -> tuple[PathGrant, ...]:
    from worker.sandbox.paths import PathGrant, WrongPath

    with refused("wrong_path", f"{option} ", ".", by=WrongPath):
        return tuple(map(PathGrant.parse, texts or ()))


def _run(config: ControllerConfig, count: int) -> int:
    """Run `count` controllers in threads: their work is in the agents' processes. Returns the worst exit code."""
    from worker.controller.loop import run
    from worker.host.stop_signals import stop_on_signals

    stop = Event()
    names = [config.name] if count == 1 else [f"{config.name}-{number}" for number in range(1, count + 1)]
    with stop_on_signals(stop), ThreadPoolExecutor(count) as pool:
        codes = pool.map(lambda name: run(replace(config, name=name, claimant=config.name), stop), names)
        return max(codes, default=OK)
