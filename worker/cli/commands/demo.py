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
        typer.Option(metavar="CMD", help="The agent: a command that reads the prompt, claude, codex, or a data file."),
    ] = None,
    agent_path: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH[:rw]", help="A path that this agent may read or write; repeatable."),
    ] = None,
    agent_env: AgentEnv = None,
    page: Annotated[bool, typer.Option("--page", help="Also serve the page until Ctrl-C, and print a key.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the end into this file.")] = None,
    as_json: Json = False,
) -> int:
    """Run a demo: a real repository, a small fleet, and a plan from its goal to its end.

    It takes less than a minute.

    [b]planner demo[/b]

    [b]planner demo --kind campaign[/b]

    [b]planner demo --kind reviewed_plan --agent "my-agent --print"[/b]

    [b]planner demo --page[/b]

    With --agent and the kind reviewed_plan, your agent plays all roles. It reads the prompt of each step on its
    standard input and writes its answer to its standard output. The command gets basic variables such as PATH, those of
    model providers such as ANTHROPIC_API_KEY, and those of --agent-env.

    It needs no running server. Exit code 0 only if the plan is COMPLETED and the tests pass.
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
