"""The drafter `cli`: an agent's command line as the operator configured it; a goal has no word in it (seed 004).

No shell. The prompt goes to standard input, the answer comes from standard output. It runs in an empty directory, or in
the one git repository that the operator named, with few variables, and ends with everything that it started.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schemas import codec
from tasks.planning.draft import Consult, Drafted
from worker.controller.patience import Abandoned
from worker.controller.process import run
from worker.drafters import launcher
from worker.drafters.base import (
    MAX_ANSWER,
    READ_FOR_ERROR,
    STOPPED,
    Stop,
    Watch,
    WrongDrafter,
    estimate,
    place_fault,
    secrets_of,
)

if TYPE_CHECKING:
    from worker.settings import Settings

log = logging.getLogger("planner.drafters")

SCHEMA = "{schema_file}"
LOOK_S = 0.5  # between two looks whether the answer is still wanted
TOO_LONG = f"it printed more than {MAX_ANSWER} bytes"
MAX_NOISE = 64 * MAX_ANSWER  # of standard error: agents tell there what they do
PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    }
)


class CliDrafter:
    """Asks the command that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        variables = settings.cli_env or {}
        self._env = {name: value.get_secret_value() for name, value in variables.items()}
        name = settings.cli_command[0] if settings.cli_command else ""
        program = shutil.which(name, path=self._environment().get("PATH"))
        if not program:
            raise WrongDrafter(f"PLANNER_CLI_COMMAND: there is no program {name!r} to run.")
        self._program = str(Path(program).absolute())
        self._secrets = secrets_of(settings)
        if fault := place_fault(settings.cli_working_dir):
            raise WrongDrafter(f"PLANNER_CLI_WORKING_DIR: {fault}.")

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question` within PLANNER_CLI_TIMEOUT_S."""
        watch = Watch()
        with TemporaryDirectory(prefix="planner-draft-", ignore_cleanup_errors=True) as directory:
            answer = self._answer(question, stop, watch, Path(directory))
        said = {"drafter": "cli", "tokens": answer.tokens, "duration_ms": answer.duration_ms}
        log.info("draft answered" if answer.error is None else "draft failed", extra=said)
        return answer

    def _answer(self, question: Consult, stop: Stop, watch: Watch, here: Path) -> Drafted:
        paid = estimate(question.prompt)
        if fault := place_fault(self._settings.cli_working_dir):
            return watch.failed(f"the working directory {fault}", 0)
        out, err, cwd = here / "out", here / "err", here / "work"
        cwd.mkdir()
        wanted = Wanted(stop, {out: MAX_ANSWER, err: MAX_NOISE})
        try:
            ended = run(
                self._launched(question, here, out, err),
                self._settings.cli_working_dir or cwd,
                self._settings.cli_timeout_s,
                wanted,
                question.prompt.encode(errors="replace"),
            )
        except Abandoned:
            return watch.failed(wanted.why, paid)
        if ended.timed_out:
            return watch.failed(f"no answer within {self._settings.cli_timeout_s:g} s", paid)
        if ended.exit_code:
            heard = _read(err, READ_FOR_ERROR) or ended.stderr
            return watch.failed(f"exit code {ended.exit_code}: {heard}", paid, self._secrets)
        said = _read(out, MAX_ANSWER + 1)
        if len(said) > MAX_ANSWER:
            return watch.failed(TOO_LONG, paid)
        argv = self._argv(question.schema, here / "schema.json")
        return watch.answered(said, estimate(question.prompt, said), self._secrets, argv, _end(err))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
        return kept | self._env

    def _launched(self, question: Consult, here: Path, out: Path, err: Path) -> list[str]:
        """Say how to start the command within its limits; what it is given stands in a file that only we can read."""
        memory = self._settings.cli_memory_mb
        order = {
            "argv": self._argv(question.schema, here / "schema.json"),
            "env": self._environment(),
            "stdout": str(out),
            "stderr": str(err),
            "memory": memory * 1024 * 1024 if memory else None,
        }
        file = here / "order.json"
        file.write_bytes(codec.dumps(order))  # the directory is ours alone
        return [sys.executable, "-I", "-S", launcher.__file__, str(file)]

    def _argv(self, schema: Mapping[str, object] | None, file: Path) -> list[str]:
        """Put the schema's file in; without a schema its word goes, and the option before it that would take it."""
        argv = [self._program, *self._settings.cli_command[1:]]
        if schema is not None:
            file.write_bytes(codec.dumps(dict(schema)))
            return [word.replace(SCHEMA, str(file)) for word in argv]
        kept: list[str] = []
        for word in argv:
            if SCHEMA not in word:
                kept.append(word)
            elif word == SCHEMA and len(kept) > 1 and kept[-1].startswith("-"):
                kept.pop()
        return kept


class Wanted:
    """Says whether a command may go on: its answer is wanted, and it has not printed too much."""

    why = STOPPED

    def __init__(self, stop: Stop, files: Mapping[Path, int]) -> None:
        self._stop = stop
        self._files = files
        self._looked = time.monotonic()

    def __call__(self) -> bool:
        """Look at the files each time, and ask each LOOK_S."""
        if any(_size(file) > most for file, most in self._files.items()):
            self.why = TOO_LONG
            return False
        if time.monotonic() - self._looked < LOOK_S:
            return True
        self._looked = time.monotonic()
        return not self._stop()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _read(file: Path, most: int) -> str:
    if not file.exists():
        return ""
    with file.open("rb") as stream:
        return stream.read(most).decode(errors="replace")


def _end(file: Path) -> str:
    if not file.exists():
        return ""
    with file.open("rb") as stream:
        stream.seek(max(0, _size(file) - 4 * READ_FOR_ERROR))
        return stream.read().decode(errors="replace")
