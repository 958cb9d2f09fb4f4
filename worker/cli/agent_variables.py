"""`--agent-env NAME`: further variables of our environment for an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from worker.cli.console import USAGE, Failure

AgentEnv = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A variable of this environment that the agent gets; again for more."),
]


def agent_variables(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of an agent's variables. Raises Failure for wrong names and the planner's own variables."""
    from worker.sandbox.process import PRIVATE

    for name in names or ():
        if not name.isidentifier():
            raise Failure.of("wrong_variable", f"--agent-env {name}: say the name of a variable, as NAME.", USAGE)
        if name.startswith(PRIVATE):
            raise Failure.of("wrong_variable", f"--agent-env {name}: no agent gets the planner's own variables.", USAGE)
    return tuple(names or ())
