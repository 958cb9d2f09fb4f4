"""The `planner` command: one file per command or family, put together here.

Commands import what they need when they run, so that `planner --help` is quick.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from worker.cli.commands import (
    answer,
    dead,
    doctor,
    explain,
    export,
    extras,
    health,
    plan_commands,
    plans,
    run,
    submit,
    up,
)
from worker.host.terminal import line

app = typer.Typer(
    help="The planner that fleets of coding agents are run by: goals in, governed step specs out.",
    epilog="Begin with [b]planner demo[/b]. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


def _version(asked: bool) -> None:
    if asked:
        line(f"planner-worker {version('planner-worker')}")
        raise typer.Exit


@app.callback()
def _planner(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


app.command(rich_help_panel="Try it")(extras.demo)
app.command(rich_help_panel="Try it")(up.up)
app.command(rich_help_panel="Use it")(submit.submit)
app.command(rich_help_panel="Use it")(plans.plans)
app.command(rich_help_panel="Use it")(plans.show)
app.command(rich_help_panel="Use it")(plans.watch)
app.command(rich_help_panel="Use it")(explain.explain)
ORDERS = ("approve", "reject", "skip", "pause", "resume", "halt", "cancel", "tighten", "top-up")
for name in ORDERS:
    app.command(name, rich_help_panel="Order it")(getattr(plan_commands, name.replace("-", "_")))
app.command(rich_help_panel="Order it")(answer.answer)
app.command(rich_help_panel="Run it")(run.worker)
app.command(rich_help_panel="Run it")(run.controller)
app.command(rich_help_panel="Run it")(run.partitions)
app.command(rich_help_panel="Run it")(health.health)
app.add_typer(dead.app, name="dead", rich_help_panel="Run it")
app.command(rich_help_panel="Run it")(doctor.doctor)
app.command(rich_help_panel="Run it")(export.export)
app.command(rich_help_panel="Build on it")(extras.schemas)
app.command(rich_help_panel="Build on it")(extras.bench)


def main() -> None:
    """Run the command line."""
    app(prog_name="planner")
