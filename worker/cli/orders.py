"""Orders to a plan: `planner approve`, `reject`, `pause`, `resume`, `halt`, `skip` and `top-up`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from worker.cli.console import FAILED, OK, USAGE, Failure, Json, Link, command, linked, say, say_json
from worker.cli.look import Which, find

Step = Annotated[str, typer.Argument(metavar="STEP", help="The id of the step.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with the order.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who orders it; you, unless said.")]

PATIENCE_S = 10.0
REFUSED = "dev.planner.command.refused.v1"


def _order(
    plan: str, name: str, reason: str, actor: str | None, as_json: bool, step: str | None = None, value: Any = None
) -> int:
    """Publish an order and tell what became of it; exit code 1 where it was refused."""
    with linked(block_s=PATIENCE_S) as link:
        told = _publish(link, plan, name, reason, actor, step, value)
    obeyed = told["type"] != REFUSED
    if as_json:
        say_json(told)
    else:
        say(f"{name}: done" if obeyed else f"{name}: refused, {told['data'].get('reason')}")
    return OK if obeyed else FAILED


def _publish(
    link: Link, plan: str, name: str, reason: str, actor: str | None, step: str | None, value: Any
) -> dict[str, Any]:
    import getpass
    import uuid

    from schemas import codec
    from schemas.command import Command, CommandName, Scope
    from worker.store.keys import Partition, partition_of

    plan_id = find(link, plan).plan_id
    home = Partition(partition_of(plan_id, link.partitions))
    order = Command(
        command_id=uuid.uuid4().hex,
        command=CommandName(name),
        scope=Scope.STEP if step else Scope.PLAN,
        plan_id=plan_id,
        step_id=step,
        actor=actor or getpass.getuser(),
        reason=reason,
        value=value,
    )
    last: Any = link.client.xrevrange(home.events, count=1)
    after = last[0][0] if last else b"0"
    link.client.xadd(home.commands, {"data": codec.encode(order, exclude_none=True)})
    return _await(link, home.events, after, order.command_id)


def _await(link: Link, events: str, after: bytes, command_id: str) -> dict[str, Any]:
    """Wait for the event that answers the order."""
    from schemas import codec

    end = time.monotonic() + PATIENCE_S
    while (left := end - time.monotonic()) > 0:
        reply: Any = link.client.xread({events: after}, count=100, block=max(1, int(1000 * left)))
        for entry, fields in [pair for _, found in reply or () for pair in found]:
            after, data = entry, codec.loads(fields[b"data"])
            if data.get("command_id") == command_id:
                return {"type": fields[b"type"].decode(), "data": data}
    raise Failure.of("no_answer", f"No worker took the order in {PATIENCE_S:g} s. Is one running (`planner worker`)?")


@command
def approve(plan: Which, step: Step, reason: Reason = "", actor: Actor = None, as_json: Json = False) -> int:
    """Let a step start that waits for an approval.

    [b]planner approve 3c-0199 migrate-schema --reason "reviewed with the DBA"[/b]
    """
    return _order(plan, "approve", reason, actor, as_json, step)


@command
def reject(plan: Which, step: Step, reason: Reason = "", actor: Actor = None, as_json: Json = False) -> int:
    """Refuse a step that waits for an approval; its plan halts.

    [b]planner reject 3c-0199 migrate-schema --reason "not this week"[/b]
    """
    return _order(plan, "reject", reason, actor, as_json, step)


@command
def skip(plan: Which, step: Step, reason: Reason = "", actor: Actor = None, as_json: Json = False) -> int:
    """Skip a step that waits to start; what depends on it goes on as if it were done.

    [b]planner skip 3c-0199 update-docs --reason "written already"[/b]
    """
    return _order(plan, "skip", reason, actor, as_json, step)


def _of_plan(name: str, text: str) -> Callable[..., None]:
    """Make the command for an order that needs nothing but its plan."""

    def run(plan: Which, reason: Reason = "", actor: Actor = None, as_json: Json = False) -> int:
        return _order(plan, name, reason, actor, as_json)

    run.__name__, run.__doc__ = name, f'{text}\n\n[b]planner {name} 3c-0199 --reason "the release"[/b]'
    return command(run)


pause = _of_plan("pause", "Start nothing more of a plan; what is in flight may finish, the wall clock stands still.")
resume = _of_plan("resume", "Go on with a plan that was paused.")
halt = _of_plan("halt", "End a plan; what is in flight is told to stop with its next heartbeat.")


@command
def top_up(
    plan: Which,
    tokens: Annotated[int, typer.Option(min=0, help="More tokens.")] = 0,
    patch_cycles: Annotated[int, typer.Option(min=0, help="More patch cycles.")] = 0,
    failing_outcomes: Annotated[int, typer.Option(min=0, help="More failing outcomes.")] = 0,
    wall_clock_s: Annotated[int, typer.Option(min=0, help="More seconds.")] = 0,
    reason: Reason = "",
    actor: Actor = None,
    as_json: Json = False,
) -> int:
    """Give a plan more of a budget. A budget is never lowered.

    [b]planner top-up 3c-0199 --tokens 50000 --reason "worth it"[/b]
    """
    amounts = {
        "tokens": tokens,
        "patch_cycles": patch_cycles,
        "failing_outcomes": failing_outcomes,
        "wall_clock_s": wall_clock_s,
    }
    value = {name: amount for name, amount in amounts.items() if amount}
    if not value:
        raise Failure.of("nothing_to_add", "Say what to add, such as --tokens 50000.", USAGE)
    return _order(plan, "top_up", reason, actor, as_json, value=value)
