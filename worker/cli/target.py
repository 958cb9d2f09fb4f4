"""What an order is about: one plan, or all plans of a repository, of a tenant, or everybody's; and until when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import USAGE, Failure
from worker.host.terminal import confirm

if TYPE_CHECKING:
    from schemas.command import Scope

Which = Annotated[str | None, typer.Argument(metavar="PLAN", help="The id of a plan, its beginning, or a goal's id.")]
Repository = Annotated[
    str | None, typer.Option("--repository", metavar="R", help="Every plan of this repository, as goals name it.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="T", help="Every plan of this tenant.")]
Everyone = Annotated[bool, typer.Option("--all", help="Every plan there is.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an order about all plans.")]

LENGTH = re.compile(r"([1-9][0-9]{0,5})([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Aim:
    """How far an order reaches, and what it names there."""

    scope: Scope
    plan: str | None = None
    target: str | None = None

    def __str__(self) -> str:
        from schemas.command import Scope

        if self.scope is Scope.ALL:
            return "every plan there is"
        return self.plan or f"every plan of the {self.scope} {self.target}"


def aim(plan: str | None, repository: str | None, tenant: str | None, everyone: bool = False) -> Aim:
    """Take the one that was named; raises Failure for none and for several."""
    from schemas.command import Scope

    named = [
        Aim(scope, plan=name if scope is Scope.PLAN else None, target=None if scope is Scope.PLAN else name)
        for scope, name in ((Scope.PLAN, plan), (Scope.REPOSITORY, repository), (Scope.TENANT, tenant))
        if name
    ]
    if everyone:
        named.append(Aim(Scope.ALL))
    if len(named) != 1:
        detail = "Name one PLAN, or say --repository, --tenant or --all: exactly one of them."
        raise Failure.of("no_aim" if not named else "several_aims", detail, USAGE)
    return named[0]


def moment(text: str | None) -> datetime | None:
    """Read `--until`: a time such as 2026-11-21T20:30:00Z, or how long from now, such as 30m, 2h or 1d."""
    if text is None:
        return None
    now = datetime.now(UTC)
    if found := LENGTH.fullmatch(text):
        return now + timedelta(**{UNITS[found[2]]: int(found[1])})
    try:
        until = datetime.fromisoformat(text)
    except ValueError as error:
        detail = f"--until {text!r} is neither a time such as 2026-11-21T20:30:00Z nor a length such as 30m, 2h or 1d."
        raise Failure.of("wrong_time", detail, USAGE) from error
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    if until <= now:
        raise Failure.of("wrong_time", f"--until {text} is over.", USAGE)
    return until


def may_go(name: str, about: Aim, *, yes: bool, as_json: bool) -> bool:
    """Ask before an order that ends all plans; raises Failure where nobody can be asked."""
    from schemas.command import Scope

    if yes or about.scope is not Scope.ALL:
        return True
    if as_json:
        raise Failure.of("not_asked", "With --json nobody is asked: say --yes too.", USAGE)
    return confirm(f"{name.capitalize()} {about}?")
