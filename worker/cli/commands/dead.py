"""`planner dead list`, `show`, `replay` and `drop`: entries that could not be read or decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import FAILED, MISSING, OK, USAGE, Failure, Json, command, family, open_link, say, say_json
from worker.cli.target import past
from worker.host.terminal import confirm
from worker.render.progress import ProgressLine

if TYPE_CHECKING:
    from worker.client.redis_planner import RedisPlanner
    from worker.store.dead import Dead, Filter

app = family("dead", "Look at entries that could not be read or decided about, send them back, or drop them.")

Which = Annotated[list[str] | None, typer.Argument(metavar="ENTRY", help="As `planner dead list` names them.")]
Cause = Annotated[str, typer.Option("--cause", "-c", help="Only those of this cause, such as invalid_json.")]
Stream = Annotated[str, typer.Option("--stream", "-s", help="Only these: goals, outcomes, commands, a partition.")]
Since = Annotated[str, typer.Option("--since", help="Only younger ones: 90s, 30m, 2h, 7d, or an RFC 3339 time.")]
Every = Annotated[bool, typer.Option("--all", help="Every entry.")]

MOST_REASONS = 100  # reasons for entries that were left out


@dataclass(frozen=True, slots=True)
class Kind:
    """The options that select dead entries by cause, stream and time."""

    cause: Cause = ""
    stream: Stream = ""
    since: Since = ""

    def filter(self) -> Filter:
        """Return the filter of these options. Raises Failure if `--since` is neither a duration nor a time."""
        from worker.store.dead import Filter

        after = past("--since", self.since or None)
        return Filter(self.cause, self.stream, max(0, int(after.timestamp() * 1000)) if after else 0)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """The options that select entries by name or by common properties."""

    entry: Which = None
    every: Every = False

    def __str__(self) -> str:
        from worker.render.plan import plain

        if self.entry:
            return plain(", ".join(self.entry))
        said = {"cause": self.cause, "stream": self.stream, "since": self.since}
        limits = ", ".join(f"{name} {value}" for name, value in said.items() if value)
        return f"every dead entry with {plain(limits)}" if limits else "every dead entry"

    def check(self) -> None:
        """Raise Failure unless exactly one way of selection is used."""
        if bool(self.entry) == bool(self.cause or self.stream or self.since or self.every):
            raise Failure.of("which_entries", "Name entries: ENTRY..., or --cause, --stream, --since, or --all.", USAGE)

    def batches(self, link: RedisPlanner) -> Iterator[list[Dead]]:
        """Yield batches of the selected entries. Raises Failure unless exactly one way of selection is used."""
        from worker.store import dead

        self.check()
        if self.entry:
            found = iter([_named(link, name) for name in dict.fromkeys(self.entry)])
            while batch := list(islice(found, dead.PAGE)):
                yield batch
        else:
            yield from dead.until_now(link.client, link.partitions, self.filter())


@app.command("list")
@command
def list_entries(
    of: Kind,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="The most entries to show; all are counted.")] = 20,
    as_json: Json = False,
) -> None:
    """List dead entries: the number of each cause, then the newest entries.

    [b]planner dead list --cause poison --since 2h[/b]

    [b]planner dead list --json | jq -r '.causes[] | "\\(.count) \\(.code)"'[/b]
    """
    from worker.render.dead import overview
    from worker.store import dead

    with open_link() as link, ProgressLine("entries read") as progress:
        causes: Counter[str] = Counter()
        shown: list[Dead] = []
        for entry in dead.newest(link.client, link.partitions, of.filter()):
            causes[entry.code] += 1
            if len(shown) < limit:
                shown.append(entry)
            progress.step()
        forgotten = dead.count_forgotten(link.client, link.partitions)
    if as_json:
        counts = [{"code": code, "count": count} for code, count in causes.most_common()]
        entries = [entry.document(body=False) for entry in shown]
        say_json({"total": causes.total(), "forgotten": forgotten, "causes": counts, "entries": entries})
    elif causes or forgotten:
        say(overview(causes, shown, forgotten))
    else:
        say("There are no dead entries.")


@app.command()
@command
def show(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="As `planner dead list` names it.")],
    full: Annotated[bool, typer.Option("--full", help="Show all of a long message.")] = False,
    as_json: Json = False,
) -> None:
    """Show a dead entry: its errors, its origin and its text.

    [b]planner dead show goals/1699000000000-0[/b]

    [b]planner dead show 0/1699000000000-0 --json | jq -r .data[/b]

    Control characters are shown as escapes, such as \\x1b.
    """
    from worker.render.dead import portrait

    with open_link() as link:
        found = _named(link, entry)
    say_json(found.document()) if as_json else say(portrait(found, full=full))


@app.command()
@command
def replay(
    choice: Choice,
    edit: Annotated[bool, typer.Option("--edit", "-e", help="Change one entry in $VISUAL or $EDITOR first.")] = False,
    as_json: Json = False,
) -> int:
    """Send dead entries back to the stream that they came from.

    [b]planner dead replay 0/1699000000000-0[/b]

    [b]planner dead replay --cause poison --since 2h[/b]

    [b]planner dead replay goals/1699000000000-0 --edit[/b]

    An entry that was cut for its size cannot be replayed unchanged. An entry that is dead-lettered again shows how
    often it was replayed. Exit code 1 if any entry was left out.
    """
    from worker.store import dead

    with open_link() as link:
        if edit:
            return _edited(link, choice.entry or [], as_json=as_json)
        done, passed = 0, []
        with ProgressLine("entries sent") as progress:
            for batch in choice.batches(link):
                fit = [each for each in batch if not each.obstacle()]
                passed += [{"entry": each.name, "reason": why} for each in batch if (why := each.obstacle())]
                if fit:
                    dead.replay(link.client, fit)
                    _note(link, "dead entries sent back", fit)
                done += len(fit)
                progress.step(len(batch))
    return _show_replayed(done, passed, as_json=as_json)


@app.command()
@command
def drop(
    choice: Choice,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """Delete dead entries for good.

    [b]planner dead drop 0/1699000000000-0[/b]

    [b]planner dead drop --cause goal_too_large --yes[/b]
    """
    from worker.store import dead

    if as_json and not yes:
        raise Failure.of("not_asked", "--json asks for no confirmation: add --yes.", USAGE)
    done = 0
    with open_link() as link:
        choice.check()
        if not (yes or confirm(f"Delete {choice} for good?")):
            return FAILED
        with ProgressLine("entries dropped") as progress:
            for batch in choice.batches(link):
                dead.drop(link.client, batch)
                _note(link, "dead entries dropped", batch)
                done += len(batch)
                progress.step(len(batch))
    say_json({"dropped": done}) if as_json else say(f"Dropped {done:,}.")
    return OK


def _note(link: RedisPlanner, act: str, entries: Sequence[Dead]) -> None:
    from worker.host.account import host_name, own_name
    from worker.store import audit

    audit.note(link.client, audit.Act(act, own_name(), host_name(), ", ".join(one.name for one in entries)))


def _show_replayed(done: int, passed: list[dict[str, str]], *, as_json: bool) -> int:
    if as_json:
        say_json({"replayed": done, "passed_over": len(passed), "reasons": passed[:MOST_REASONS]})
    else:
        say(f"Sent back {done:,}." + (f" Passed over {len(passed):,}:" if passed else ""))
        for each in passed[:MOST_REASONS]:
            say(f"  {each['entry']}  {each['reason']}")
    return FAILED if passed else OK


def _named(link: RedisPlanner, name: str) -> Dead:
    from worker.store import dead

    found = dead.find(link.client, link.partitions, name)
    if found is None:
        raise Failure.of("no_such_entry", f"There is no dead entry {name!r}; see planner dead list.", MISSING)
    return found


def _edited(link: RedisPlanner, names: list[str], *, as_json: bool) -> int:
    from worker.cli.editor import edit
    from worker.store import dead

    if len(names) != 1:
        raise Failure.of("one_entry", "With --edit name one ENTRY.", USAGE)
    found = _named(link, names[0])
    if why := found.obstacle(edited=True):
        raise Failure.of("not_replayable", f"{found.name}: {why}.")
    data = edit(link, found, ask=not as_json)
    dead.replay(link.client, [found], data)
    _note(link, "dead entry changed and sent back", [found])
    return _show_replayed(1, [], as_json=as_json)
