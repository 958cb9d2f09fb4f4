"""The target of a command: one plan, or every plan of a scope; and its end time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import MISSING, USAGE, Failure, open_planner
from worker.host.terminal import confirm
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.command import Scope
    from schemas.plan import PlanView
    from worker.client.planner import Planner

PLAN_HELP = "The id of a plan, the first characters of that id, or the id of its goal."
MOST_COMPLETIONS = 100  # the newest plans, from which a shell offers the matching ones


def complete_plan(incomplete: str) -> list[tuple[str, str]]:
    """Return the newest plans with this prefix, each with its state, for a shell's completion.

    Returns none if no server answers.
    """
    begin = incomplete if incomplete.startswith("plan_"[: len(incomplete)]) else f"plan_{incomplete}"
    try:
        with open_planner() as planner:
            found = planner.plans(most=MOST_COMPLETIONS)
    except Failure:
        return []
    cut = 0 if begin == incomplete else len("plan_")
    return [(each.plan_id[cut:], each.state) for each in found if each.plan_id.startswith(begin)]


PlanName = Annotated[str, typer.Argument(metavar="PLAN", help=PLAN_HELP, autocompletion=complete_plan)]
AnyPlan = Annotated[str | None, typer.Argument(metavar="PLAN", help=PLAN_HELP, autocompletion=complete_plan)]
Owner = Annotated[str, typer.Option("--tenant", metavar="T", help="The tenant of the goal, if PLAN is a goal's id.")]
Repository = Annotated[
    str | None, typer.Option("--repository", metavar="R", help="Every plan of this repository, as goals name it.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="T", help="Every plan of this tenant.")]
Everyone = Annotated[bool, typer.Option("--all", help="Every plan there is.")]
Queue = Annotated[str | None, typer.Option("--queue", metavar="Q", help="The steps of this queue, of all plans.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a command about all plans, or many.")]

LENGTH = re.compile(r"([1-9][0-9]{0,5})([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def find(planner: Planner, prefix: str, tenant: str = NO_TENANT, *, activity: bool = False) -> PlanView:
    """Return the plan with this id, this beginning of an id, or this goal. Raises Failure for none and several.

    With `activity`, each step has its current activity.
    """
    from schemas.envelope import FieldError

    view = planner.plan(planner.resolve(prefix, tenant), activity=activity)
    if view is None:
        answer = planner.goal(prefix, tenant)
        why = f"{answer.verdict} {answer.reason}".strip() if answer else "it is being made, or was forgotten"
        errors = [FieldError(**each) for each in answer.errors] if answer else []
        raise Failure.of("no_such_plan", f"{prefix} has no plan: {why}.", MISSING, errors)
    return view


@dataclass(frozen=True, slots=True)
class Target:
    """The scope of a command, and the name of its target."""

    scope: Scope
    plan: str | None = None
    name: str | None = None  # of the repository or the tenant
    owner: str = NO_TENANT  # whose goal `plan` is, where that is a goal's id

    def __str__(self) -> str:
        from schemas.command import Scope

        if self.scope is Scope.ALL:
            return "every plan there is"
        return self.plan or f"every plan of the {self.scope} {self.name}"


def one_plan(plan: str, step: str | None = None, owner: str = NO_TENANT) -> Target:
    """Return a plan, or one of its steps, as a target."""
    from schemas.command import Scope

    return Target(Scope.STEP if step else Scope.PLAN, plan=plan, owner=owner)


@dataclass(frozen=True, slots=True)
class Aim:
    """The options for the scope of a command: one plan, or every plan of a scope."""

    plan: AnyPlan = None
    repository: Repository = None
    tenant: Tenant = None
    everyone: Everyone = False

    def target(self, queue: str | None = None) -> Target:
        """Return the one target that the options name. Raises Failure if they name none or several."""
        from schemas.command import Scope

        named = [Target(Scope.PLAN, plan=self.plan)] if self.plan else []
        scopes = ((Scope.REPOSITORY, self.repository), (Scope.TENANT, self.tenant), (Scope.QUEUE, queue))
        named += [Target(scope, name=name) for scope, name in scopes if name]
        if self.everyone:
            named.append(Target(Scope.ALL))
        if len(named) != 1:
            detail = "Name one PLAN, or give --repository, --tenant or --all: exactly one of them."
            raise Failure.of("no_aim" if not named else "several_aims", detail, USAGE)
        return named[0]


def moment(text: str | None, option: str = "--until") -> datetime | None:
    """Return the value of an option about the future: a time such as 2026-11-21T20:30:00Z, or a duration such as 2h."""
    if text is None:
        return None
    now = datetime.now(UTC)
    until = now + length if (length := _length(text)) else _time(option, text)
    if until <= now:
        raise Failure.of("wrong_time", f"{option} {text} is over.", USAGE)
    return until


def past(option: str, text: str | None) -> datetime | None:
    """Return the value of an option about the past: a time such as 2026-11-21T20:30:00Z, or a duration such as 2h."""
    if text is None:
        return None
    return datetime.now(UTC) - length if (length := _length(text)) else _time(option, text)


def span(option: str, text: str) -> timedelta:
    """Return the value of an option that is a duration such as 2h."""
    if found := _length(text):
        return found
    raise Failure.of("wrong_time", f"{option} {text!r} is no length such as 30m, 2h or 1d.", USAGE)


def _length(text: str) -> timedelta | None:
    found = LENGTH.fullmatch(text)
    return timedelta(**{UNITS[found[2]]: int(found[1])}) if found else None


def _time(option: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        detail = f"{option} {text!r} is neither a time such as 2026-11-21T20:30:00Z nor a length such as 30m, 2h or 1d."
        raise Failure.of("wrong_time", detail, USAGE) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def may_go(name: str, target: Target, *, yes: bool, as_json: bool) -> bool:
    """Return whether to go on: ask the user before a command to all plans, unless `yes`. Raises Failure with --json."""
    from schemas.command import Scope

    if yes or target.scope is not Scope.ALL:
        return True
    if as_json:
        raise Failure.of("not_asked", "--json asks for no confirmation: add --yes.", USAGE)
    return confirm(f"{name.capitalize()} {target}?")
