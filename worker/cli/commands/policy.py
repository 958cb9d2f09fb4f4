"""`planner policy apply`, `withdraw`, `show`, `diff` and `history`: the rules of operators for new plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import (
    FAILED,
    MISSING,
    OK,
    USAGE,
    Failure,
    Json,
    command,
    family,
    open_link,
    read_source,
    say,
    say_json,
)
from worker.cli.target import complete_plan
from worker.host.regular_files import is_file
from worker.host.terminal import content, line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from redis import Redis

    from tasks.base.policy import Policy

app = family("policy", "Apply, show and compare the rules of operators that plans are made under.")

ForTenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="T", help="The tenant. Default: all tenants without a policy."),
]
Actor = Annotated[str | None, typer.Option("--actor", help="The person who does it. Default: you.")]
Named = Annotated[str, typer.Argument(metavar="POLICY", help="A digest or its beginning, a file, or `current`.")]
MIN_DIGEST = 4  # characters of a digest's beginning


@app.command("apply")
@command
def apply_policy(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The policy (TOML); - is stdin.")],
    tenant: ForTenant = None,
    actor: Actor = None,
    check: Annotated[bool, typer.Option("--check", help="Only look it over; no server is asked.")] = False,
    as_json: Json = False,
) -> None:
    """Put a policy in force: it applies to new plans, and older plans keep theirs.

    [b]planner policy apply docs/examples/policy.toml --check[/b]

    [b]planner policy apply acme.toml --tenant acme[/b]

    A wrong file changes nothing: the command prints each mistake with its line, and ends with exit code 2.
    """
    from tasks.base.policy_text import digest_of
    from worker.host.account import own_name
    from worker.store import policies

    text, _ = read_policy_file(file)
    digest = digest_of(text)
    if not check:
        with open_link(agreed=False) as link:
            policies.apply(link.client, text, actor or own_name(), tenant)
    about = f"the tenant {tenant}" if tenant else "all tenants without a policy"
    told = f"{file} is a policy: {digest}." if check else f"{digest} is in force for {about}."
    say_json({"digest": digest, "tenant": tenant, "applied": not check}) if as_json else say(told)


@app.command("withdraw")
@command
def withdraw_policy(tenant: ForTenant = None, actor: Actor = None, as_json: Json = False) -> None:
    """Withdraw a policy: the built-in rules apply to new plans, or, for a tenant, the policy of all tenants.

    [b]planner policy withdraw --tenant acme[/b]
    """
    from worker.host.account import own_name
    from worker.store import policies

    with open_link(agreed=False) as link:
        was_there = policies.withdraw(link.client, actor or own_name(), tenant)
    if not was_there:
        raise Failure.of("no_policy", "No policy is in force there; see planner policy history.", MISSING)
    say_json({"withdrawn": True, "tenant": tenant}) if as_json else say("Withdrawn: plans that were made keep theirs.")


@app.command("show")
@command
def show_policy(
    policy: Annotated[str, typer.Argument(metavar="[POLICY]", help="A digest or its beginning.")] = "current",
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="PLAN", help="That of this plan.", autocompletion=complete_plan),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="T", help="The tenant of the policy, or of the goal PLAN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a policy as it was applied: the one in force, another one, or that of a plan.

    [b]planner policy show --tenant acme[/b]

    [b]planner policy show --plan 3c-0199 > policy.toml[/b]

    Exit code 3 if the policy does not exist: the built-in rules apply.
    """
    from tasks.base.policy_text import WrongPolicy, read_table

    with open_link(agreed=False) as link:
        digest = _of_plan(link, plan, tenant or NO_TENANT) if plan else _resolve(link.client, policy, tenant)
        text = _text(link.client, digest)
    if not as_json:
        line(f"# {digest}", err=True)
        content(text)
        return
    try:
        rules = read_table(text)
    except WrongPolicy:  # of a newer planner
        rules = None
    say_json({"digest": digest, "rules": rules, "text": text.decode(errors="replace")})


