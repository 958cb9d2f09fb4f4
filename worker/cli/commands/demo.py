"""`planner demo`: a real repository, a small fleet, and a plan from its goal to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.agent_variables import AgentEnv, agent_variables
from worker.cli.console import USAGE, Failure, Json, Kind, command
from worker.host.terminal import Terminal


@command
def demo(
    kind: Annotated[Kind, typer.Option(help="The kind of goal.")] = Kind.TASK,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the directory with the repository.")] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="CMD", help="Who works: a command that is given the prompt, claude, codex, or a data file."
        ),
    ] = None,
    agent_path: Annotated[
        list[str] | None, typer.Option(metavar="PATH[:rw]", help="What that agent may read or write; again for more.")
    ] = None,
    agent_env: AgentEnv = None,
    page: Annotated[
        bool, typer.Option("--page", help="Serve the page beside it, with a key that is told, until Ctrl-C.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the end into this file.")] = None,
    as_json: Json = False,
) -> int:
    """See it work: a real repository, a small fleet, a plan to its end.

    It takes less than a minute.

    [b]planner demo[/b]

    [b]planner demo --kind campaign[/b]

    [b]planner demo --kind reviewed_plan --agent "my-agent --print"[/b]

    [b]planner demo --page[/b]

    With --agent, for the kind reviewed_plan, an agent of yours plays all roles: each step's prompt on its standard
    input, its answer on its standard output. Of this environment a command gets basic variables such as PATH, those of
    models' providers such as ANTHROPIC_API_KEY, and those that --agent-env names.

    Needs nothing running. Exit code 0 only if the plan is COMPLETED and the tests pass.
    """
    from worker.demo.engine import run
    from worker.demo.fleet import DemoAgent

    if agent is not None and kind is not Kind.REVIEWED_PLAN:
        raise Failure.of("wrong_kind", "--agent plays the kind reviewed_plan alone.", USAGE)
    for option, named in (("--agent-path", agent_path), ("--agent-env", agent_env)):
        if named and agent is None:
            raise Failure.of("no_agent", f"{option} is for the agent of --agent, and there is none.", USAGE)
    if page and as_json:
        raise Failure.of("no_page", "--page is for people, who end it by Ctrl-C: --json prints once and ends.", USAGE)
    variables = agent_variables(agent_env)
    given = DemoAgent(agent, tuple(agent_path or ()), variables) if agent is not None else None
    if given and (fault := given.fault):
        raise Failure.of("no_agent", fault, USAGE)
    console = Terminal(stderr=as_json)
    return run(kind.value, as_json=as_json, keep=keep, console=console, svg=svg, agent=given, with_page=page)
