"""Reads secrets, and removes them from the environment, which other processes of the same user can read.

A secret NAME is the variable NAME, or the content of the file that NAME_FILE names. Or it is in a JSON object such as
{"PLANNER_REDIS_URL": "redis://..."}, from the file descriptor PLANNER_SECRETS_FD (`--secrets-fd`).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile

VARIABLES = {  # that hold secrets, by the setting; the first one is its own
    "redis_url": ("PLANNER_REDIS_URL",),
    "broker_url": ("PLANNER_BROKER_URL",),
    "llm_api_key": ("PLANNER_LLM_API_KEY",),
    "cli_env": ("PLANNER_CLI_ENV", "WORKER_PLANNING_EXTRA_ENV"),
    "sentry_dsn": ("SENTRY_DSN",),
    "api_key": ("PLANNER_API_KEY",),
    "id_token": ("PLANNER_ID_TOKEN",),
}
NAMES = frozenset(name for names in VARIABLES.values() for name in names)
FILE = "_FILE"
FILES = frozenset(name + FILE for name in NAMES)
DESCRIPTOR = "PLANNER_SECRETS_FD"
CELERY = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL", "CELERY_RESULT_BACKEND")
MAX_BYTES = 256 * 1024  # of a file or a descriptor
DUMPABLE = 4  # of prctl
NAMED_LIKE_SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|DSN|AUTH(?!ORS?(?:_|$))", re.IGNORECASE)

_kept: dict[str, str] = {}  # of this process: secrets from the descriptor, and those removed from the environment
_files_read: set[Path] = set()


class WrongSecrets(Exception):
    """Secrets cannot be read; the message has a sentence for each."""


def read() -> dict[str, str]:
    """Return the secrets by their variables, from all sources. Raises WrongSecrets.

    A descriptor is read at the first call, and closed.
    """
    wrong: list[str] = []
    from_files = dict(_files(wrong))
    if number := os.environ.pop(DESCRIPTOR, ""):
        from_descriptor = _descriptor(number, wrong)
        twice = [name for name in from_descriptor if os.environ.get(name) or name in from_files]
        wrong += [f"{name} is set, and comes by {DESCRIPTOR} too: leave one." for name in twice]
        _kept.update(from_descriptor)
    if wrong:
        raise WrongSecrets("\n".join(wrong))
    from_variables = {name: value for name in NAMES if (value := os.environ.get(name))}
    return _kept | from_files | from_variables


def protect() -> None:
    """Remove the secrets from this process's environment, and protect its memory.

    Other processes of the same user could read both. `read` still returns the secrets. Call this after each exec; a
    forked process inherits the protection.
    """
    _kept.update(read())
    _files_read.update(files())
    for name in (*NAMES, *FILES, *CELERY):
        os.environ.pop(name, None)
    if sys.platform == "linux":
        _wipe()
        ctypes.CDLL(None, use_errno=True).prctl(DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))


def with_server(url: str | None) -> dict[str, str]:
    """Return the secrets by variable, for another process; `url` replaces the server's URL if it is given."""
    return {**read(), **({"PLANNER_REDIS_URL": url} if url else {})}


def hand_on(environment: Mapping[str, str], secrets: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return the environment without secrets, and the file descriptor with the secrets, for a child process."""
    number = _written(secrets)
    kept = {name: value for name, value in environment.items() if name not in NAMES | FILES}
    return kept | {DESCRIPTOR: str(number)}, number


def files() -> Iterator[Path]:
    """Yield the files that secrets come from."""
    yield from _files_read.union(Path(path).absolute() for name in FILES if (path := os.environ.get(name)))


def _files(wrong: list[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(FILES):
        if not (path := os.environ.get(name)):
            continue
        variable = name.removesuffix(FILE)
        if os.environ.get(variable):
            wrong.append(f"{variable} and {name} are both set: leave one.")
            continue
        try:
            with Path(path).open("rb") as file:
                text = file.read(MAX_BYTES + 1).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            wrong.append(f"{name}: {path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}.")
            continue
        if len(text) > MAX_BYTES:
            wrong.append(f"{name}: {path} is longer than {MAX_BYTES} bytes.")
        elif text:
            yield variable, text


def _descriptor(number: str, wrong: list[str]) -> dict[str, str]:
    try:
        with os.fdopen(int(number), "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        found = json.loads(raw)
    except OSError as error:
        wrong.append(f"{DESCRIPTOR}: {number} cannot be read: {error.strerror}.")
    except ValueError:  # whose text would quote the secrets
        wrong.append(f"{DESCRIPTOR}: {number} is no number, or holds no JSON.")
    else:
        if isinstance(found, dict) and found.keys() <= NAMES and all(isinstance(each, str) for each in found.values()):
            return {name: value for name, value in found.items() if value}
        names = ", ".join(sorted(NAMES))
        wrong.append(f"{DESCRIPTOR}: a JSON object of texts is expected, whose names are of {names}.")
    return {}


def _written(secrets: Mapping[str, str]) -> int:
    """Return the descriptor of an unnamed file with the secrets, which child processes inherit."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("secrets", 0)
    else:
        with TemporaryFile() as file:
            number = os.dup(file.fileno())
    os.write(number, json.dumps(dict(secrets)).encode())
    os.lseek(number, 0, os.SEEK_SET)
    os.set_inheritable(number, True)
    return number


def _wipe() -> None:
    """Overwrite the secrets in the process's initial environment: deleting variables does not clear that memory."""
    for name in list(os.environ):
        if NAMED_LIKE_SECRETS.search(name):
            os.environ[name] = os.environ[name]  # a copy, for the one in the block goes
    try:
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return
    start, end = int(stat[47]), int(stat[48])
    if not 0 < start < end:
        return
    block, at = ctypes.string_at(start, end - start), start
    for variable in block.split(b"\0"):
        raw_name, is_one, value = variable.partition(b"=")
        name = raw_name.decode(errors="replace")
        if is_one and (name in NAMES or name in CELERY or NAMED_LIKE_SECRETS.search(name)):
            ctypes.memset(at + len(raw_name) + 1, 0, len(value))
        at += len(variable) + 1
