"""`planner endpoints`: the receivers of callbacks, and the results of their deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli.console import FAILED, MISSING, OK, USAGE, Failure, Json, command, family, open_link, say, say_json
from worker.cli.console import read_source as read_file

if TYPE_CHECKING:
    from worker.callbacks.queue import Delivery, Queue
    from worker.callbacks.sealing import SecretBox
    from worker.client.redis_planner import RedisPlanner
    from worker.store.endpoints import Endpoint

app = family("endpoints", "Manage the endpoints of callbacks, and look at their deliveries.")

MAX_TOKEN = 4096
SHOWN = 20
MOST = 1000  # deliveries of an endpoint in a partition, as callbacks.lua
Named = Annotated[str, typer.Argument(metavar="ENDPOINT", help="As `planner endpoints list` names it.")]
TokenFile = Annotated[
    str, typer.Option("--token-file", metavar="FILE", help="The forge's token; it is kept encrypted.")
]


@app.command()
@command
def add(
    url: Annotated[str, typer.Argument(metavar="[URL]", help="Where to: https://...")] = "",
    events: Annotated[str, typer.Option("--events", "-e", help="The events, separated by commas. Default: all.")] = "",
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="The tenant of the plans. Default: all.")] = None,
    repo: Annotated[str | None, typer.Option("--repo", "-r", help="Only of plans of this repository.")] = None,
    named: Annotated[bool, typer.Option("--named", help="Only for plans whose goal has it as `callback`.")] = False,
    commit_status: Annotated[
        Literal["github", "gitlab"] | None, typer.Option("--commit-status", help="Set the status of the plan's commit.")
    ] = None,
    api: Annotated[str, typer.Option("--api", metavar="URL", help="The forge's API.")] = "",
    token_file: TokenFile = "",
    as_json: Json = False,
) -> None:
    """Add an endpoint, and show its secret once. Receivers verify the signature of each message with it.

    [b]planner endpoints add https://ci.example.com/planner --events plan.completed,plan.halted --tenant acme[/b]

    [b]planner endpoints add --commit-status github --api https://api.github.com --token-file token --repo acme/shop[/b]

    Events: plan.completed, plan.halted, plan.rejected, plan.input_requested. Needs PLANNER_SECRET_FILE, as workers do.
    """
    from worker.callbacks import registry
    from worker.callbacks.registry import Wanted
    from worker.store.endpoints import EVENTS

    if bool(commit_status) != bool(api and token_file) or bool(url) == bool(commit_status):
        detail = "Name a URL, or --commit-status with --api, --token-file and --repo."
        raise Failure.of("wrong_endpoint", detail, USAGE)
    if commit_status and named:
        raise Failure.of("wrong_endpoint", "--named is for URLs: a commit's status is of one repository.", USAGE)
    token = _token(token_file) if commit_status else ""
    asked = tuple(filter(None, map(str.strip, events.split(",")))) if events else EVENTS
    wanted = Wanted(url or api, commit_status or "webhook", asked, tenant, repo, named, token)
    with _opened() as (link, box):
        made, secret = registry.add(link.client, box, wanted, link.partitions, link.settings.callback_allow)
    _show_secret(made, "" if commit_status else secret, as_json=as_json)


@app.command("list")
@command
def list_endpoints(as_json: Json = False) -> None:
    """List the endpoints.

    [b]planner endpoints list --json | jq -r '.[] | select(.disabled) | .endpoint_id'[/b]
    """
    from worker.callbacks.registry import describe
    from worker.render.tables import draw_endpoints
    from worker.store import endpoints

    with open_link() as link:
        found = [describe(each) for each in endpoints.read_all(link.client).values()]
    if as_json:
        say_json(found)
    else:
        say(draw_endpoints(found) if found else "There are no endpoints. Add one: planner endpoints add --help")


@app.command()
@command
def show(
    endpoint: Named,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=MOST, help="Deliveries shown.")] = SHOWN,
    as_json: Json = False,
) -> None:
    """Show an endpoint, its newest deliveries and their results.

    [b]planner endpoints show ep_0123456789abcdef[/b]
    """
    from worker.callbacks.registry import describe, describe_delivery
    from worker.render.tables import draw_endpoint

    with open_link() as link:
        found = describe(_named(link, endpoint))
        told = [describe_delivery(each) for each in _newest(link, endpoint, limit)]
    shown = {**found, "deliveries": told}
    say_json(shown) if as_json else say(draw_endpoint(shown))


@app.command()
@command
def replay(
    endpoint: Named,
    deliveries: Annotated[list[str] | None, typer.Argument(metavar="DELIVERY", help="As `show` names it.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed, or came while it was disabled.")] = False,
    as_json: Json = False,
) -> int:
    """Send deliveries again, with the same `webhook-id`; at most the newest 1000 are kept, for 30 days.

    [b]planner endpoints replay ep_0123456789abcdef --failed[/b]

    [b]planner endpoints replay ep_0123456789abcdef msg_0-1732345678901-0-0123456789abcdef[/b]
    """
    from worker.callbacks.queue import place_of
    from worker.callbacks.schedule import DISABLED
    from worker.callbacks.schedule import FAILED as HAS_FAILED

    if bool(deliveries) == failed:
        raise Failure.of("which_deliveries", "Name deliveries: DELIVERY..., or --failed.", USAGE)
    with open_link() as link:
        if _named(link, endpoint).off:
            detail = f"The endpoint is disabled: planner endpoints enable {endpoint}, then replay."
            raise Failure.of("endpoint_disabled", detail)
        missed = [each.id for each in _newest(link, endpoint, MOST) if each.ended in (HAS_FAILED, DISABLED)]
        asked = list(dict.fromkeys(deliveries or missed))
        sent = 0
        for queue in _queues(link):
            place = queue.partition.number, endpoint
            sent += queue.send_again(endpoint, [each for each in asked if place_of(each) == place])
    missing = len(asked) - sent
    if as_json:
        say_json({"replayed": sent, "passed_over": missing})
    else:
        over = f" Passed over {missing}: not to this endpoint, gone, or being sent." if missing else ""
        say(f"{sent} will be sent again.{over}")
    return FAILED if missing else OK


@app.command()
@command
def disable(endpoint: Named, as_json: Json = False) -> None:
    """Stop the messages to an endpoint. Send the missed ones later: [b]replay --failed[/b].

    [b]planner endpoints disable ep_0123456789abcdef[/b]
    """
    _switch(endpoint, "by an operator", as_json=as_json)


@app.command()
@command
def enable(endpoint: Named, as_json: Json = False) -> None:
    """Send the messages to an endpoint again, from now on.

    [b]planner endpoints enable ep_0123456789abcdef[/b]
    """
    _switch(endpoint, "", as_json=as_json)


@app.command()
@command
def rotate(
    endpoint: Named,
    keep: Annotated[float, typer.Option("--keep-h", min=0, max=720, help="Hours that the old secret signs too.")] = 24,
    token_file: TokenFile = "",
    as_json: Json = False,
) -> None:
    """Give an endpoint another secret; for a day messages have a signature of the old one too.

    [b]planner endpoints rotate ep_0123456789abcdef[/b]

    [b]planner endpoints rotate ep_0123456789abcdef --token-file token[/b]   a forge's
    """
    from worker.callbacks import registry

    token = _token(token_file) if token_file else ""
    with _opened() as (link, box):
        found = _named(link, endpoint)
        made, secret = registry.rotate(link.client, box, found, link.partitions, keep * 3600, token)
    _show_secret(made, "" if token else secret, as_json=as_json)


@contextmanager
def _opened() -> Iterator[tuple[RedisPlanner, SecretBox]]:
    """Connect, and open the file of keys. Raises Failure if either fails."""
    from worker.callbacks.addresses import BadUrl
    from worker.callbacks.registry import WrongEndpoint
    from worker.callbacks.sealing import NoSecrets, SecretBox

    with open_link() as link:
        try:
            yield link, SecretBox.open(link.settings.secret_file)
        except NoSecrets as error:
            raise Failure.of("no_secret_file", str(error), USAGE) from error
        except (BadUrl, WrongEndpoint) as error:
            raise Failure.of("wrong_endpoint", str(error), USAGE) from error


def _token(path: str) -> str:
    return read_file(path, MAX_TOKEN).decode(errors="replace").strip()


def _named(link: RedisPlanner, name: str) -> Endpoint:
    from worker.store import endpoints

    found = endpoints.read(link.client, name)
    if found is None:
        raise Failure.of("no_such_endpoint", f"There is no endpoint {name!r}; see planner endpoints list.", MISSING)
    return found


def _queues(link: RedisPlanner) -> list[Queue]:
    from worker.callbacks.queue import Queue
    from worker.store.keys import Partition

    return [Queue(link.client, Partition(number)) for number in range(link.partitions)]


def _newest(link: RedisPlanner, endpoint: str, count: int) -> list[Delivery]:
    found = [each for queue in _queues(link) for each in queue.newest(endpoint, count)]
    return sorted(found, key=lambda each: each.about.at, reverse=True)[:count]


def _switch(name: str, off: str, *, as_json: bool) -> None:
    from worker.callbacks.registry import describe
    from worker.store import endpoints

    with open_link() as link:
        _named(link, name)
        endpoints.switch(link.client, name, off)
        found = describe(_named(link, name))
    said = f"{name} receives no more messages." if off else f"{name} receives messages from now on."
    say_json(found) if as_json else say(said)


def _show_secret(made: Endpoint, secret: str, *, as_json: bool) -> None:
    from worker.callbacks.registry import describe

    shown: dict[str, Any] = {**describe(made), **({"secret": secret} if secret else {})}
    if as_json:
        say_json(shown)
        return
    say(f"endpoint  {made.id}")
    if secret:
        say(f"secret    {secret}")
        say("The secret is shown this once: give it to the receiver (docs/callbacks.md).")
