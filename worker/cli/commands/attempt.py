"""`planner attempt`: the record of one attempt of a step, as its controller has stored it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import MISSING, Failure, Json, command, open_planner, read_settings, say, say_json
from worker.cli.target import Owner, PlanName, find
from worker.host.terminal import content
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import PlanView
    from worker.controller.logs_folder import LogsFolder


@dataclass(frozen=True, slots=True)
class Told:
    """The ended attempts of a step, as the planner's server has them; empty if the server cannot be asked."""

    plan_id: str
    attempts: dict[int, dict[str, Any]] = field(default_factory=dict)
    view: PlanView | None = None  # of the server


@command
def attempt(
    plan: PlanName,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The id of one of its steps.")],
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", min=1, help="The number of the attempt. Default: the last.")
    ] = None,
    transcript: Annotated[bool, typer.Option("--transcript", help="Print all that the agent printed.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print all that was changed.")] = False,
    verification: Annotated[bool, typer.Option("--verification", help="Print all output of the verification.")] = False,
    logs: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where controllers here keep it; else where they usually do.")
    ] = None,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,
) -> None:
    """Show an attempt on its host: the output and the change of the agent, and the verification.

    [b]planner attempt ci-4711 fix-test-001[/b]

    [b]planner attempt 3c-0199 fix-test-001 2 --diff | git apply --check[/b]

    On another host it names the right host, and has the output of the agent if the controller sent that. With the whole
    id of a plan it needs no server on the right host.
    """
    from worker.controller.attempt_log import DIFF, TRANSCRIPT, VERIFICATION
    from worker.controller.logs_folder import LogsFolder, logs_path
    from worker.render.attempt import draw, place

    folder = LogsFolder(logs_path(read_settings().state, logs))
    told = _ask(plan, step, tenant, folder)
    known = {*told.attempts, *folder.attempts(told.plan_id, step)}
    wanted = number or max(known, default=0)
    if wanted not in known:
        tried = f"those that ended are {', '.join(map(str, sorted(known)))}" if known else "none has ended"
        raise Failure.of("no_such_attempt", f"{told.plan_id} {step} has no such attempt: {tried}.", MISSING)
    shown = _look(folder, told, step, wanted)
    asked = [
        name for name, is_asked in {TRANSCRIPT: transcript, DIFF: diff, VERIFICATION: verification}.items() if is_asked
    ]
    if asked and not (shown["folder"] or shown["files"].keys() & asked):
        raise Failure.of("not_here", f"{place(shown)}.", MISSING)
    if as_json:
        say_json({**shown, "files": {name: data.decode(errors="replace") for name, data in shown["files"].items()}})
    elif asked:
        for name in asked:
            content(shown["files"].get(name, b""))
    else:
        say(draw(shown))


def _ask(plan: str, step: str, tenant: str, folder: LogsFolder) -> Told:
    """Ask the planner's server.

    If that fails, the files on this host are enough, provided that the whole plan id was given.
    """
    try:
        with open_planner() as planner:
            view = find(planner, plan, tenant)
            ended = planner.attempts(view.plan_id).get(step, [])
    except Failure:
        if folder.attempts(plan, step):
            return Told(plan)
        raise
    if step not in {each.step_id for each in view.steps}:
        raise Failure.of("no_such_step", f"{view.plan_id} has no step {step!r}.", MISSING)
    return Told(view.plan_id, {each["attempt"]: each for each in ended}, view)


def _look(folder: LogsFolder, told: Told, step: str, number: int) -> dict[str, Any]:
    """Return the known data of an attempt: those of the server, and its files on this host or the sent output."""
    from worker.controller.attempt_log import OUTCOME, SPEC, TRANSCRIPT, digest

    said = told.attempts.get(number, {})
    kept = said.get("transcript") or {}
    folder = _folder_of(kept, told.plan_id, step, number) or folder
    files = folder.read(told.plan_id, step, number)
    is_here, sent = bool(files), None
    if told.view and not is_here and kept.get("sent"):
        with open_planner() as planner:
            sent = planner.transcript(told.view, step, said)
    if sent:
        files[TRANSCRIPT] = sent
    return {
        "plan_id": told.plan_id,
        "step_id": step,
        "attempt": number,
        **{name: said.get(name) for name in ("at", "result", "category", "reason", "transcript")},
        "folder": str(folder.place(told.plan_id, step, number)) if is_here else None,
        "is_unaltered": digest(files[TRANSCRIPT]) == kept["digest"]
        if is_here and TRANSCRIPT in files and kept
        else None,
        "is_sent": bool(sent),
        "spec": _document(files, SPEC),
        "outcome": _document(files, OUTCOME),
        "files": files,
    }


def _document(files: dict[str, bytes], name: str) -> Any:
    """Return a JSON document and remove it from `files`; None for unreadable text, which stays in `files`."""
    from schemas import codec

    try:
        found = codec.loads(files.get(name, b"null"))
    except codec.DecodeError:
        return None
    files.pop(name, None)
    return found


def _folder_of(kept: dict[str, Any], plan_id: str, step: str, number: int) -> LogsFolder | None:
    """Return the folder of this host that an outcome names; only an attempt's own files are read from it."""
    from worker.controller.attempt_log import TRANSCRIPT
    from worker.controller.logs_folder import LogsFolder

    if kept.get("host") != socket.gethostname():
        return None
    path, tail = Path(kept["path"]), Path(plan_id, step, str(number), TRANSCRIPT)
    found = LogsFolder(path.parents[3]) if path.is_absolute() and path.parts[-4:] == tail.parts else None
    return found if found and found.attempts(plan_id, step) else None
