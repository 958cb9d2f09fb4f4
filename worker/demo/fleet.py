"""The processes of the demo: they log into files, and none outlives the demo."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from worker.agents.agent import WrongAgent, command_agent, is_named, named_agent
from worker.controller.readiness import agent_trouble
from worker.process.launch import gateway_command, worker_command
from worker.sandbox.paths import PathGrant, WrongPath
from worker.sandbox.process import SOURCES

GRACE_S = 4.0  # between SIGTERM and SIGKILL
PLANNER = ("-c", "from worker.start import planner; planner()")  # the command `planner`, also if it is not on the path
PACKAGES = ("schemas", "tasks", "worker")
AGENT = "worker.demo.agent"
PROVIDERS = (  # of models, as the variables for their logins, addresses and models begin
    *("ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "AZURE_OPENAI_", "GEMINI_", "GOOGLE_API_KEY", "MISTRAL_"),
    *("OPENROUTER_", "GROQ_", "XAI_", "DEEPSEEK_", "COHERE_", "CEREBRAS_", "TOGETHER_", "FIREWORKS_", "OLLAMA_"),
)
CONTROLLERS = ("controller-1", "controller-2")


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """The agent that replaces the scripted one: its name, its data file, or a command that receives the prompt."""

    command: str
    paths: tuple[str, ...] = ()  # paths that it may reach, such as its login
    variables: tuple[str, ...] = ()  # further variables of ours for it

    @property
    def fault(self) -> str | None:
        """Why the agent cannot run, or cannot have its paths; None if it can."""
        try:
            self.command.encode()
            trouble = self._trouble()
        except (WrongAgent, UnicodeEncodeError) as error:
            return f"--agent: {error}."
        if trouble:
            return f"--agent: {trouble}."
        try:
            for path in self.paths:
                PathGrant.parse(path)
        except WrongPath as error:
            return f"--agent-path {error}."
        return None

    def _trouble(self) -> str | None:
        """Return why the agent's program is not found; None if it is. Raises WrongAgent if `command` is no agent."""
        if is_named(self.command):
            return agent_trouble(named_agent(self.command).argv)
        command = command_agent(self.command)
        if command is None:
            return "there is no command"
        program = command.argv[0]
        return None if shutil.which(_found(program)) else f"{program} is no program that is found here"

    def write(self, home: Path) -> str:
        """Return the value for `planner controller --agent`; a command gets a data file in `home`."""
        if is_named(self.command):
            return str(Path(self.command).expanduser().resolve()) if self.command.endswith(".toml") else self.command
        words = [_found(word) for word in shlex.split(self.command)]
        variables = [name for name in os.environ if name.startswith(PROVIDERS) and name.isidentifier()]
        data = {"argv": words, "stdin": "prompt", "reader": "report", "variables": variables}
        path = home / "agent.toml"
        path.write_text("".join(f"{name} = {_as_toml(value)}\n" for name, value in data.items()), encoding="utf-8")
        return str(path)


def _as_toml(value: object) -> str:
    """Return strings as in JSON, but without pairs of surrogates and with DEL escaped, as TOML requires."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _found(word: str) -> str:
    """Return a file of the current folder with a path that works everywhere."""
    return str(Path(word).resolve()) if ("/" in word or "." in word) and Path(word).is_file() else word


class Fleet:
    """A worker and two controllers in the directory `home`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home, self._environment = home, {**environment, "TMPDIR": str(home / "tmp")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._sources = home / "sources"  # links to our packages: agents may not list where we are installed
        for name in ("logs", "tmp", "sources"):
            (home / name).mkdir()
        for package in PACKAGES:
            (self._sources / package).symlink_to(Path(SOURCES) / package)

    def start_worker(self, **settings: str) -> None:
        """Start the Celery worker of `planner worker --pool solo`, with these additional variables."""
        self._start("worker", worker_command("solo")[1:], settings)

    def start_controllers(self, root: Path, queues: Sequence[str], kind: str, agent: DemoAgent | None = None) -> None:
        """Start two `planner controller` for `queues` on the repository `root`, with the scripted agent of a kind, or
        another one."""
        command = shlex.join((sys.executable, "-P", "-m", AGENT, kind))  # -P: regardless of the repository's folders
        options = ["--agent", agent.write(self._home)] if agent else ["--exec", command, "--agent-env", "PYTHONPATH"]
        options += ["--workdir", str(root), *(f"--queue={queue}" for queue in queues)]
        paths: Iterable[Path | str] = (self._sources, *(Path(SOURCES) / name for name in PACKAGES))
        options += [f"--agent-path={path}" for path in (agent.paths if agent else paths)]
        options += [f"--agent-env={name}" for name in (agent.variables if agent else ())]
        for name in CONTROLLERS:
            self._start(name, (*PLANNER, "controller", "--name", name, *options), {"PYTHONPATH": str(self._sources)})

    def start_gateway(self, listener: socket) -> None:
        """Start the process of `planner gateway` on the connections of a socket."""
        self._start("gateway", gateway_command(listener.fileno())[1:], {}, (listener.fileno(),))

    def find_ended(self) -> str | None:
        """Return the name of a process that has ended unexpectedly."""
        return next((name for name, process in self._running.items() if process.poll() is not None), None)

    def stop(self) -> None:
        """Stop all processes: SIGTERM first, SIGKILL for those that remain after GRACE_S."""
        for process in self._running.values():
            _signal(process, signal.SIGTERM)
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            _signal(process, signal.SIGKILL)
            process.wait()

    def _start(
        self, name: str, argv: Sequence[str], settings: Mapping[str, str], inherited: tuple[int, ...] = ()
    ) -> None:
        """Start Python with `argv` in a separate session: ^C reaches only this process, which then stops them."""
        with (self._home / "logs" / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *argv],
                cwd=self._home,
                env={**self._environment, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=inherited,
            )


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
