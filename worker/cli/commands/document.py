"""`planner document`: the files of a reviewed plan, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.console import USAGE, Failure, Json, command, open_planner, refused, say, say_json
from worker.cli.target import Owner, PlanName, find
from worker.store.keys import NO_TENANT


@command
def document(
    plan: PlanName,
    folder: Annotated[Path, typer.Option("--dir", "-d", file_okay=False, help="Where to; made if missing.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace files even if they are not from a reviewed plan.")
    ] = False,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,
) -> None:
    """Write plan.json, context.json and plan.md of a reviewed plan, and a qr-PHASE.json for each open gate.

    [b]planner document 3c-0199 --dir review/[/b]

    [b]planner submit --kind reviewed_plan --dir review/ --file 'src/**'[/b] takes it up again: a frozen plan is carried
    out, another one is planned further.
    """
    from worker.sources import review_folder

    with open_planner() as planner:
        view = find(planner, plan, tenant)
    if view.kind != "reviewed_plan" or not isinstance(view.document, dict):
        raise Failure.of("wrong_kind", f"{view.plan_id} is a {view.kind}: only a reviewed plan has these files.", USAGE)
    with refused("invalid_folder", by=review_folder.WrongFolder), refused("unwritable_folder", by=OSError):
        written = [str(path) for path in review_folder.write(view.document, folder, force=force)]
    say_json(written) if as_json else say("\n".join(written))
