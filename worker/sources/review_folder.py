"""The files of a reviewed plan in a folder: plan.json, context.json, plan.md and a qr-PHASE.json for each open gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas import codec
from tasks.base.errors import PlannerError
from worker.host import regular_files

KIND = "reviewed_plan"
PLAN, CONTEXT, TEXT = "plan.json", "context.json", "plan.md"
MAX_BYTES = 4 * 1024 * 1024


class WrongFolder(PlannerError):
    """This folder has no plan.json of a reviewed plan."""


def write(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the files of a reviewed plan's document; raises OSError. A gate that has passed has no file."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("qr-*.json"):
        old.unlink()
    written = []
    for name, content in _files_of(document):
        path = folder / name
        path.write_bytes(content)
        written.append(path)
    return written


def read(folder: Path) -> dict[str, Any]:
    """Read the input of a goal that takes up the plan of a folder; raises WrongFolder.

    A frozen plan is carried out, another one is planned further.
    """
    plan = _object(folder / PLAN)
    if plan is None:
        raise WrongFolder
    context = _object(folder / CONTEXT)
    found = {"plan": plan, **({"context": context} if context else {})}
    return found | ({"workflow": "execute"} if plan.get("frozen_at") else {})


def sentence_of(given: Mapping[str, Any]) -> str | None:
    """Take the sentence of a goal from its plan's title, else from what its context says is to be done."""
    overview, spec = given["plan"].get("overview") or {}, (given.get("context") or {}).get("task_spec") or [None]
    said = overview.get("title") or overview.get("problem") or spec[0]
    return str(said) if said else None


def _files_of(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    yield PLAN, codec.pretty(document["plan"])
    yield CONTEXT, codec.pretty(document["context"])
    if document.get("plan_md"):
        yield TEXT, str(document["plan_md"]).encode(errors="replace")
    for phase, file in (document.get("qr") or {}).items():
        yield f"qr-{phase}.json", codec.pretty(file)


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
