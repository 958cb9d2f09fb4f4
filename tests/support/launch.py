"""Starts a worker with changed constants, or with a stop at a chosen place, for tests that cannot wait.

`python -m tests.support.launch tasks.SILENT_MS=2000 worker.SWEEP_S=0.5 -- <arguments of celery>`: every module below
the package, or the module itself, that has the name gets the value. `stop=<plan id>` stops the process (SIGSTOP) once,
between begin and commit of a decision about that plan, and logs the verdicts of its commits. `die=<n>` kills it
(SIGKILL) at one commit in n, just before or just after the commit is sent. `newer=1` makes it a worker of a later
version, which adds a field to every record that it writes. `host=<name>` gives its host that name.
"""

from __future__ import annotations

import logging
import os
import pkgutil
import random
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from redis.exceptions import ResponseError

from schemas import codec, step
from schemas.step import PlannedStep
from schemas.stored import Attempt, PlanHead, PlanRecord, StepStatus
from schemas.stored import step as stored_step
from tasks.plan.changeset import PlainChange
from tasks.plan.unit_of_work import UnitOfWork
from worker.process.launch import worker_command
from worker.start import end_well_when_stopped
from worker.store.plans import PlanTalk, Write

log = logging.getLogger("planner.launch")

STOP, DIE, NEWER, HOST = "stop", "die", "newer", "host"
ADDED = {"newer": {"kept": [1]}}  # to every record by a worker of a version to come


def command(
    constants: Mapping[str, float],
    *,
    pool: str = "solo",
    queues: str | None = None,
    stop: str = "",
    die: int = 0,
    newer: bool = False,
    host: str = "",
) -> list[str]:
    """Lay out the command of a worker whose `constants` are others.

    It stops at a commit about the plan `stop`, dies at one commit in `die`, is of a `newer` version, runs on `host`.
    """
    whole = worker_command(pool, queues=queues)
    celery = whole[whole.index("worker.start") + 1 :]
    changed = [f"{name}={value}" for name, value in constants.items()]
    changed += [
        f"{STOP}={stop}",
        f"{DIE}={die}",
        *([f"{NEWER}=1"] if newer else []),
        *([f"{HOST}={host}"] if host else []),
    ]
    return [whole[0], "-m", "tests.support.launch", *changed, "--", *celery]


def main(arguments: Sequence[str]) -> None:
    """Replace the constants that the arguments name, then run celery.

    A signal before that ends it as it ends a worker.
    """
    end_well_when_stopped()
    end = arguments.index("--")
    for changed in arguments[:end]:
        name, _, value = changed.partition("=")
        if name == STOP and value:
            _stop_at(value)
        elif name == DIE and value != "0":
            _die_at_one_in(int(value))
        elif name == NEWER:
            _write_more()
        elif name == HOST:
            socket.gethostname = lambda called=value: called  # type: ignore[misc]
        elif name not in (STOP, DIE):
            _change(name, float(value) if "." in value else int(value))
    sys.argv = ["celery", *arguments[end + 1 :]]
    import_module("celery.__main__").main()


def _change(path: str, value: float) -> None:
    found = modules_with(path)
    if not found:
        sys.exit(f"there is no {path}: this test is out of date")
    for module in found:
        setattr(module, path.rpartition(".")[2], value)


def modules_with(path: str) -> list[ModuleType]:
    """Return the modules that define or import the constant `path`, such as tasks.SILENT_MS."""
    home, _, name = path.rpartition(".")
    return [module for module in _modules(home, name) if hasattr(module, name)]


def _modules(home: str, name: str) -> Iterator[ModuleType]:
    """Import the modules below `home` whose source contains `name`, and no `__main__`; to import all takes seconds."""
    top = import_module(home)
    yield top
    for found in pkgutil.walk_packages(getattr(top, "__path__", ()), home + "."):
        spec = find_spec(found.name)
        if spec and spec.origin and not found.name.endswith(".__main__") and name in Path(spec.origin).read_text():
            yield import_module(found.name)


def _stop_at(plan_id: str) -> None:
    """Have this process stop itself at the first commit that would change the plan; it logs verdicts from then on."""
    commit, verdicts, plans = PlanTalk.commit, PlanTalk.verdicts, {plan_id}

    def stopping(self: PlanTalk, writes: Sequence[Write | PlainChange]) -> None:
        changes = [write.changeset if isinstance(write, Write) else write for write in writes]
        if not plans.isdisjoint(one.plan_id for one in changes if isinstance(one, PlainChange) or one.changed):
            plans.clear()
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # sent to the process, it may stop too late
        commit(self, writes)

    def telling(self: PlanTalk) -> list[str | ResponseError]:
        found = verdicts(self)
        if not plans:
            log.info("verdicts", extra={"verdicts": list(map(str, found))})
        return found

    PlanTalk.commit, PlanTalk.verdicts = stopping, telling  # type: ignore[method-assign]


def _die_at_one_in(commits: int) -> None:
    """Have the process that commits kill itself now and then, before or after it sends the commit."""

    commit = PlanTalk.commit

    def or_die(self: PlanTalk, writes: Sequence[Write | PlainChange]) -> None:
        chance = random.random() * commits if writes else commits
        if chance < 0.5:
            _die("before a commit")
        commit(self, writes)
        if chance < 1:
            _die("after a commit")

    PlanTalk.commit = or_die  # type: ignore[method-assign]


def _write_more() -> None:
    """Add unknown fields to each record, as a later version might."""
    status, head, live = StepStatus.encode, PlanHead.encode, PlanRecord.encode
    attempt, grow, pack, store = Attempt.encode, UnitOfWork.keep_strategy_state, step.pack_step, stored_step.store_step

    def added(raw: bytes) -> bytes:
        return codec.dumps({**codec.loads(raw), **ADDED})

    def elements(self: StepStatus) -> bytes:
        self.unknown = (ADDED,)
        return status(self)

    def more(planned: PlannedStep, *beside: Any) -> bytes:
        return store(planned.model_copy(update={**(planned.__pydantic_extra__ or {}), **ADDED}), *beside)

    def growing(self: UnitOfWork, **parts: Any) -> None:
        grow(self, **ADDED, **parts)
        if self.strategy_state and self.strategy_state.get("state"):
            self.strategy_state["state"] |= ADDED

    StepStatus.encode = elements  # type: ignore[method-assign]
    Attempt.encode = lambda self: codec.dumps([*codec.loads(attempt(self)), ADDED])  # type: ignore[method-assign]
    PlanHead.encode = lambda self: added(head(self))  # type: ignore[method-assign]
    PlanRecord.encode = lambda self, name: (added if name == "live" else bytes)(live(self, name))  # type: ignore[method-assign]
    UnitOfWork.keep_strategy_state = growing  # type: ignore[method-assign]
    for module in [each for each in _modules("tasks", "pack_step") if hasattr(each, "pack_step")]:
        module.pack_step = lambda planned: added(pack(planned))  # type: ignore[attr-defined]
    for module in [each for each in _modules("tasks", "store_step") if hasattr(each, "store_step")]:
        module.store_step = more  # type: ignore[attr-defined]


def _die(where: str) -> None:
    log.info("dies", extra={"where": where})
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
