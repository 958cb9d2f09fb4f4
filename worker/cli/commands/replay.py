"""`planner replay`: decides recorded plans again, and shows the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import FAILED, OK, Json, command, say, say_json
from worker.cli.recordings import HELP, read_recordings
from worker.cli.target import Owner
from worker.render.progress import ProgressLine
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from tasks.record.replay import Replay

Recorded = Annotated[list[str], typer.Argument(metavar="PLAN|FILE...", help=HELP)]


@command
def replay(plans: Recorded, tenant: Owner = NO_TENANT, as_json: Json = False) -> int:
    """Decide recorded plans again from their logs, and compare the decisions.

    The command compares the states, decisions, revisions and halts of every line, the final steps, and the log's
    digest, byte for byte. Exit code 1 if one differs, or cannot be decided again. It prints that line and the
    difference.

    [b]planner replay ci-4711[/b]

    [b]planner replay exports/ --json | jq 'select(.result != "equal")'[/b]
    """
    from tasks.record.replay import Result, told

    results: Counter[str] = Counter()
    with ProgressLine("plans replayed") as progress:
        for name, found in _replays(plans, tenant):
            results[found.result] += 1
            progress.step()
            if as_json:
                say_json({"source": name, **told(found)}, line=True)
            else:
                _show(name, found)
    if results.total() != 1 and not as_json:
        say(f"{results.total()} plans: {', '.join(f'{count} {result}' for result, count in results.items()) or 'none'}")
    return OK if results.total() == results[Result.EQUAL] else FAILED


def _replays(names: Sequence[str], tenant: str) -> Iterator[tuple[str, Replay]]:
    """Replay the named plans, one at a time."""
    from tasks.record.replay import Replay, Result, replay

    for source, found in read_recordings(names, tenant):
        yield source, Replay(source, Result.UNREADABLE, "", why=found) if isinstance(found, str) else replay(found)


def _show(name: str, found: Replay) -> None:
    from tasks.record.replay import Result

    about = f"{found.plan_id} {found.state}".strip()
    if found.result is Result.EQUAL:
        say(f"{about}: equal, {found.lines} lines")
    elif found.result is Result.DIFFERENT:
        where = "the stored plan differs" if found.line is None else f"line {found.line} differs"
        say(f"{about}: {where}, after {found.lines} lines that are equal ({name})")
        for part in found.parts:
            say(f"    {part.name}")
            say(f"      - {part.was}")
            say(f"      + {part.now}")
    else:
        say(f"{about}: not replayed: {found.why}")
    for sentence in found.assumed:
        say(f"    assumed: {sentence}")
