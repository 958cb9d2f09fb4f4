"""Plays a story on a separate fleet and server, and removes everything afterwards in any case."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

from redis import Redis
from redis.exceptions import RedisError
from rich.console import Console

from schemas import codec
from schemas.api_key import ApiKey, Right
from schemas.envelope import Problem
from tasks.base.errors import PlannerError
from worker.demo.fleet import DemoAgent, Fleet
from worker.demo.progress import Progress
from worker.demo.render import draw_svg, show_end, viewer
from worker.demo.session import Session
from worker.demo.story import DemoFailed, Story, load_story
from worker.host import embedded_server, nearby_server
from worker.host.git import GitError
from worker.host.stop_signals import heard
from worker.host.terminal import Terminal, document
from worker.settings.settings import Settings, load
from worker.store import api_keys, clients
from worker.store.keys import Partition

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PREFIX = "planner-demo-"  # of its directory
TAIL_LINES = 12  # of a log, once something went wrong
INTERRUPTED = 130  # as in shells
FAILURES = (PlannerError, RedisError, GitError, OSError, subprocess.SubprocessError)
PAGE_NEEDS = ("fastapi", "jinja2", "uvicorn")


def run(
    kind: str,
    *,
    as_json: bool,
    keep: bool,
    console: Console,
    svg: Path | None = None,
    agent: DemoAgent | None = None,
    with_page: bool = False,
) -> int:
    """Play the demo of a kind. Returns 0 only if the plan completed and the tests pass.

    `as_json` prints one JSON object and nothing else. `keep` leaves the directory. `svg` draws the end into a file.
    `agent` works in place of the scripted one. `with_page` serves the gateway's page meanwhile and until ^C.
    """
    story = load_story(kind)
    summary = f"{agent.command} planned it, reviewed it and carried it out." if agent else story.summary
    stderr = Terminal(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        with _interruptible(), ExitStack() as stack:
            if keep:
                name = mkdtemp(prefix=PREFIX)
                stderr.print(f"The demo is played in {name}, which stays.")
            else:
                name = stack.enter_context(TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True))
            progress = Progress(Path(name), kind, summary)
            problem = _play(story, progress, console, agent, as_json=as_json, with_page=with_page)
            if problem:
                _print_problem(problem, progress.home, stderr)
            elif svg:
                draw_svg(progress, svg)
            if as_json:
                result = progress.as_json() | ({"problem": problem.model_dump(mode="json")} if problem else {})
                document(codec.pretty(result).decode())
            elif not problem and not with_page:
                show_end(progress, console)
    except KeyboardInterrupt:
        stderr.print("Interrupted; everything was cleared away.")
        return INTERRUPTED
    return 1 if problem else 0


def _play(
    story: Story, progress: Progress, console: Console, agent: DemoAgent | None, *, as_json: bool, with_page: bool
) -> Problem | None:
    """Play the story. Returns the problem, if there was one.

    With its page, the end is shown before everything is removed.
    """
    if missing := _missing(story.needs) or (_missing_for_page() if with_page else None):
        return Problem.of("demo_needs", missing)
    try:
        settings = load()
        with ExitStack() as stack:
            url, environment = _server(stack, settings, progress.home)
            client = stack.enter_context(clients.connect(url))
            client.ping()
            queue = f"demo-{token_hex(4)}"  # so that another fleet of the same server does not interfere
            if url == settings.redis_url:
                _check_unused(client, story.queues, settings.partitions)
                stack.callback(_delete_queues, client, (queue, *story.queues), settings.partitions)
            processes = Fleet(progress.home, environment)
            stack.callback(processes.stop)
            shown = stack.enter_context(_serve_page(processes, client, settings)) if with_page else None
            if shown:
                console.print(f"In a browser: {shown.address}\nThis key signs in: {shown.token}\n", soft_wrap=True)
            with (view := viewer(console, as_json=as_json)):
                story.play(Session(story, progress, view, processes, client, settings.partitions, queue, agent))
            if shown:
                show_end(progress, console)
                console.print(f"\nThe page stays at {shown.address} until Ctrl-C.")
                _wait_for_interrupt()
    except FAILURES as error:
        return Problem.of("demo_failed", str(error), status=500)
    return None


def _missing(needs: Sequence[str]) -> str | None:
    """Return the first missing requirement of the demo, and how to install it."""
    if lacking := next((name for name in needs if not find_spec(name)), None):
        how = f"{sys.executable} -m pip install 'planner-worker[demo]'"
        return f"The demo runs {lacking}, which is not installed: {how}"
    return None if shutil.which("git") else "The demo works on a git repository, and git is not installed."


def _server(stack: ExitStack, settings: Settings, home: Path) -> tuple[str, dict[str, str]]:
    """Return the URL of the configured server or a new one, and the environment for processes."""
    if "redis_url" in settings.model_fields_set:
        return settings.redis_url, dict(os.environ)
    url = stack.enter_context(embedded_server.valkey(home / "valkey"))
    others = {name: value for name, value in os.environ.items() if name != "PLANNER_BROKER_URL"}
    return url, {**others, "PLANNER_REDIS_URL": url}


def _check_unused(client: Redis, queues: Sequence[str], partitions: int) -> None:
    """Raise DemoFailed if a queue is in use on this server: its steps are not for our scripts."""
    for queue in queues:
        if any(client.exists(Partition(number).steps(queue)) for number in range(partitions)):
            raise DemoFailed(f"The queue {queue} of this server is in use; run the demo without PLANNER_REDIS_URL.")


def _delete_queues(client: Redis, queues: Sequence[str], partitions: int) -> None:
    """Delete our queues on a server that is not ours."""
    with suppress(RedisError):
        for queue in queues:
            for number in range(partitions):
                client.delete(Partition(number).steps(queue))


def _print_problem(problem: Problem, home: Path, stderr: Console) -> None:
    """Print the problem, and the last lines of the processes' logs."""
    stderr.print(problem.detail, style="bold red")
    for log in sorted(home.glob("logs/*.log")):
        stderr.print(f"\n{log.name} ends:", style="bold")
        stderr.print("\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:]))


@contextmanager
def _interruptible() -> Iterator[None]:
    """End the story at the first ^C, SIGTERM or closed terminal; further ones do not disturb the cleanup."""

    def interrupt(*_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in heard(*SIGNALS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class DemoPage(NamedTuple):
    """The address of the page, and a key to sign in."""

    address: str
    token: str


def _missing_for_page() -> str | None:
    """Return the first missing package for the page; None if there is none."""
    lacking = next((name for name in PAGE_NEEDS if not find_spec(name)), None)
    return (
        f"The page needs {lacking}, which is not installed: pip install 'planner-worker[gateway]'" if lacking else None
    )


@contextmanager
def _serve_page(processes: Fleet, client: Redis, settings: Settings) -> Iterator[DemoPage]:
    """Start a gateway for the demo, at PLANNER_GATEWAY_PORT or, if that is taken, another port."""
    key = ApiKey(key_id=f"demo{token_hex(4)}", rights=(Right.ADMIN,))
    with nearby_server.listen(settings.gateway_port) as listener:  # browsers wait in it until the gateway takes them
        token = api_keys.add(client, key)
        try:
            processes.start_gateway(listener)
            yield DemoPage(f"http://127.0.0.1:{listener.getsockname()[1]}/", token)
        finally:
            with suppress(RedisError):
                api_keys.revoke(client, key.key_id)


def _wait_for_interrupt() -> None:
    """Return at the first ^C, SIGTERM or closed terminal."""
    with suppress(KeyboardInterrupt):
        while True:
            signal.pause()
