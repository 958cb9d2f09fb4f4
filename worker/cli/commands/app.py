"""The `planner` command, which combines one file for each command or family.

Commands import their modules when they run, so that `planner --help` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.commands import (
    attempt,
    audit,
    backtest,
    controller,
    dead,
    demo,
    doctor,
    document,
    endpoints,
    explain,
    export,
    exporter,
    fleet,
    gateway,
    health,
    keys,
    kinds,
    log,
    mcp,
    memory,
    partitions,
    plan_commands,
    plans,
    policy,
    replay,
    retry,
    review,
    schemas,
    stats,
    submit,
    summary,
    up,
    verify,
    webhook,
    worker,
)
from worker.host.code_version import CODE_VERSION, commit
from worker.host.terminal import line

app = typer.Typer(
    help="The planner that fleets of coding agents are run by: goals in, governed step specs out.",
    epilog="Begin with [b]planner demo[/b]. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 too late, 130 Ctrl-C.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


def _version(asked: bool) -> None:
    if asked:
        line(f"planner-worker {CODE_VERSION} (commit {commit()})")
        raise typer.Exit


@app.callback()
def _planner(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print version and commit, and end."),
    ] = False,
) -> None:
    pass


PANELS = {  # in the order of `planner --help`
    "Try it": (demo.demo, up.up),
    "Use it": (
        submit.submit,
        plans.plans,
        plans.show,
        plans.watch,
        explain.explain,
        log.log,
        document.document,
        summary.summary,
        review.review,
        stats.stats,
        attempt.attempt,
    ),
    "Command it": (
        plan_commands.approve,
        plan_commands.reject,
        plan_commands.skip,
        plan_commands.pause,
        plan_commands.resume,
        plan_commands.halt,
        plan_commands.cancel,
        plan_commands.tighten,
        plan_commands.top_up,
        plan_commands.answer,
        retry.retry,
        retry.follow_up,
    ),
    "Run it": (
        worker.worker,
        gateway.gateway,
        exporter.exporter,
        mcp.mcp,
        controller.controller,
        fleet.queues,
        fleet.controllers,
        partitions.partitions,
        policy.app,
        health.health,
        keys.app,
        audit.audit,
        dead.app,
        webhook.app,
        endpoints.app,
        memory.app,
        doctor.doctor,
        export.export,
        verify.verify,
        verify.sign,
        replay.replay,
        backtest.backtest,
    ),
    "Build on it": (schemas.schemas, kinds.kinds),
}
for panel, members in PANELS.items():
    for member in members:
        if isinstance(member, typer.Typer):
            app.add_typer(member, rich_help_panel=panel)
        else:
            like = submit.SubmitCommand if member in (submit.submit, retry.retry, retry.follow_up) else None
            app.command(member.__name__.replace("_", "-"), cls=like, rich_help_panel=panel)(member)


def main() -> None:
    """Run the command line."""
    app(prog_name="planner")
