"""Commands of operators to a step, a plan, or every plan of a repository, a tenant, or all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import target
from worker.cli.console import (
    FAILED,
    MISSING,
    OK,
    USAGE,
    Failure,
    Json,
    command,
    open_planner,
    read_source,
    say,
    say_json,
)
from worker.cli.plan_filter import Chosen
from worker.cli.target import Aim, AnyPlan, Owner, PlanName, Queue, Target, find, one_plan
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from worker.client.planner import Planner

Step = Annotated[str, typer.Argument(metavar="STEP", help="The id of the step.")]
AnyStep = Annotated[str | None, typer.Argument(metavar="STEP", help="The id of a step; the whole plan without it.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with the command.")]
Actor = Annotated[str | None, typer.Option("--actor", help="The person who sends the command. Default: you.")]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="When it ends by itself: 2026-11-21T20:30:00Z, 30m, 2h, 1d."),
]


@dataclass(frozen=True, slots=True)
class Said:
    """The options of every command: the reason, the actor, and the form of the answer."""

    reason: Reason = ""
    actor: Actor = None
    as_json: Json = False


def _send(name: str, about: Target, said: Said, **more: Any) -> int:
    """Publish a command and print its result. Raises Failure if the planner refuses it, or the step is missing."""
    from schemas.command import CommandName
    from worker.cli import publisher
    from worker.client.planner import ANSWER_S, REFUSED
    from worker.host.account import own_name

    with open_planner(block_s=ANSWER_S) as planner:
        plan_id = _plan_of(planner, about, more.get("step_id")) if about.plan else None
        more |= {"reason": said.reason, "actor": said.actor or own_name()}
        more |= {"plan_id": plan_id, "target": about.name}
        event = publisher.command(planner, command=CommandName(name), scope=about.scope, **more)
    if event["type"] == REFUSED:
        raise Failure.of("command_refused", f"{name}: refused, {event['data'].get('reason')}")
    say_json(event) if said.as_json else say(f"{name}: done")
    return OK


def _send_wide(
    name: str, aim: Aim, chosen: Chosen, said: Said, queue: str | None = None, *, asks: bool = False, **more: Any
) -> int:
    """Publish a command to each chosen plan, or else to all that `aim` reaches. Returns the exit code.

    Chosen plans require a confirmation by the user; with `asks`, all that `aim` reaches require one too.
    """
    from worker.cli import publisher
    from worker.host.account import own_name

    if wanted := chosen.plans(aim, queue):
        more |= {"reason": said.reason, "actor": said.actor or own_name()}
        return publisher.command_plans(name, wanted, yes=chosen.yes, as_json=said.as_json, **more)
    about = aim.target(queue)
    if asks and not target.may_go(name, about, yes=chosen.yes, as_json=said.as_json):
        return FAILED
    return _send(name, about, said, **more)


def _plan_of(planner: Planner, about: Target, step_id: str | None) -> str:
    """Return the id of the plan. Raises Failure if the plan does not exist, or has no such step."""
    view = find(planner, about.plan or "", about.owner)
    if step_id and all(step.step_id != step_id for step in view.steps):
        detail = f"Plan {view.plan_id} has no step {step_id}; `planner show {view.plan_id}` lists its steps."
        raise Failure.of("no_such_step", detail, MISSING)
    return view.plan_id


@command
def approve(plan: PlanName, step: Step, tenant: Owner = NO_TENANT, *, said: Said) -> int:
    """Approve a step that waits for an approval, so that it starts.

    [b]planner approve 3c-0199 migrate-schema --reason "reviewed with the DBA"[/b]
    """
    return _send("approve", one_plan(plan, step, tenant), said, step_id=step)


@command
def reject(plan: PlanName, step: Step, tenant: Owner = NO_TENANT, *, said: Said) -> int:
    """Refuse a step that waits for an approval; its plan halts.

    [b]planner reject 3c-0199 migrate-schema --reason "not this week"[/b]
    """
    return _send("reject", one_plan(plan, step, tenant), said, step_id=step)


@command
def skip(plan: PlanName, step: Step, tenant: Owner = NO_TENANT, *, said: Said) -> int:
    """Skip a step that is not in flight.

    Steps that depend on it continue as if it were done.

    A blocked step is skipped when its turn comes. To skip a step in flight, pause the plan, and skip the step after its
    attempt has ended.

    [b]planner skip 3c-0199 update-docs --reason "written already"[/b]
    """
    return _send("skip", one_plan(plan, step, tenant), said, step_id=step)


@command
def pause(aim: Aim, queue: Queue = None, *, chosen: Chosen, until: Until = None, said: Said) -> int:
    """Start no more steps; steps in flight may finish, and the wall clock stops.

    With --repository, --tenant or --all it also pauses later plans, until `planner resume` with the same option. With
    --state, --kind, --repo, --rule, --waiting or --since it affects each live plan that `planner plans` finds with
    these options and --tenant. It asks for a confirmation with their number first. With --queue no more steps of that
    queue are handed out, from any plan. Steps that were handed out before may be claimed and finish.

    [b]planner pause 3c-0199 --until 2h --reason "the release"[/b]

    [b]planner pause --tenant acme --reason "their repository moves"[/b]

    [b]planner pause --queue gpu --until 2h --reason "new drivers"[/b]
    """
    return _send_wide("pause", aim, chosen, said, queue, until=target.moment(until))


@command
def resume(aim: Aim, queue: Queue = None, *, chosen: Chosen, said: Said) -> int:
    """Resume a paused plan or a paused scope.

    With --repository, --tenant or --all it also permits new plans after a halt.

    [b]planner resume 3c-0199[/b]

    [b]planner resume --tenant acme[/b]

    Options such as --repo and --since choose among the plans that are paused, one by one, as with `planner pause`.
    """
    return _send_wide("resume", aim, chosen, said, queue)


@command
def halt(aim: Aim, chosen: Chosen, said: Said) -> int:
    """Halt a plan; attempts in flight receive the stop with their next heartbeat.

    With --repository, --tenant or --all it also halts later plans, until `planner resume` with the same option.

    [b]planner halt 3c-0199 --reason "the wrong branch"[/b]

    [b]planner halt --repository acme/shop --reason "a leaked key"[/b]

    Options such as --repo and --since choose plans that are there, one by one, as with `planner pause`.
    """
    return _send_wide("halt", aim, chosen, said, asks=True)


@command
def cancel(aim: Aim, chosen: Chosen, said: Said) -> int:
    """Cancel a plan, or all current plans of a scope.

    Unlike a halt, it does not affect later plans.

    [b]planner cancel 3c-0199 --reason "not needed any more"[/b]

    [b]planner cancel --repository acme/shop --reason "the backlog was emptied"[/b]

    [b]planner cancel --waiting --repo acme/shop --kind campaign --yes[/b]

    Options such as --repo and --since choose plans that are there, one by one, as with `planner pause`.
    """
    return _send_wide("cancel", aim, chosen, said, asks=True)


@command
def tighten(
    plan: PlanName,
    step: AnyStep = None,
    file: Annotated[list[Path] | None, typer.Option("--file", help="A file that is left; may be repeated.")] = None,
    risk: Annotated[str | None, typer.Option("--risk", help="The risk of the step from now on: MED or HIGH.")] = None,
    tenant: Owner = NO_TENANT,
    *,
    said: Said,
) -> int:
    """Reduce the files of a plan or a step, or raise a step's risk.

    This cannot be undone.

    An attempt with a removed file stops, and starts again with the remaining files.

    [b]planner tighten 3c-0199 --file src/a.py --file src/b.py[/b]

    [b]planner tighten 3c-0199 migrate-schema --risk HIGH --reason "it touches money"[/b]
    """
    value = {
        **({"allowed_files": [each.as_posix() for each in file]} if file else {}),
        **({"risk_level": risk.upper()} if risk else {}),
    }
    if not value:
        raise Failure.of("nothing_to_tighten", "Give --file for each remaining file, or --risk.", USAGE)
    return _send("tighten", one_plan(plan, step, tenant), said, step_id=step, value=value)


@command
def top_up(
    plan: AnyPlan = None,
    tokens: Annotated[int, typer.Option(min=0, help="More tokens.")] = 0,
    patch_cycles: Annotated[int, typer.Option(min=0, help="More patch cycles.")] = 0,
    failing_outcomes: Annotated[int, typer.Option(min=0, help="More failing outcomes.")] = 0,
    wall_clock_s: Annotated[int, typer.Option(min=0, help="More seconds.")] = 0,
    repository: Annotated[str | None, typer.Option(metavar="R", help="Today's budget of this repository.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="T", help="Today's budget of this tenant.")] = None,
    *,
    said: Said,
) -> int:
    """Raise a budget of a plan, or the tokens of a day budget.

    A day budget belongs to a tenant or a repository, for today. No command lowers a budget.

    [b]planner top-up 3c-0199 --tokens 50000 --reason "worth it"[/b]

    [b]planner top-up --tenant acme --tokens 1000000[/b]
    """
    amounts = {
        "tokens": tokens,
        "patch_cycles": patch_cycles,
        "failing_outcomes": failing_outcomes,
        "wall_clock_s": wall_clock_s,
    }
    about = Aim(plan, repository, tenant).target()
    value = {name: amount for name, amount in amounts.items() if amount}
    if not value:
        raise Failure.of("nothing_to_add", "Give an amount, such as --tokens 50000.", USAGE)
    if not about.plan and set(value) != {"tokens"}:
        raise Failure.of("only_tokens", "A day budget has tokens only: give --tokens alone.", USAGE)
    return _send("top_up", about, said, value=value)


@command
def answer(
    plan: PlanName,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE|-]", help="The answer: text or JSON; - is stdin.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", help="The step that asks, where several do.")] = None,
    answer: Annotated[str, typer.Option("--answer", help="The answer, such as yes or no.")] = "",
    tenant: Owner = NO_TENANT,
    *,
    said: Said,
) -> int:
    """Answer the question of a plan, which `planner show` prints.

    A question may come as a page: write the answers into it and send it back. A step that waits for an approval asks
    for its start: yes approves it, no ends the plan. If only one step asks, --step is optional.

    [b]planner show 3c-0199 --json | jq -r .waiting.document > page.md[/b]

    [b]planner answer 3c-0199 page.md --reason "as the team decided"[/b]

    [b]planner answer 3c-0199 --step migrate-schema --answer yes --reason "reviewed with the DBA"[/b]
    """
    if bool(file) == bool(answer):
        raise Failure.of("no_answer_given", "Give a FILE, or --answer, such as --answer yes.", USAGE)
    value = _value(file) if file else answer
    return _send("answer", one_plan(plan, step, tenant), said, step_id=step, value=value)


def _value(source: str) -> Any:
    """Return an answer: parsed JSON if it is an object or a list, else the text unchanged."""
    from schemas import codec

    raw = read_source(source)
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            return codec.loads(raw)
        except codec.DecodeError as error:
            raise Failure.of("invalid_json", f"{source} begins like JSON and is none: {error}.", USAGE) from error
    return raw.decode(errors="replace")
