"""The drafter `backend`: the operator's own agent, by its dotted path.

`module:attr` or `module.attr` names an object with a method `run(task, *, working_dir)`. It may also name a class or
function that returns such an object without arguments. The attribute `stdout` of the result of `run` has the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from tasks.rules.strategy import Consult, Drafted
from tasks.text.secrets import fit_redacted
from worker.drafters.base import (
    FOLDERS,
    MAX_ANSWER,
    MAX_ERROR,
    STOPPED,
    Stop,
    Stopwatch,
    WrongDrafter,
    estimate,
    place_fault,
    secrets_of,
)
from worker.drafters.checkout import check_out
from worker.host import temporary

if TYPE_CHECKING:
    from worker.settings.settings import Settings

log = logging.getLogger("planner.drafters")

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class StructuredAgentTask:
    """A question to the operator's backend, which relies on the names and types of these fields."""

    name: str
    prompt: str
    schema: Mapping[str, Any] | None
    schema_mode: str  # native, prompt or none


class AgentBackend(Protocol):
    """The interface of the object at the dotted path."""

    def run(self, task: StructuredAgentTask, *, working_dir: Path) -> Any:
        """Work on `task`; the answer is the attribute `stdout` of the result."""
        ...


class BackendDrafter:
    """Asks the configured backend, in a separate thread that is abandoned when it takes too long."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secrets = secrets_of(settings)
        self._backend = load(settings.planning_backend or "")
        if fault := place_fault(settings.cli_working_dir):
            raise WrongDrafter(f"PLANNER_CLI_WORKING_DIR: {fault}.")

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question` within PLANNER_PLANNING_TIMEOUT_SECONDS."""
        watch = Stopwatch()
        limit, paid = self._settings.planning_timeout_seconds, estimate(question.prompt)
        if fault := place_fault(self._settings.cli_working_dir):
            return watch.failure(f"the working directory {fault}", 0)
        mode = self._settings.planning_schema_mode
        mode = "none" if question.schema is None else "native" if mode == "auto" else mode
        task = StructuredAgentTask("planning", question.prompt, question.schema, mode)
        found: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        Thread(target=self._run, args=(task, question.base, found), name="backend", daemon=True).start()
        while watch.passed_s < limit:
            try:
                said, error = found.get(timeout=min(POLL_S, max(0.01, limit - watch.passed_s)))
            except Empty:
                if stop():
                    return watch.failure(STOPPED, paid)
                continue
            if error is not None:
                return watch.failure(f"{type(error).__name__}: {error}", paid, self._secrets)
            return _answer(said, watch, paid, self._secrets)
        return watch.failure(f"no answer within {limit:g} s", paid)

    def _run(
        self, task: StructuredAgentTask, base: str | None, found: SimpleQueue[tuple[Any, BaseException | None]]
    ) -> None:
        try:
            with TemporaryDirectory(prefix=temporary.prefix(FOLDERS), ignore_cleanup_errors=True) as directory:
                named = self._settings.cli_working_dir
                here = check_out(named, base, Path(directory) / "tree") if named else Path(directory)
                found.put((self._backend.run(task, working_dir=here), None))
        except BaseException as error:  # SystemExit, too: another thread waits for the result
            log.warning("backend failed", extra={"error": type(error).__name__})
            found.put((None, error))


def load(path: str) -> AgentBackend:
    """Return the backend at a dotted path. Raises WrongDrafter with one sentence."""
    try:
        found = _attribute(path)
        backend: AgentBackend = found if _is_backend(found) else found()
    except (Exception, SystemExit) as error:
        raise _wrong(path, f"{type(error).__name__}: {error}") from error
    if not _is_backend(backend):
        raise _wrong(path, "is no backend with a method run(task, working_dir)")
    return backend


def _attribute(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise ValueError("is not written as module:attr or module.attr")
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_backend(found: Any) -> bool:
    return not isinstance(found, type) and callable(getattr(found, "run", None))


def _wrong(path: str, why: str) -> WrongDrafter:
    return WrongDrafter(f"PLANNER_PLANNING_BACKEND: {path} cannot be used: {fit_redacted(why, MAX_ERROR)}.")


def _answer(said: Any, watch: Stopwatch, paid: int, secrets: tuple[str, ...]) -> Drafted:
    output = getattr(said, "stdout", None)
    if not isinstance(output, str):
        return watch.failure("the backend returned no text as stdout", paid)
    if len(output) > MAX_ANSWER:
        return watch.failure(f"the answer is longer than {MAX_ANSWER} characters", paid)
    command, stderr = getattr(said, "command", ()), getattr(said, "stderr", "")
    words = command if isinstance(command, list | tuple) else ()
    return watch.answer(output, paid + estimate(output), secrets, words, stderr if isinstance(stderr, str) else "")
