"""`planner migrate`: the rules of this release for a plan that began under older ones."""

from __future__ import annotations

from worker.cli.commands.plan_commands import Actor, Reason, send
from worker.cli.console import Json, command
from worker.cli.target import Owner, PlanName, one_plan
from worker.store.keys import NO_TENANT


@command
def migrate(
    plan: PlanName,
    tenant: Owner = NO_TENANT,
    reason: Reason = "",
    actor: Actor = None,
    as_json: Json = False,
) -> int:
    """Take a plan that began under older rules to those of this release.

    Its limits, steps and tools stay as they were made. No attempt may be in flight: pause the plan and wait.

    [b]planner migrate 3c-0199 --reason "the release before goes away"[/b]

    Exit code 1 where it is refused: the plan has ended, has these rules already, or the worker does not know them.
    """
    from tasks.base.policy_version import POLICY_VERSION

    value = {"policy_version": POLICY_VERSION}
    return send("migrate", one_plan(plan, None, tenant), reason, actor, as_json, value=value)
