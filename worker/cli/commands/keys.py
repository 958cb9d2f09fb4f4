"""`planner keys add`, `list`, `rotate` and `revoke`: the keys that callers of the gateway use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemas.wording import expected
from worker.cli.console import FAILED, MISSING, USAGE, Failure, Json, command, family, open_link, refused, say, say_json
from worker.cli.target import moment, span
from worker.host.terminal import line

if TYPE_CHECKING:
    from schemas.api_key import ApiKey
    from worker.client.redis_planner import RedisPlanner

app = family("keys", "Make, list, rotate and revoke the keys that callers of the gateway show.")

KeyName = Annotated[str, typer.Argument(metavar="KEY", help="The id of a key, as `planner keys list` has it.")]
NO_KEY = "no_such_key"


@app.command("add")
@command
def add_key(
    role: Annotated[
        list[str],
        typer.Option(
            metavar="ROLE",
            help="The rights of the key: producer (goals and their results), controller (steps), answer (questions for"
            " information), operator (commands, approvals, dead entries), viewer (reads), admin (all). Repeatable.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The person who owns the key; the audit names them.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="T", help="The tenant of the key. Default: all tenants.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(metavar="Q", help="Its queues, which become the tenant's own; else `default`.")
    ] = None,
    repo: Annotated[
        list[str] | None, typer.Option(metavar="R", help="Its repositories, as goals name them; else all.")
    ] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="It ends then: 90d, 12h, or a time.")] = None,
    rate: Annotated[str | None, typer.Option(metavar="N/m", help="Requests a second, minute or hour: 100/m.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key, and show it once: the planner stores only a digest of it.

    [b]planner keys add --role producer --tenant acme --repo acme/shop --expires 90d[/b]

    [b]export PLANNER_API_KEY=$(planner keys add --role controller --queue gpu)[/b]

    Standard output has the key alone. A queue in the key of a tenant belongs to that tenant: no key of another tenant
    may name it. `default`, and queues that a key of all tenants named first, are shared.
    """
    from worker.store import api_keys

    until = moment(expires, "--expires")
    key = _made(
        rights=role,
        name=name,
        tenant=tenant,
        repositories=repo or (),
        rate=rate,
        expires_at=until.isoformat(timespec="milliseconds").replace("+00:00", "Z") if until else None,
        **({"queues": queue} if queue else {}),
    )
    with open_link(agreed=False) as link, refused("queue_taken", exit_code=FAILED, by=api_keys.QueueTaken):
        token = api_keys.add(link.client, key)
        _note(link, "key made", f"{key.called}: {', '.join(key.rights)} of {key.tenant or 'all tenants'}")
    _show(key.key_id, token, as_json=as_json)


@app.command("list")
@command
def list_keys(as_json: Json = False) -> None:
    """List the valid keys, without expired and revoked ones.

    [b]planner keys list[/b]

    [b]planner keys list --json | jq -r '.[] | select(.expires_at == null) | .key_id'[/b]
    """
    from worker.render.tables import draw_keys
    from worker.store import api_keys

    with open_link(agreed=False) as link:
        found = api_keys.every(link.client)
    if as_json:
        say_json([key.model_dump(mode="json") for key in found])
    else:
        say(draw_keys(found) if found else "There are no keys. Make one: planner keys add --help")


@app.command("rotate")
@command
def rotate_key(
    key: KeyName,
    keep: Annotated[str, typer.Option(metavar="TIME", help="The secret of before counts for so long.")] = "1d",
    now: Annotated[bool, typer.Option("--now", help="The secret of before ends at once, as after a leak.")] = False,
    as_json: Json = False,
) -> None:
    """Give a key a new secret, and show it once. The previous secret works for one more day.

    [b]planner keys rotate 5f0c2a91d3b87e46[/b]

    [b]planner keys rotate 5f0c2a91d3b87e46 --now[/b]

    A key has at most two secrets. A second rotation ends the oldest one.
    """
    from worker.store import api_keys

    kept_ms = 0 if now else int(span("--keep", keep).total_seconds() * 1000)
    with open_link(agreed=False) as link:
        token = api_keys.rotate(link.client, key, kept_ms)
        if token:
            _note(link, "key rotated", f"key {key}")
    if token is None:
        raise Failure.of(NO_KEY, _unknown(key), MISSING)
    _show(key, token, as_json=as_json)


@app.command("revoke")
@command
def revoke_key(key: KeyName, as_json: Json = False) -> None:
    """End a key at once, with both of its secrets.

    [b]planner keys revoke 5f0c2a91d3b87e46[/b]

    Every gateway refuses the next request with it. An open stream of events ends within ten seconds.
    """
    from worker.store import api_keys

    with open_link(agreed=False) as link:
        was_there = api_keys.revoke(link.client, key)
        if was_there:
            _note(link, "key revoked", f"key {key}")
    if not was_there:
        raise Failure.of(NO_KEY, _unknown(key), MISSING)
    say_json({"revoked": key}) if as_json else say(f"Revoked {key}.")


def _note(link: RedisPlanner, act: str, about: str) -> None:
    from worker.host.account import host_name, own_name
    from worker.store import audit

    audit.note(link.client, audit.Act(act, own_name(), host_name(), about))


def _unknown(key: str) -> str:
    if key.startswith("pk_"):  # the whole of it, which does not belong into a terminal again
        return "Name the key by its id, between the first two underscores."
    return f"There is no key {key!r}; see planner keys list."


def _show(key_id: str, token: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"key_id": key_id, "key": token})
        return
    line(token)
    line(f"This is key {key_id}. It is shown this once; keep it where secrets are kept.", err=True)


def _made(**fields: Any) -> ApiKey:
    """Make the record of a new key; raises Failure with a sentence for each wrong option."""
    from pydantic import ValidationError

    from schemas.api_key import ApiKey
    from worker.store import api_keys

    options = {"rights": "role", "queues": "queue", "repositories": "repo"}
    wanted = {
        "name": "letters, digits, spaces and .,'@+- are wanted",
        "rate": "N/s, N/m or N/h is wanted, such as 100/m",
        "queues": "a word such as gpu is wanted",
    }
    try:
        return ApiKey(key_id=api_keys.new_id(), **fields)
    except ValidationError as error:
        wrong = []
        for each in error.errors():
            field = str(each["loc"][0])
            if each["type"] != "too_short":  # which follows from a wrong one
                wrong.append(f"--{options.get(field, field)} {each['input']}: {wanted.get(field, expected(each))}.")
        raise Failure.of("wrong_option", " ".join(wrong), USAGE) from error
