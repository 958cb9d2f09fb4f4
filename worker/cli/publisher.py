"""Sends commands of operators to a planner, and returns their results."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.command import Command, CommandName, Scope
from schemas.wording import expected
from tasks.base.batches import batches
from tasks.plan.lifecycle import PLAN_ENDS
from worker.cli.console import FAILED, OK, USAGE, Failure, open_planner, say, say_json
from worker.client.planner import ANSWER_S, REFUSED, Planner
from worker.host.terminal import confirm
from worker.render.progress import ProgressLine
from worker.store.plan_lists import PlanFilter

AT_ONCE = 100  # commands that are waited for together; their events must not be cut before they are read
SHOWN = 20  # of those that were refused


def command(planner: Planner, **fields: Any) -> dict[str, Any]:
    """Publish a command. Returns the event that answers it, as JSON."""
    (event,) = commands(planner, [fields])
    if event is None:
        detail = f"No worker took the command in {ANSWER_S:g} s. Is one running (`planner worker`)?"
        raise Failure.of("no_answer", detail)
    return event


def commands(planner: Planner, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
    """Publish commands. Returns for each the event that answers it, or None if no worker answered. Raises Failure."""
    try:
        made = [Command(command_id=uuid.uuid4().hex, **fields) for fields in wanted]
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {expected(each)}" for each in error.errors())
        raise Failure.of("wrong_order", f"That is no order: {wrong}.", USAGE) from error
    return planner.command(made)


def command_plans(name: str, wanted: PlanFilter, *, yes: bool, as_json: bool, **said: Any) -> int:
    """Send the command `name` to every live plan that matches; `resume` only to plans that are paused.

    Asks the user first, unless `yes`. Returns exit code 1 if the user declines, or if a command was refused or not
    answered.
    """
    with open_planner(block_s=ANSWER_S) as planner:
        found = [plan for plan in planner.plans(wanted) if plan.state not in PLAN_ENDS]
        ids = [plan.plan_id for plan in found if name != CommandName.RESUME or plan.paused]
        if ids and not yes and not _may_go(name, len(ids), as_json=as_json):
            return FAILED
        obeyed, refused, unanswered = 0, [], list[str]()
        with ProgressLine(f"{name}: plans") as progress:
            for some in batches(ids, AT_ONCE):
                orders = [{"command": CommandName(name), "scope": Scope.PLAN, "plan_id": each, **said} for each in some]
                for plan_id, event in zip(some, commands(planner, orders), strict=True):
                    progress.step()
                    if event is None:
                        unanswered.append(plan_id)
                    elif event["type"] == REFUSED:
                        refused.append({"plan_id": plan_id, "reason": event["data"].get("reason")})
                    else:
                        obeyed += 1
                if len(unanswered) >= AT_ONCE:
                    break  # no worker runs
    told = {"command": name, "plans": len(ids), "obeyed": obeyed, "refused": refused, "unanswered": unanswered}
    if as_json:
        say_json(told)
    else:
        _say(name, len(ids), obeyed, refused, unanswered)
    return OK if obeyed == len(ids) else FAILED


def _may_go(name: str, count: int, *, as_json: bool) -> bool:
    """Ask the user for a confirmation, and return the answer. Raises Failure with --json or without a terminal."""
    if as_json or not sys.stdin.isatty():
        raise Failure.of("not_asked", f"This affects {count} plans, and no terminal can confirm it: add --yes.", USAGE)
    return confirm(f"{name.capitalize()} {count} plans?")


def _say(name: str, count: int, obeyed: int, refused: list[dict[str, Any]], unanswered: list[str]) -> None:
    if not count:
        say("No plan that has not ended is like that.")
        return
    say(f"{name}: {obeyed} of {count} plans done")
    for each in refused[:SHOWN]:
        say(f"{each['plan_id']}: refused, {each['reason']}")
    if len(refused) > SHOWN:
        say(f"... and {len(refused) - SHOWN} more were refused")
    if unanswered:
        say(f"No worker answered for {len(unanswered)} plans. Is one running (`planner worker`)?")
