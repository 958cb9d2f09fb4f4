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
    """Serve MCP to the agent that starts this command: tools to send goals, read plans and do steps.

    [b]claude mcp add planner -e PLANNER_URL=https://planner.example -e PLANNER_API_KEY=pk_... -- planner mcp[/b]

    With PLANNER_URL and PLANNER_API_KEY it uses that gateway with the rights of the key. Otherwise it uses the Redis of
    PLANNER_REDIS_URL, or of a `planner up` with the same PLANNER_DATA_DIR. There it makes its own key, which sends no
    commands and gives no consent. It renews claims of steps while the agent lives. docs/mcp.md has the configuration of
    agents.
    """
    settings = read_settings(secrets_fd)
    if not settings.url:
        refuse_server(settings)
    with needs_extra("mcp", "MCP"):
        import anyio

        from worker.gateway import mcp_stdio
    from worker.client.trouble import Trouble
    from worker.telemetry import logs

    logs.set_up_logs(settings.log_level)
    try:
        anyio.run(mcp_stdio.serve, settings, tuple(queue or ("default",)))
    except Trouble as trouble:
        raise Failure(trouble.problem, USAGE) from None
    return OK
