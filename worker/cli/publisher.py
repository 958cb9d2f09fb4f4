"""Commands of operators to a planner, and what it says of them."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.command import Command
from worker.cli.console import USAGE, Failure
from worker.client.planner import ANSWER_S, Planner


def command(planner: Planner, **fields: Any) -> dict[str, Any]:
    """Put a command where it is obeyed; returns the event that answers it, as JSON."""
    (event,) = commands(planner, [fields])
    if event is None:
        detail = f"No worker took the command in {ANSWER_S:g} s. Is one running (`planner worker`)?"
        raise Failure.of("no_answer", detail)
    return event


def commands(planner: Planner, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
    """Put commands where they are obeyed; returns the event that answers each, None where no worker has."""
    try:
        made = [Command(command_id=uuid.uuid4().hex, **fields) for fields in wanted]
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise Failure.of("wrong_order", f"That is no order: {wrong}.", USAGE) from error
    return planner.command(made)


def own_name() -> str:
    """Name the account that runs this; one without a name, as containers may have, by its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
