"""The files of a reviewed plan in a folder: plan.json, context.json, plan.md and a qr-PHASE.json for each open gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from schemas import codec
from schemas.kinds.reviewed_plan_files import QrPhase
from tasks.base.errors import PlannerError
from worker.host import regular_files

KIND = "reviewed_plan"
PLAN, CONTEXT, TEXT = "plan.json", "context.json", "plan.md"
GATES = tuple(f"qr-{phase}.json" for phase in QrPhase)
PARTS = frozenset({"overview", "milestones"})  # keys that identify a reviewed plan's plan.json
MAX_BYTES = 4 * 1024 * 1024
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class WrongFolder(PlannerError):
    """This folder has no plan.json of a reviewed plan."""


def write(document: Mapping[str, Any], folder: Path, *, force: bool = False) -> list[Path]:
    """Write the files of a reviewed plan, each atomically and without following links, and return their paths.

    The file of a gate that has passed is removed. Raises OSError. Raises WrongFolder if other files have these names,
    unless `force`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not force:
        _require_own(folder)
    files = dict(_files_of(document))
    with regular_files.open_folder(folder) as handle:
        for name, content in files.items():
            _replace(handle, name, content)
        for name in GATES:
            if name not in files:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=handle)
    return [folder / name for name in files]


def read(folder: Path) -> dict[str, Any]:
    """Return the input of a goal that continues the plan in a folder. Raises WrongFolder.

    The goal executes a frozen plan, and plans any other plan further.
    """
    plan = _object(folder / PLAN)
    if plan is None:
        raise WrongFolder
    if not isinstance(plan.get("overview") or {}, dict):
        raise WrongFolder(f"The overview of {PLAN} is no object.")
    context = _object(folder / CONTEXT)
    if context and not isinstance(context.get("task_spec") or [], list):
        raise WrongFolder(f"The task_spec of {CONTEXT} is no list.")
    found = {"plan": plan, **({"context": context} if context else {})}
    return found | ({"workflow": "execute"} if plan.get("frozen_at") else {})


def sentence_of(given: Mapping[str, Any]) -> str | None:
    """Return the sentence of a goal from its plan's title, else from the task in its context."""
    overview, spec = given["plan"].get("overview") or {}, (given.get("context") or {}).get("task_spec")
    said = overview.get("title") or overview.get("problem") or (spec or [None])[0]
    return str(said) if said else None


def _files_of(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    yield PLAN, codec.pretty(document["plan"])
    yield CONTEXT, codec.pretty(document["context"])
    if document.get("plan_md"):
        yield TEXT, str(document["plan_md"]).encode(errors="replace")
    for phase, file in (document.get("qr") or {}).items():
        yield f"qr-{phase}.json", codec.pretty(file)


def _require_own(folder: Path) -> None:
    plan = _object(folder / PLAN)
    foreign = PLAN if plan is not None and not plan.keys() >= PARTS else None
    if plan is None:
        foreign = next((name for name in (CONTEXT, TEXT, *GATES) if os.path.lexists(folder / name)), None)
    if foreign:
        raise WrongFolder(f"{folder / foreign} is of no reviewed plan, and would be overwritten: --force does it.")


def _replace(handle: int, name: str, content: bytes) -> None:
    """Write a file into the open folder `handle` atomically; a link of this name is replaced."""
    new = f".{name}.{token_hex(8)}"
    try:
        with os.fdopen(os.open(new, NEW, 0o666, dir_fd=handle), "wb") as file:
            file.write(content)
        os.replace(new, name, src_dir_fd=handle, dst_dir_fd=handle)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=handle)
        raise


def _object(path: Path) -> dict[str, Any] | None:
    try:
        found = codec.loads(regular_files.read(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WrongFolder(f"{path.name} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise WrongFolder(f"{path.name} holds no JSON object.")
    return found
