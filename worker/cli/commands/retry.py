"""`planner retry`: a new plan from the goal of one that has ended."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.commands.submit import DEFAULT_TIMEOUT, Timeout, Wait, tell
from worker.cli.console import FAILED, OK, Failure, Json, command, open_planner, say_json
from worker.cli.target import Owner, PlanName, find
from worker.host.terminal import line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import PlanView
    from worker.client.planner import Planner


@command
def retry(
    plan: PlanName,
    tokens: Annotated[int | None, typer.Option(metavar="N", help="The new plan's limit of tokens.")] = None,
    base_sha: Annotated[str | None, typer.Option(help="The commit to begin at; else that of the old goal.")] = None,
    from_step: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Keep the results of the steps before this one.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=N", help="A limit of the new plan; again for more.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="May be changed, too; again for more.")
    ] = None,
    tenant: Owner = NO_TENANT,
    print_goal: Annotated[bool, typer.Option("--print", help="Print the goal, and send nothing.")] = False,
    wait: Wait = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> int:
    """Make a new plan from the goal of an ended plan.

    [b]planner retry 3c-0199 --tokens 200000[/b]

    [b]planner retry ci-4711 --base-sha $(git rev-parse HEAD) --wait end[/b]

    [b]planner retry ci-4711 --from verify-regression[/b]

    [b]planner retry ci-4711 --limit identical_failures=3 --allow src/tax.py[/b]

    [b]planner retry ci-4711 --print | planner submit - --no-fill[/b]

    The new goal has a new id, and the same limits, approvals and base commit. `planner show` names the other plan of
    each. A plan does not store the manifests of its goal. It stores only the parts of logs and documents that its steps
    received. The command lists missing parts. Supplied steps are the same in the new goal.
    """
    from worker.cli import goal_options, waiting
    from worker.sources.retry import with_changes

    timeout_s = waiting.seconds(timeout or DEFAULT_TIMEOUT[wait])
    with open_planner() as planner:
        view = find(planner, plan, tenant)
        body, left_out = _goal_of(planner, view, from_step)
        limits = {**goal_options.limits_of(limit or ()), **({} if tokens is None else {"tokens": tokens})}
        body = with_changes(body, limits=limits, base_sha=base_sha, allow=allow or ())
        data, digest = goal_options.encode(body, planner.settings.max_goal_bytes)
        if left_out and not as_json:
            line(f"Not kept of the goal, and missing in the new one: {', '.join(left_out)}.", err=True)
        if print_goal:
            say_json(body)
            return OK
        begins = body.get("context", {}).get("base_sha")
        if begins and base_sha is None and not as_json:
            line(
                f"The new goal begins at {begins}, like the previous one. Use --base-sha for another commit.", err=True
            )
        sent = planner.publish(data, body["goal_id"], body.get("tenant"), digest)
        result = {"retry_of": view.plan_id, "base_sha": begins, "left_out": left_out}
        return tell(planner, sent, result, wait, timeout_s, as_json=as_json)


def _goal_of(planner: Planner, view: PlanView, from_step: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return the goal of a plan under a new id, and the parts of the old goal that are missing. Raises Failure."""
    from worker.sources.retry import NoRetry, retry_of

    kept, left_out = planner.kept_goal(view.plan_id, from_step)
    try:
        return retry_of(view.plan_id, view.state, kept, left_out, f"retry-{uuid.uuid4().hex}")
    except NoRetry as error:
        raise Failure.of(error.code, str(error), FAILED) from error


@command
def follow_up(
    plan: PlanName,
    goal: Annotated[str, typer.Option("--goal", "-g", help="The further change, in a sentence.")],
    file: Annotated[list[str] | None, typer.Option("--file", "-f", help="May be changed, too; again for more.")] = None,
    tenant: Owner = NO_TENANT,
    print_goal: Annotated[bool, typer.Option("--print", help="Print the goal, and send nothing.")] = False,
    wait: Wait = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> int:
    """Send a goal that continues from the changes of a plan.

    [b]planner follow-up 3c-0199 --goal "Add a test for the empty basket" --wait end[/b]

    The new plan begins at the last commit of the previous plan. It has the same repository, files, language, test
    command, approvals and queue.
    """
    from worker.cli import goal_options, waiting
    from worker.sources.retry import NoRetry, follow_up_of

    timeout_s = waiting.seconds(timeout or DEFAULT_TIMEOUT[wait])
    with open_planner() as planner:
        view = find(planner, plan, tenant)
        kept, _ = planner.kept_goal(view.plan_id)
        try:
            body = follow_up_of(view, kept, goal, f"follow-up-{uuid.uuid4().hex}", file or ()).body
        except NoRetry as error:
            raise Failure.of(error.code, str(error), FAILED) from error
        data, digest = goal_options.encode(body, planner.settings.max_goal_bytes)
        if print_goal:
            say_json(body)
            return OK
        sent = planner.publish(data, body["goal_id"], body.get("tenant"), digest)
        return tell(planner, sent, {"from": view.plan_id}, wait, timeout_s, as_json=as_json)
