"""The drafter `cli`: an agent's command line as the operator configured it.

It contains no word of a goal, and runs without a shell. The prompt goes to standard input, the answer comes from
standard output. It runs in an empty directory, or in a checkout of the operator's git repository, with few variables.
At its end all of its processes are stopped.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schemas import codec
from schemas.contract.strict import strict_form
from tasks.rules.strategy import Consult, Drafted
from tasks.text.json_in_prose import as_text
from worker.agents.readers import READERS, is_envelope
from worker.drafters.base import (
    FOLDERS,
    MAX_ANSWER,
    READ_FOR_ERROR,
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
from worker.sandbox.paths import grants_of
from worker.sandbox.process import Abandoned, Job, JobResult, ResourceLimits, TooMuchPrinted, basic_environment
from worker.sandbox.sandbox import NoSandbox, Sandbox, SandboxMode
from worker.sandbox.user import User, WrongUser

if TYPE_CHECKING:
    from worker.settings.settings import Settings

log = logging.getLogger("planner.drafters")

SCHEMA_FILE, SCHEMA = "{schema_file}", "{schema}"
LOOK_S = 0.5  # between two looks whether the answer is still wanted
TOO_LONG = f"it printed more than {MAX_ANSWER} bytes"
MAX_NOISE = 64 * MAX_ANSWER  # of standard error: agents report their progress there


class CliDrafter:
    """Asks the configured command."""

    command_setting = "PLANNER_CLI_COMMAND"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        variables = settings.cli_env or {}
        self._env = {name: value.get_secret_value() for name, value in variables.items()}
        name = settings.cli_command[0] if settings.cli_command else ""
        program = shutil.which(name, path=self._environment().get("PATH"))
        if not program:
            raise WrongDrafter(f"{self.command_setting}: there is no program {name!r} to run.")
        self._program = str(Path(program).absolute())
        self._secrets = secrets_of(settings)
        if fault := place_fault(settings.cli_working_dir):
            raise WrongDrafter(f"PLANNER_CLI_WORKING_DIR: {fault}.")
        try:
            self._user = User.find(settings.agent_user) if settings.agent_user else None
        except WrongUser as error:
            raise WrongDrafter(f"PLANNER_AGENT_USER: {error}") from error
        granted = (*settings.cli_paths, *grants_of(settings.cli_command))
        self._sandbox = Sandbox(SandboxMode(settings.sandbox), granted, settings.private, self._user)
        try:
            self._sandbox.check()
        except NoSandbox as error:
            raise WrongDrafter(f"PLANNER_SANDBOX: {error}") from error

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question` within PLANNER_CLI_TIMEOUT_S."""
        watch = Stopwatch()
        with TemporaryDirectory(prefix=temporary.prefix(FOLDERS), ignore_cleanup_errors=True) as directory:
            answer = self._answer(question, stop, watch, Path(directory))
        said = {"drafter": "cli", "tokens": answer.tokens, "duration_ms": answer.duration_ms}
        log.info("draft answered" if answer.error is None else "draft failed", extra=said)
        return answer

    def _answer(self, question: Consult, stop: Stop, watch: Stopwatch, here: Path) -> Drafted:
        paid = estimate(question.prompt)
        if fault := place_fault(self._settings.cli_working_dir):
            return watch.failure(f"the working directory {fault}", 0)
        cwd = here / "work"
        cwd.mkdir()
        argv = self._argv(question.schema, here / "schema.json")
        named = self._settings.cli_working_dir
        place = check_out(named, question.base, here / "tree") if named else None
        if self._user:
            self._user.own(here)
        memory = self._settings.cli_memory_mb
        limits = ResourceLimits(memory * 1024 * 1024 if memory else None, MAX_ANSWER, MAX_NOISE, MAX_ANSWER)
        stdin = question.prompt.encode(errors="replace")
        seconds, env = self._settings.cli_timeout_s, self._environment()
        job = Job(argv, place or cwd, seconds, StopCheck(stop), stdin, env=env, limits=limits)
        try:
            ended = self._sandbox.run(job, writable=() if place else (cwd,), readable=(here, *filter(None, [named])))
        except TooMuchPrinted:
            return watch.failure(TOO_LONG, paid)
        except Abandoned:
            return watch.failure(STOPPED, paid)
        if ended.timed_out:
            return watch.failure(f"no answer within {self._settings.cli_timeout_s:g} s", paid)
        if ended.stdout_bytes > MAX_ANSWER:
            return watch.failure(TOO_LONG, paid)
        return self._read(question, ended, watch, argv)

    def _read(self, question: Consult, ended: JobResult, watch: Stopwatch, argv: Sequence[str]) -> Drafted:
        """Return the answer or the error in the output; the number of tokens is estimated if it is not reported."""
        name = self._settings.cli_output
        if name == "text" and is_envelope(ended.stdout):
            name = "claude"
        found = READERS[name](ended.stdout)
        printed = ended.stdout if name == "text" else as_text(found.answer)
        paid = found.tokens_used or estimate(question.prompt)
        if found.error:
            return watch.failure(found.error.message or found.error.kind, paid, self._secrets)
        if ended.exit_code:
            return watch.failure(f"exit code {ended.exit_code}: {ended.stderr[:READ_FOR_ERROR]}", paid, self._secrets)
        if name != "text" and found.answer is None:
            return watch.failure(f"its output has no answer in the format of {name}", paid)
        paid = found.tokens_used or estimate(question.prompt, printed)
        return watch.answer(printed, paid, self._secrets, argv, ended.stderr[-4 * READ_FOR_ERROR :])

    def _environment(self) -> dict[str, str]:
        return basic_environment() | self._env

    def _argv(self, schema: Mapping[str, object] | None, file: Path) -> list[str]:
        """Return the command with the schema, or with the path of the `file` that has the schema.

        Without a schema, the word with its placeholder is left out, with the option before it.
        """
        argv = [self._program, *self._settings.cli_command[1:]]
        if schema is not None:
            text = codec.dumps(strict_form(schema) or dict(schema))
            file.write_bytes(text)
            return [word.replace(SCHEMA_FILE, str(file)).replace(SCHEMA, text.decode()) for word in argv]
        kept: list[str] = []
        for word in argv:
            if SCHEMA_FILE not in word and SCHEMA not in word:
                kept.append(word)
            elif word in (SCHEMA_FILE, SCHEMA) and len(kept) > 1 and kept[-1].startswith("-"):
                kept.pop()
        return kept


class StopCheck:
    """Reports whether an answer is still wanted; calls `stop` at most every LOOK_S seconds."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._looked = time.monotonic()

    def __call__(self) -> bool:
        """Return whether the answer is still wanted; True without a look if the last look was less than LOOK_S ago."""
        if time.monotonic() - self._looked < LOOK_S:
            return True
        self._looked = time.monotonic()
        return not self._stop()
