"""`planner webhook check` and `test`: check the file of webhooks, and show the goal of a payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import (
    FAILED,
    MISSING,
    USAGE,
    Failure,
    Json,
    command,
    family,
    needs_extra,
    read_settings,
    read_source,
    refused,
    say,
    say_json,
)

if TYPE_CHECKING:
    from worker.webhooks.intake import Prepared
    from worker.webhooks.rules import Ignored
    from worker.webhooks.sources_file import SourcesFile

app = family("webhook", "Look over the file of webhooks, and try a payload against its rules.")

File = Annotated[Path | None, typer.Option("--file", "-f", help="Instead of PLANNER_WEBHOOKS_FILE.")]


@app.command()
@command
def check(file: File = None, as_json: Json = False) -> None:
    """Check the file of webhooks and all files that it names. Each mistake gets a sentence; the exit code is then 1.

    [b]planner webhook check --file webhooks.toml[/b]

    For each rule it shows a sample goal, checked as a worker with these settings does.
    """
    found, settings = _read(file), read_settings()
    from worker.cli.webhook_samples import check_goal, sample_of  # after `_read`, which names a missing extra

    sources: list[dict[str, Any]] = []
    wrong: list[str] = []
    for source in found.source:
        checked = [check_goal(sample_of(rule), settings) for rule in source.rule]
        goals = [each.goal for each in checked]
        sources.append({"name": source.name, "scheme": source.scheme, "rules": len(goals), "goals": goals})
        wrong += [
            f"source {source.name}, rule {number}: {mistake}"
            for number, each in enumerate(checked, 1)
            for mistake in each.mistakes
        ]
    if wrong:
        raise Failure.of("wrong_webhooks", "\n".join(wrong))
    if as_json:
        say_json({"sources": sources})
        return
    for about, source in zip(sources, found.source, strict=True):
        events = [rule.on for rule in source.rule]
        say(f"/v1/webhooks/{source.name}  {source.scheme}, rules: {len(events)} ({', '.join(dict.fromkeys(events))})")
        for event, goal in zip(events, about["goals"], strict=True):
            say(f"{event}:")
            say_json(goal)


@app.command("test")
@command
def try_payload(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name in the file.")],
    payload: Annotated[str, typer.Argument(metavar="FILE|-", help="A payload, as it would be delivered.")],
    event: Annotated[
        str | None, typer.Option("--event", "-e", help="The event; of GitHub a header has it, else the payload.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME: VALUE", help="A header; again for more.")
    ] = None,
    file: File = None,
    as_json: Json = False,
) -> None:
    """Print the goal of a payload, or the reason for none; the command sends nothing and needs no server.

    [b]planner webhook test github --event workflow_run payload.json[/b]

    The command does not check the payload's signature, knows no earlier deliveries, and asks no forge. It names the
    requests that a worker would send.
    """
    sources = _read(file)
    from worker.webhooks import events, intake
    from worker.webhooks.sources_file import WrongSources

    if not (about := sources.named(source)):
        names = ", ".join(each.name for each in sources.source)
        raise Failure.of("no_such_source", f"There is no source {source}; there are {names}.", MISSING)
    raw = read_source(payload, about.most_bytes)
    try:
        read = events.read(about.scheme, _headers(header or ()), raw)
        prepared = intake.prepare(about, replace(read, name=event) if event else read, raw)
    except events.NoEvent as error:
        raise Failure.of("invalid_json", f"{payload}: {error}", USAGE) from error
    except WrongSources as error:
        raise Failure.of("wrong_webhooks", str(error)) from error
    document = _document(prepared)
    if document["goal"] and not document["asks_forge"]:
        from worker.cli.webhook_samples import check_goal

        document["mistakes"] = check_goal(document["goal"], read_settings()).mistakes
    say_json(document) if as_json else _print(document)


def _read(file: Path | None) -> SourcesFile:
    with needs_extra("gateway", "The file of webhooks"):
        from worker.webhooks.checking import read_checked
    from worker.webhooks.sources_file import WrongSources

    path = file or read_settings().webhooks_file
    if path is None:
        raise Failure.of("no_file", "Name the file: --file, or PLANNER_WEBHOOKS_FILE.", USAGE)
    with refused("wrong_webhooks", exit_code=FAILED, by=WrongSources):
        return read_checked(path)


def _headers(given: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition(":") for each in given]
    if any(not colon for _, colon, _ in pairs):
        raise Failure.of("wrong_header", "A header is written as NAME: VALUE.", USAGE)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _document(found: Prepared | Ignored) -> dict[str, Any]:
    from worker.webhooks.rules import Ignored

    if isinstance(found, Ignored):
        return {"goal": None, "ignored": found.reason}
    wanted = found.wanted
    asked = ["files"] if found.goal and wanted.rule.files else []
    return {
        "goal": found.goal,
        "ignored": None,
        "resolves": found.goal is None,
        "coalesce": wanted.coalesce,
        "supersedes": wanted.supersedes,
        "order": wanted.order,
        "asks_forge": asked + (["failures"] if found.goal and wanted.failures_of else []),
    }


def _print(document: dict[str, Any]) -> None:
    if document["ignored"]:
        say(f"Nothing would be sent. {document['ignored']}")
        return
    if document["goal"]:
        say_json(document["goal"])
    else:
        say("No goal would be sent: the older one of this `supersedes` would be cancelled.")
    for mistake in document.get("mistakes", ()):
        say(f"A worker would refuse it. {mistake}")
    for key in ("coalesce", "supersedes", "order"):
        if document[key] is not None:
            say(f"{key}: {document[key]}")
    if document["asks_forge"]:
        say(f"Asked of the forge before that: {', '.join(document['asks_forge'])}.")
