"""The options that select plans, for `planner plans` and for commands about several plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import USAGE, Failure
from worker.cli.target import Aim, Yes, past

if TYPE_CHECKING:
    from worker.store.plan_lists import PlanFilter


State = Annotated[str | None, typer.Option("--state", metavar="STATE", help="Plans in this state, such as HALTED.")]
OfKind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Plans of this kind of goal.")]
Repo = Annotated[str | None, typer.Option("--repo", metavar="R", help="Plans of this repository, as goals name it.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", metavar="T", help="Plans of this tenant.")]
Rule = Annotated[
    str | None, typer.Option("--rule", metavar="RULE", help="Plans that this rule ended: budget, manual, rejected, ...")
]
Waiting = Annotated[bool, typer.Option("--waiting", help="Plans that wait for an answer or an approval.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Made then or later: 2026-11-21T20:30:00Z, 30m, 2h, 7d.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Made before then; as --since.")]
WithText = Annotated[str, typer.Option("--text", metavar="WORDS", help="Words of the goal, its id or the repository.")]
IdPrefix = Annotated[
    str, typer.Option("--id-prefix", metavar="ID", help="Plans whose id begins with these characters.")
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options of a command that select current plans one by one."""

    state: State = None
    kind: OfKind = None
    repo: Repo = None
    rule: Rule = None
    waiting: Waiting = False
    since: Since = None
    yes: Yes = False

    def plans(self, aim: Aim, queue: str | None = None) -> PlanFilter | None:
        """Return a filter of these options; None without them, since --tenant alone means the tenant as a whole.

        Raises Failure if a plan or a scope is given as well.
        """
        if not any((self.state, self.kind, self.repo, self.rule, self.waiting, self.since)):
            return None
        if any((aim.plan, aim.repository, aim.everyone, queue)):
            detail = "Name a PLAN or a scope, or choose plans by --state, --kind, --repo, --rule, --waiting or --since."
            raise Failure.of("several_aims", detail, USAGE)
        return Listed(self.state, self.kind, self.repo, aim.tenant, self.rule, self.waiting, self.since).plans()


@dataclass(frozen=True, slots=True)
class Listed:
    """The options that select the listed plans."""

    state: State = None
    kind: OfKind = None
    repo: Repo = None
    tenant: OfTenant = None
    rule: Rule = None
    waiting: Waiting = False
    since: Since = None
    until: Until = None
    id_prefix: IdPrefix = ""
    text: WithText = ""

    def plans(self) -> PlanFilter:
        """Return a filter of the options. Raises Failure for an unknown word."""
        from schemas.base import GoalKind, PlanState
        from worker.store.plan_lists import PlanFilter

        return PlanFilter(
            state=_one_of("--state", self.state and self.state.upper(), PlanState),
            kind=_one_of("--kind", self.kind and self.kind.lower(), GoalKind),
            repo=self.repo,
            tenant=self.tenant,
            rule=self.rule,
            waiting=self.waiting,
            since=past("--since", self.since),
            until=past("--until", self.until),
            id_prefix=self.id_prefix,
            text=self.text,
        )


def _one_of(option: str, word: str | None, known: Iterable[str]) -> str | None:
    if word is None or word in list(known):
        return word
    raise Failure.of("unknown_word", f"{option} {word} is none of {', '.join(known)}.", USAGE)
