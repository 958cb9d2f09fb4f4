"""`planner schemas`: the contract of the wire, as files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.console import Json, command, say, say_json


@command
def schemas(
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Where to; made if missing.")],
    as_json: Json = False,
) -> None:
    """Write the contract: a JSON Schema 2020-12 per message, the streams as AsyncAPI 3.1, HTTP as OpenAPI 3.1.

    [b]planner schemas --out docs/schemas[/b]

    OpenAPI takes the extra `gateway`, and is left out without it.
    """
    from schemas.contract.messages import documents

    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in (*documents(), *_http()):
        (out / name).write_bytes(text)
        written.append(str(out / name))
    say_json(written) if as_json else say("\n".join(written))


def _http() -> Iterator[tuple[str, bytes]]:
    if find_spec("fastapi"):
        from worker.gateway.app import contract
        from worker.gateway.openapi import FILE

        yield FILE, contract()
