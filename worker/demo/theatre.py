"""Sets the stage of the demo, has the story played, and clears everything away, whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rich.console import Console

from schemas import codec
from schemas.envelope import Problem
from tasks.base.errors import PlannerError
from worker.demo.audience import audience
from worker.demo.finale import draw_svg, show_end
from worker.demo.fleet import fleet, tails
from worker.demo.scene import Scene
from worker.demo.stage import DemoFailed, Stage
from worker.host import embedded_server
from worker.host.git import GitError
from worker.host.terminal import Terminal, document
from worker.settings.settings import Settings, load
from worker.store import clients
from worker.store.keys import Partition

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NEEDS = ("pytest",)  # what a story runs; one that runs more says so
INTERRUPTED = 130  # as a shell says it
FAILURES = (PlannerError, RedisError, GitError, OSError, subprocess.SubprocessError)


def play(kind: str, *, as_json: bool, keep: bool, console: Console, svg: Path | None) -> int:
    """Play the demo and show how it ended; returns the exit code."""
    story = import_module(f"worker.demo.{kind}")
    aside = Terminal(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        with _interruptible(), _home(keep=keep) as home:
            if keep:
                aside.print(f"The demo is played in {home}, which stays.")
            problem = _perform(scene := Scene(home, kind, story.MORAL), story, console, as_json=as_json)
            if problem:
                _lament(problem, home, aside)
            elif svg:
                draw_svg(scene, svg)
            if as_json:
                document(codec.pretty(_result(scene, problem)).decode())
            elif not problem:
                show_end(scene, console)
    except KeyboardInterrupt:
        aside.print("Interrupted; everything was cleared away.")
        return INTERRUPTED
    return 1 if problem else 0


def _perform(scene: Scene, story: Any, console: Console, *, as_json: bool) -> Problem | None:
    """Play the story on its stage; returns what went wrong."""
    if missing := _missing(getattr(story, "NEEDS", NEEDS)):
        return Problem.of("demo_needs", missing)
    try:
        settings = load()
        with ExitStack() as stage:
            url, environment = _server(stage, settings, scene.home)
            client = stage.enter_context(clients.connect(url))
            client.ping()
            queue = f"demo-{token_hex(4)}"  # so that a fleet which works for the same server stays out of this
            if url == settings.redis_url:
                stage.callback(_forget, client, queue, settings.partitions)
                for own in getattr(story, "QUEUES", ()):  # the story's kind gives its queues their names
                    _claim(client, own, settings.partitions)
                    stage.callback(_forget, client, own, settings.partitions)
            processes = stage.enter_context(fleet(scene.home, environment))
            stage.enter_context(viewer := audience(console, as_json=as_json))
            story.play(Stage(scene, viewer, processes, client, settings.partitions, queue))
    except FAILURES as error:
        return Problem.of("demo_failed", str(error), status=500)
    return None


def _missing(needs: Iterable[str]) -> str | None:
    """Name the first thing that the demo cannot do without, and how to get it."""
    if lacking := next((name for name in needs if not find_spec(name)), None):
        how = f"{sys.executable} -m pip install 'planner-worker[demo]'"
        return f"The demo runs {lacking}, which is not installed: {how}"
    return None if shutil.which("git") else "The demo works on a git repository, and git is not installed."


def _server(stage: ExitStack, settings: Settings, home: Path) -> tuple[str, dict[str, str]]:
    """Take the server that the settings name, else start one; returns its URL and the processes' environment."""
    if "redis_url" in settings.model_fields_set:
        return settings.redis_url, dict(os.environ)
    url = stage.enter_context(embedded_server.valkey(home / "valkey"))
    others = {name: value for name, value in os.environ.items() if name != "PLANNER_BROKER_URL"}
    return url, {**others, "PLANNER_REDIS_URL": url}


def _claim(client: Redis, queue: str, partitions: int) -> None:
    """Leave a queue alone that somebody else works for: their steps are not for our scripts."""
    if any(client.exists(Partition(number).steps(queue)) for number in range(partitions)):
        raise DemoFailed(f"The queue {queue} of this server is in use; run the demo without PLANNER_REDIS_URL.")


def _forget(client: Redis, queue: str, partitions: int) -> None:
    """Leave no queue of ours on a server that is not ours."""
    with suppress(RedisError):
        for number in range(partitions):
            client.delete(Partition(number).steps(queue))


def _result(scene: Scene, problem: Problem | None) -> dict[str, Any]:
    return {
        "kind": scene.kind,
        "completed": scene.completed and scene.completed.model_dump(mode="json"),
        "rejected": scene.rejected and scene.rejected.model_dump(mode="json"),
        "diff": scene.diff,
        "tests_passed": scene.tests_passed,
        "seconds": round(scene.seconds, 1),
        **({"problem": problem.model_dump(mode="json")} if problem else {}),
    }


def _lament(problem: Problem, home: Path, aside: Console) -> None:
    """Say what went wrong, and what the processes said last."""
    aside.print(problem.detail, style="bold red")
    for name, lines in tails(home):
        aside.print(f"\n{name}.log ends:", style="bold")
        aside.print("\n".join(lines))


@contextmanager
def _home(*, keep: bool) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="planner-demo-"))
    try:
        yield home
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let the first ^C, SIGTERM or closed terminal end the story; more do not disturb the clearing away."""

    def interrupt(*_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup means it
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
