"""`planner plans`, `show` and `watch`: the current plans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.times import rfc3339
from worker.cli.console import FAILED, MISSING, OK, USAGE, Failure, Json, command, open_planner, say, say_json
from worker.cli.plan_filter import Listed
from worker.cli.target import Owner, PlanName, find
from worker.host import terminal
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import PlanView
    from worker.client.planner import Planner
    from worker.store.plan_lists import PlanFilter
    from worker.store.queries import Page

MOST_STEPS = 200
ENOUGH_S = 0.5  # time to search among plans that do not match, in addition to the last page
FIRST_PAGE = "start"


@command
def plans(
    listed: Listed,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The most plans to list.")] = 20,
    cursor: Annotated[
        str | None,
        typer.Option(
            metavar="CURSOR",
            help=f"Start after the previous page: its `next_cursor`. `{FIRST_PAGE}` requests the first page.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List plans, the newest first; a plan must match all options.

    [b]planner plans --state HALTED --repo acme/shop --since 7d[/b]

    [b]planner plans --waiting --json | jq -r '.[].plan_id'[/b]

    [b]planner plans --limit 500 --cursor start --json | jq -r .next_cursor[/b]

    A filter that few plans pass stops after about a second. The last line then names where it stopped, and how to go
    on.

    With --cursor, --json prints an object: `items` and `next_cursor`, null at the end. A page may be short although
    more pages follow: one request reads a limited number of plans. The next page contains no newer plans.
    """
    from worker.render.plan import overview, tally

    wanted = listed.plans()
    with open_planner() as planner:
        found = _page(planner, wanted, limit, cursor)
        counts = None if as_json else planner.count_states()
    items = [each.model_dump(mode="json") for each in found.items]
    if as_json and found.next_cursor and not cursor:
        terminal.line(_stopped(found.next_cursor), err=True)
    if as_json:
        say_json({"items": items, "next_cursor": found.next_cursor} if cursor else items)
        return
    if items:
        say(overview(found.items))
    elif found.next_cursor is None:
        say(_nothing(wanted, cursor))
    if found.next_cursor:
        say(f"More: --cursor {found.next_cursor}" if cursor else _stopped(found.next_cursor))
    if counts:
        say(tally(counts))


def _page(planner: Planner, wanted: PlanFilter, limit: int, cursor: str | None) -> Page:
    """Return the page after `cursor`; without one, read pages until there are enough plans or ENOUGH_S has passed."""
    from worker.client.trouble import WrongUse
    from worker.store.queries import Page

    try:
        if cursor:
            return planner.page(wanted, limit, None if cursor == FIRST_PAGE else cursor)
        found, end = planner.page(wanted, limit, None), time.monotonic() + ENOUGH_S
        while found.next_cursor and len(found.items) < limit and time.monotonic() < end:
            more = planner.page(wanted, limit - len(found.items), found.next_cursor)
            found = Page([*found.items, *more.items], more.next_cursor)
        return found if len(found.items) < limit else found._replace(next_cursor=None)
    except WrongUse as error:
        detail = f"{cursor} is no cursor: take the one that the page before printed, or `{FIRST_PAGE}`."
        raise Failure.of("wrong_cursor", detail, USAGE) from error


def _stopped(next_cursor: str) -> str:
    from worker.store.plan_lists import Place

    made = rfc3339(Place.read(next_cursor).created)
    return f"Only plans made since {made} were looked at. Go on with --cursor {next_cursor}"


def _nothing(wanted: PlanFilter, cursor: str | None) -> str:
    from worker.store.queries import EVERY_PLAN

    if cursor or wanted != EVERY_PLAN:
        return "No plan matches."
    return 'There are no plans yet. Ask for one: planner submit --goal "..." --file src/a.py'


@command
def show(
    plan: PlanName,
    tenant: Owner = NO_TENANT,
    every_step: Annotated[bool, typer.Option("--all", help=f"Draw more than {MOST_STEPS} steps.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print only the diffs of its changes.")] = False,
    transcript: Annotated[
        str,
        typer.Option("--transcript", metavar="STEP", help="Print only the output of a step's agent, if it was sent."),
    ] = "",
    drafting: Annotated[
        bool, typer.Option("--drafting", help="Show the draft of an evolution instead: prompt, command, answer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a plan: its result, the reason of its end, its budgets and steps.

    [b]planner show 3c-0199[/b]

    [b]planner show ci-4711 --diff | git apply[/b]

    [b]planner show ci-4711 --transcript fix-test-001[/b]

    [b]planner show ci-4711 --json | jq .budget.tokens[/b]

    Steps are listed below their dependencies, and branches next to each other. A step in flight has its controller, and
    the time since it was queued or started.
    """
    from worker.render.plan import portrait
    from worker.render.result_text import draw

    with open_planner() as planner:
        view = find(planner, plan, tenant, activity=True)
        if diff:
            if not (changes := planner.changes(view)):
                raise Failure.of("no_diff", "No diff of this plan is kept.", MISSING)
            terminal.content(changes)
            return
        if transcript:
            terminal.content(_transcript(planner, view, transcript))
            return
        if drafting:
            _show_drafting(view, as_json=as_json)
            return
        if view.ended_at and not view.result:
            view = view.model_copy(update={"result": planner.result(view)})
    shown = draw(view.result) if view.result else None
    say_json(view) if as_json else say(portrait(view, None if every_step else MOST_STEPS, shown))


def _transcript(planner: Planner, view: PlanView, step: str) -> bytes:
    """Return the newest output of an agent that is stored for this step. Raises Failure if there is none."""
    if step not in {each.step_id for each in view.steps}:
        raise Failure.of("no_such_step", f"{view.plan_id} has no step {step!r}.", MISSING)
    for attempt in reversed(planner.attempts(view.plan_id).get(step, [])):
        was_sent = (attempt.get("transcript") or {}).get("sent")
        if was_sent and (found := planner.transcript(view, step, attempt)):
            return found
    raise Failure.of("no_transcript", f"No transcript of {step} is kept. Try planner attempt on its host.", MISSING)


def _show_drafting(view: PlanView, *, as_json: bool) -> None:
    from worker.render.drafting import DRAFTING, drafting_lines

    document = view.document if isinstance(view.document, dict) else {}
    if "raw_output" not in document:
        raise Failure.of("not_drafted", f"The document of {view.plan_id} has no draft of an agent.", MISSING)
    found = {name: document.get(name) for name in DRAFTING}
    say_json(found) if as_json else say("\n".join(drafting_lines(found)))


@command
def watch(plan: PlanName, tenant: Owner = NO_TENANT, as_json: Json = False) -> int:
    """Follow a plan live until it ends, from its beginning.

    [b]planner watch ci-4711[/b]

    [b]planner watch 3c-0199 --json | jq -r .type[/b]

    Exit code 0 if the plan is COMPLETED, 1 if it is HALTED or REJECTED, 130 after Ctrl-C, which stops watching, not
    the plan.
    """
    from worker.cli.events import BLOCK_S, print_events

    with open_planner(BLOCK_S) as planner:
        state = print_events(planner, find(planner, plan, tenant), as_json=as_json)
    return OK if state == "COMPLETED" else FAILED
