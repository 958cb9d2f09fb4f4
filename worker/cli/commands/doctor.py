"""`planner doctor`: the problems of the server and of its plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import FAILED, OK, Json, command, open_link, say, say_json
from worker.render.progress import ProgressLine

if TYPE_CHECKING:
    from worker.doctor.finding import Finding


@command
def doctor(
    plan: Annotated[list[str] | None, typer.Argument(metavar="PLAN", help="Only these plans.")] = None,
    look_at_all: Annotated[bool, typer.Option("--all", help="Read every plan and key instead of a sample.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair findings whose repair is safe.")] = False,
    as_json: Json = False,
) -> int:
    """Check the server, its streams and its plans for broken promises.

    The command reads a sample of 200 plans if the server has more plans, or over 20,000 keys. Use --all to read every
    plan and key; this takes minutes for a hundred thousand plans.

    [b]planner doctor[/b]

    [b]planner doctor ci-4711 --fix[/b]

    [b]planner doctor --json | jq -r '.findings[] | "\\(.check) \\(.subject)"'[/b]

    The last line names the isolation of verifications by a controller on this host.

    Plans may change during the check, so each finding was seen twice. Exit code 0 if all is well or repaired, 1 if not.
    """
    from worker.doctor.finding import Site, mend
    from worker.doctor.host import isolation
    from worker.doctor.rounds import Rounds
    from worker.render.doctor import draw

    found: list[Finding] = []
    with open_link() as link, ProgressLine("looked at") as progress:
        settings = link.settings
        site = Site(link.client, link.partitions, settings.retention_s, int(settings.claim_idle_s * 1000))
        rounds = Rounds(site, progress.step)
        names = [link.resolve(name) for name in plan or ()]
        all_or_some = rounds.everything if look_at_all else rounds.sample
        for finding in rounds.some(names) if names else all_or_some():
            if fix and finding.repair:
                finding.fixed = mend(link.client, finding.repair)
            found.append(finding)
    host = isolation(settings.sandbox, settings.agent_user)
    left = sum(not finding.fixed for finding in found)
    if as_json:
        findings = [finding.document() for finding in found]
        say_json({"well": not left, "findings": findings, **rounds.document(), "host": host})
    else:
        say(draw(found, rounds))
        say(host["sentence"])
    return FAILED if left else OK
