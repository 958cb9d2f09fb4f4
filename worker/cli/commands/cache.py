"""`planner cache list`, `show` and `forget`: the drafts of completed plans that answer goals like theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemas.times import rfc3339
from worker.cli.console import MISSING, USAGE, Failure, Json, as_planner, command, open_link, say, say_json

if TYPE_CHECKING:
    from worker.store.cached_drafts import KeptDraft

app = typer.Typer(
    name="cache",
    help="List, show and forget the drafts that answer goals without a drafter.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Tenant = Annotated[str | None, typer.Option(metavar="T", help="Of this tenant; of goals that name none: default.")]
Repo = Annotated[str | None, typer.Option(metavar="R", help="Of this repository, as goals name it.")]
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The plan whose draft it is, as `list` has it.")]


@app.command("list")
@command
def list_drafts(tenant: Tenant = None, repo: Repo = None, as_json: Json = False) -> None:
    """List the drafts that are kept, the newest first.

    [b]planner cache list --tenant acme --repo acme/shop[/b]

    Each was the draft of a plan that was completed. It answers goals of the same tenant and repository that ask the
    same, for PLANNER_PLAN_CACHE_DAYS days since; older ones answer nothing, and go when a newer one needs their place.
    `planner show` says of a plan whose draft it got.
    """
    from worker.render.cached_drafts import draw_drafts
    from worker.store import cached_drafts

    with open_link() as link:
        found = cached_drafts.read(link.client, link.partitions, tenant, repo)
    if as_json:
        say_json([_told(each) for each in found])
    elif found:
        say(draw_drafts(found))
    else:
        say("No draft is kept.")


@app.command("show")
@command
def show_draft(plan_id: PlanId, as_json: Json = False) -> None:
    """Show what the drafter of a plan answered, as it is kept.

    [b]planner cache show plan_3c-01a2...[/b]

    It is data from outside: it is judged again for every goal that it answers.
    """
    from tasks.text.json_in_prose import as_text
    from worker.store import cached_drafts

    with open_link() as link:
        found = [each for each in cached_drafts.read(link.client, link.partitions) if each.draft.plan_id == plan_id]
    if not found:
        raise Failure.of("no_such_draft", f"No draft of {plan_id} is kept: see planner cache list.", MISSING)
    if as_json:
        say_json({**_told(found[0]), "output": found[0].draft.output})
        return
    for line in as_text(found[0].draft.output).splitlines():
        say("".join(letter if letter.isprintable() else " " for letter in line))


@app.command("forget")
@command
def forget_drafts(
    plan_id: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="The draft of this plan alone, as `list` has it.")
    ] = None,
    tenant: Tenant = None,
    repo: Repo = None,
    everything: Annotated[bool, typer.Option("--all", help="Every draft that is kept.")] = False,
    as_json: Json = False,
) -> None:
    """Forget the draft of a plan, or those of a tenant or repository: their goals ask a drafter again.

    [b]planner cache forget --repo acme/shop[/b]

    Needs the planner's own account on Redis. Plans that were made of them go on.
    """
    from worker.store import cached_drafts

    if not (plan_id or tenant or repo or everything):
        raise Failure.of("nothing_named", "Name a plan, --tenant or --repo, or --all for every draft.", USAGE)
    with open_link() as link:
        found = cached_drafts.read(link.client, link.partitions, tenant, repo)
        wanted = [each for each in found if plan_id in (None, each.draft.plan_id)]
        if not wanted and not everything:
            of = plan_id or " of ".join(filter(None, (repo, tenant and f"tenant {tenant}")))
            raise Failure.of("no_such_draft", f"No draft of {of} is kept: see planner cache list.", MISSING)
        with as_planner(link, "forget drafts"):
            count = cached_drafts.forget(link.client, wanted)
    if as_json:
        say_json({"forgotten": count})
        return
    say(f"{count} forgotten.")


def _told(kept: KeptDraft) -> dict[str, Any]:
    draft = kept.draft
    about = {"plan_id": draft.plan_id, "tenant": kept.tenant, "repo": kept.repo, "drafter": draft.drafter}
    return {**about, "goal": draft.goal, "at": rfc3339(draft.at)}