@app.command("diff")
@command
def diff_policies(policy: Named, other: Named, as_json: Json = False) -> int:
    """List the differences of two policies, key by key; exit code 1 if they differ, 2 if one cannot be read.

    [b]planner policy diff current acme.toml[/b]
    """
    one, two = _flat(policy), _flat(other)
    pairs = {name: [one.get(name), two.get(name)] for name in sorted({*one, *two})}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if as_json:
        say_json(differing)
    for name, (before, after) in {} if as_json else differing.items():
        line(f"{name}: {_word(before)} -> {_word(after)}")
    return FAILED if differing else OK


@app.command("history")
@command
def show_history(as_json: Json = False) -> None:
    """List the policies with the time and the person of their application, newest first.

    [b]planner policy history[/b]
    """
    from worker.store import policies

    with open_link(agreed=False) as link:
        found = list(policies.history(link.client))
    if as_json:
        say_json([each._asdict() for each in found])
        return
    for each in found:
        about = f"tenant {each.tenant}" if each.tenant else "all"
        line(f"{each.at}  {each.digest or 'withdrawn':32}  {about}  by {each.by}")
    if not found:
        say("No policy was ever applied: the built-in rules hold.")


def _resolve(client: Redis, name: str, tenant: str | None = None) -> str:
    """Return the digest for a name: `current` or the start of a digest. Raises Failure for none and several."""
    from worker.store import policies

    if name == "current":
        digest = policies.current(client, tenant)
        if digest is None:
            raise Failure.of("no_policy", "No policy is in force: the built-in rules hold.", MISSING)
        return digest
    found = [each for each in policies.digests(client) if each.startswith(name)] if len(name) >= MIN_DIGEST else []
    if len(found) != 1:
        why = f"{len(found)} policies begin with it: give more characters." if found else "there is none."
        raise Failure.of("no_such_policy", f"{name}: {why} See planner policy history.", MISSING)
    return found[0]


def _of_plan(link: Any, plan: str, tenant: str) -> str:
    from schemas import codec
    from worker.store.keys import Partition, partition_of

    plan_id = link.resolve(plan, tenant)
    head = link.client.hget(Partition(partition_of(plan_id, link.partitions)).plan(plan_id).plan, "head")
    digest = codec.loads(head).get("policy") if head else None
    if digest is None:
        raise Failure.of("no_policy", f"{plan} was made under the built-in rules.", MISSING)
    return str(digest)


def _text(client: Redis, digest: str) -> bytes:
    from worker.store import policies

    text = policies.read_text(client, digest)
    if text is None:
        detail = f"The text of the policy {digest} is missing: apply the same file again."
        raise Failure.of("no_such_policy", detail, MISSING)
    return text


def _flat(name: str) -> dict[str, Any]:
    """Return a policy, found by its name or file, as one value for each key. Raises Failure."""
    from tasks.base.policy_text import flatten, read_table

    if name == "-" or "/" in name or "." in name or is_file(name):  # no digest has these
        text, _ = read_policy_file(name)
    else:
        with open_link(agreed=False) as link:
            text = _text(link.client, _resolve(link.client, name))
    return flatten(read_table(text))


def _word(value: Any) -> str:
    return "(not said)" if value is None else str(value)


def read_policy_file(source: str) -> tuple[bytes, Policy]:
    """Return the text and the rules of a policy, from stdin for `-`. Raises Failure with every mistake."""
    from schemas.envelope import FieldError
    from tasks.base.policy_text import MAX_BYTES, WrongPolicy, read_policy

    text = read_source(source, MAX_BYTES)
    try:
        return text, read_policy(text)
    except WrongPolicy as error:
        errors = [
            FieldError(pointer=each.key, code="wrong_policy", message=str(each._replace(key="")))
            for each in error.mistakes
        ]
        raise Failure.of("wrong_policy", f"{source} is no policy.", USAGE, errors) from error
