"""Where secrets come from, and how they leave the environment.

Other processes of the same user can read that. A secret setting NAME is a variable of that name, a file that NAME_FILE
names, or a member of the JSON object that is read from the descriptor PLANNER_SECRETS_FD (`--secrets-fd`), such as
{"PLANNER_REDIS_URL": "redis://..."}.
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

_kept: dict[str, str] = {}  # of this process: what came by descriptor, and what was taken out of the environment
_files_read: set[Path] = set()


class WrongSecrets(Exception):
    """Secrets cannot be read; the message has a sentence for each."""


def read() -> dict[str, str]:
    """Return the secrets by their variables, whichever way they came; raises WrongSecrets.

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
    """Take the secrets out of this process's environment, and close its memory.

    Processes of its user could read both. They stay known to `read`. To be called after each exec; a process that is
    forked off inherits it.
    """
    _kept.update(read())
    _files_read.update(files())
    for name in (*NAMES, *FILES, *CELERY):
        os.environ.pop(name, None)
    if sys.platform == "linux":
        _wipe()
        ctypes.CDLL(None, use_errno=True).prctl(DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))


def with_server(url: str | None) -> dict[str, str]:
    """Return the secrets by their variables, to hand them on; `url` is that of the server, where one was given."""
    return {**read(), **({"PLANNER_REDIS_URL": url} if url else {})}


def hand_on(environment: Mapping[str, str], secrets: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return an environment without secrets, and the descriptor that carries them.

    A process of ours inherits both.
    """
    number = _written(secrets)
    kept = {name: value for name, value in environment.items() if name not in NAMES | FILES}
    return kept | {DESCRIPTOR: str(number)}, number


def files() -> Iterator[Path]:
    """Name the files that secrets are, or were, read from."""
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
    """Write secrets where only whoever inherits the descriptor finds them."""
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
    """Overwrite secrets in the block of variables that this process was started with: it stays as it was otherwise."""
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
