"""Counts the code that a message enters: `uv run python -m tests.tools.trace_message`.

One worker's parts run in this process on an embedded server, and three messages are followed from the stream to the
last reply of the server: a goal of kind `task`, a success that changes nothing but its plan, and a failure that is
answered with another attempt. For each the table has the source files and functions of schemas, tasks and worker that
were entered, and how often a call went from one file into another. Each message is followed the second time that one of
its kind comes, so that imports and caches of the process do not count. `--list MESSAGE` prints the functions by file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from redis import Redis

from tests.conftest import connect
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import answer, publish, report, specs
from tests.support.servers import Server
from worker.process.container import Container

ROOT = Path(__file__).resolve().parents[2]
RINGS = ("schemas", "tasks", "worker")
MESSAGES = ("task goal", "plain success", "failure with revision")
FILES = ["src/price.py", "tests/test_price.py"]
A_TASK = {
    "goal": "Fix failing test tests/test_price.py::test_total",
    "allowed_files": FILES,
    "context": {
        "repo": "acme/shop",
        "language": "python",
        "test_command": "pytest",
        "files": FILES,
        "failing_tests": ["tests/test_price.py::test_total"],
    },
}


class Trace:
    """The functions of the three rings that were entered, by file, and the calls from one file into another."""

    def __init__(self) -> None:
        self.entered: dict[str, set[str]] = {}
        self.crossings = 0
        self._files: dict[str, str | None] = {}

    @property
    def functions(self) -> int:
        """How many functions were entered."""
        return sum(map(len, self.entered.values()))

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what this thread calls while the block lasts."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (here := self._file_of(frame.f_code)) is None:
            return
        self.entered.setdefault(here, set()).add(f"{frame.f_code.co_firstlineno} {frame.f_code.co_qualname}")
        caller = frame.f_back
        while caller and self._file_of(caller.f_code) is None:  # a library between two of our own
            caller = caller.f_back
        self.crossings += bool(caller and self._file_of(caller.f_code) != here)

    def _file_of(self, code: CodeType) -> str | None:
        name = code.co_filename
        if name not in self._files:
            path = Path(name)
            inside = path.is_relative_to(ROOT) and path.relative_to(ROOT)
            self._files[name] = str(inside) if inside and inside.parts[0] in RINGS else None
        return self._files[name]


def follow(here: Container, redis: Redis) -> dict[str, Trace]:
    """Send each message twice; returns what the second of each entered."""
    return {
        "task goal": _second(lambda: _plan_task(here, redis)),
        "plain success": _second(lambda: _succeed(here, redis)),
        "failure with revision": _second(lambda: _fail(here, redis)),
    }


def _second(send: Callable[[], Trace]) -> Trace:
    send()
    return send()


def _plan_task(here: Container, redis: Redis) -> Trace:
    publish(redis, A_TASK)
    return _followed(lambda: plan(here, redis))


def _succeed(here: Container, redis: Redis) -> Trace:
    spec = _first_spec(here, redis, a_goal(10))
    report(redis, answer(spec))  # from here on the worker knows the plan
    drain(here)
    report(redis, answer(_of_plan(redis, spec)))
    return _followed(lambda: drain(here))


def _fail(here: Container, redis: Redis) -> Trace:
    goal = a_goal(3)
    for step in goal["steps"]:
        step |= {"verify": "pytest -q", "retry_limit": 3}
    spec = _first_spec(here, redis, goal)
    report(redis, answer(spec))
    drain(here)
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": ["tests/test_price.py::test_total"]}
    report(redis, answer(_of_plan(redis, spec), success=False, failure_evidence=evidence))
    return _followed(lambda: drain(here))


def _followed(work: Callable[[], object]) -> Trace:
    trace = Trace()
    with trace.following():
        work()
    return trace


def _first_spec(here: Container, redis: Redis, goal: dict[str, Any]) -> dict[str, Any]:
    plan_id = plan(here, redis, goal)[-1]
    return next(spec for spec in specs(redis) if spec["plan_id"] == plan_id)


def _of_plan(redis: Redis, spec: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in specs(redis) if each["plan_id"] == spec["plan_id"])


def main() -> int:
    """Print the table, or the functions of one message."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.trace_message", description=__doc__)
    parser.add_argument("--list", choices=MESSAGES, help="print the functions that this message enters, by file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "server")
        server.start()
        try:
            with container(server.url) as here, connect(server.url) as redis:
                traces = follow(here, redis)
        finally:
            server.kill()
    if arguments.list:
        for name, functions in sorted(traces[arguments.list].entered.items()):
            sys.stdout.write(f"{name}\n" + "".join(f"    {each}\n" for each in sorted(functions)))
        return 0
    sys.stdout.write("| message | files | functions | calls into another file |\n|---|---|---|---|\n")
    for name, trace in traces.items():
        sys.stdout.write(f"| {name} | {len(trace.entered)} | {trace.functions} | {trace.crossings} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
