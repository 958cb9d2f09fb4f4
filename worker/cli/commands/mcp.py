"""`planner mcp`: the planner for an agent that speaks MCP on standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import OK, USAGE, Failure, SecretsFd, command, needs_extra, read_settings, refuse_server


@command
def mcp(
    queue: Annotated[
        list[str] | None, typer.Option(metavar="Q", help="Queues that it may use without PLANNER_URL; else `default`.")
    ] = None,
    secrets_fd: SecretsFd = None,
) -> int:
    """Serve MCP to the agent that starts this: tools to ask for work, to look at plans, and to do steps.

    [b]claude mcp add planner -e PLANNER_URL=https://planner.example -e PLANNER_API_KEY=pk_... -- planner mcp[/b]

    With PLANNER_URL and PLANNER_API_KEY it asks that gateway, and may what the key may. Without, it asks the Redis of
    PLANNER_REDIS_URL, or of a `planner up` with the same PLANNER_DATA_DIR, by a key of its own that commands nothing
    and gives no consent. Claims of steps are renewed while the agent lives. docs/mcp.md has what to paste for agents.
    """
    settings = read_settings(secrets_fd)
    if not settings.url:
        refuse_server(settings)
    with needs_extra("mcp", "MCP"):
        import anyio

        from worker.gateway import mcp_stdio
    from worker.client.planner import Trouble
    from worker.telemetry import logs

    logs.set_up_logs(settings.log_level)
    try:
        anyio.run(mcp_stdio.serve, settings, tuple(queue or ("default",)))
    except Trouble as trouble:
        raise Failure(trouble.problem, USAGE) from None
    return OK
