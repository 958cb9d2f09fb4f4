"""`planner answer`: what a plan asked, answered with a word, a page or a JSON document."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from worker.cli.command_publisher import send
from worker.cli.commands.plan_commands import Actor, Reason, one
from worker.cli.console import USAGE, Failure, Json, command, read_source
from worker.cli.plan_argument import Which


@command
def answer(
    plan: Which,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE|-]", help="The answer: text or JSON; - is stdin.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", help="The step that asks, where several do.")] = None,
    answer: Annotated[str, typer.Option("--answer", help="What is answered, such as yes or no.")] = "",
    reason: Reason = "",
    actor: Actor = None,
    as_json: Json = False,
) -> int:
    """Answer what a plan asks; `planner show` tells its questions.

    A question may come as a page: write the answers into it and send it back. A step that waits for an approval asks
    whether it may start: yes approves it, no ends the plan. Where only one step asks, --step may be left out.

    [b]planner show 3c-0199 --json | jq -r .waiting.document > page.md[/b]

    [b]planner answer 3c-0199 page.md --reason "as the team decided"[/b]

    [b]planner answer 3c-0199 --step migrate-schema --answer yes --reason "reviewed with the DBA"[/b]
    """
    if bool(file) == bool(answer):
        raise Failure.of("no_answer_given", "Say a FILE, or --answer, such as --answer yes.", USAGE)
    value = _value(file) if file else answer
    return send("answer", one(plan, step), reason, actor, as_json, step_id=step, value=value)


def _value(source: str) -> Any:
    """Read an answer: JSON where it is an object or a list, else text as it stands."""
    from schemas import codec

    raw = read_source(source)
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            return codec.loads(raw)
        except codec.DecodeError as error:
            raise Failure.of("invalid_json", f"{source} begins like JSON and is none: {error}.", USAGE) from error
    return raw.decode(errors="replace")
