"""`planner verify` and `planner sign`: verify that a log is unchanged, and sign its head."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from worker.cli.console import (
    FAILED,
    OK,
    USAGE,
    Failure,
    Json,
    command,
    needs_extra,
    open_planner,
    read_source,
    refused,
    say_json,
)
from worker.cli.target import PLAN_HELP, Owner, find
from worker.host.terminal import line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from tasks.record.chain import Anchor, Finding

LOG_HELP = f"{PLAN_HELP[:-1]}; or a file of `planner export --log`. - is stdin."
MAX_KEY_BYTES = 64 * 1024  # and of a signature
OWN, HEAD, SIGNATURE = "plan", "head", "signature"  # origins of an anchor


class _Log(NamedTuple):
    lines: Iterator[bytes]
    plan_id: str | None  # unknown for a file
    own: Anchor | None  # the head in the plan's own record


@command
def verify(
    source: Annotated[str, typer.Argument(metavar="PLAN|FILE", help=LOG_HELP)],
    head: Annotated[str | None, typer.Option(metavar="H", help="The head: the digest of the last line.")] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="FILE", help="The output of `planner sign`; --key has its public key.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="The public key of the signer, as PEM.")] = None,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,
) -> int:
    """Verify the log of a plan: report the first line that was changed, dropped, added or moved.

    [b]planner verify ci-4711.jsonl --head q0mBXIvsETFnBGM3IoAkX4ru2nHCOGIz[/b]

    [b]planner verify ci-4711.jsonl --signature ci-4711.sig --key audit.pem.pub[/b]

    [b]planner verify ci-4711 --json[/b]

    The event of the plan's end has the head. Without a head or a signature, a log can only be consistent: a writer
    could have replaced all of it. Exit code 1 if the log was changed, or if no planner answers: --json prints a
    `result` or the `code` of a problem.
    """
    from tasks.record.chain import check
    from worker.render.log import tell_finding

    anchor, taken_from = _anchor(head, signature, key)
    with _opened(source, tenant) as log:
        if anchor is None and log.own:
            anchor, taken_from = log.own, OWN
        found = check(log.lines, anchor)
    is_vouched = taken_from in (HEAD, SIGNATURE)
    if as_json:
        say_json(_document(found, taken_from, is_vouched=is_vouched))
    else:
        line(tell_finding(found, is_vouched=is_vouched))
    return FAILED if found.fault else OK


def _document(found: Finding, taken_from: str | None, *, is_vouched: bool) -> dict[str, Any]:
    return {
        "result": found.result if is_vouched or found.fault else "consistent",
        "fault": found.fault and found.fault._asdict(),
        "lines": found.lines,
        "head": found.head,
        "anchor": taken_from,
        "unchanged": found.tied if is_vouched else 0,
    }


@command
def sign(
    source: Annotated[str | None, typer.Argument(metavar="PLAN|FILE", help=LOG_HELP)] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="Sign with this Ed25519 key, as PEM.")] = None,
    new_key: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Make a key, and FILE.pub to give away.")
    ] = None,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,
) -> None:
    """Sign the head of a consistent log, so that others can verify it later.

    [b]planner sign --new-key audit.pem[/b]

    [b]planner sign ci-4711 --key audit.pem > ci-4711.sig[/b]

    For a live plan the signature covers the lines up to now. Store key and signatures out of reach of everyone who can
    write to Redis. The command needs the extra `sign`.
    """
    if (new_key is None) == (source is None) or (new_key is None) == (key is None):
        detail = "Name a PLAN or FILE and the --key to sign it with, or give --new-key alone."
        raise Failure.of("wrong_option", detail, USAGE)
    if new_key is not None:
        _make_key(new_key, as_json=as_json)
    elif source is not None and key is not None:
        _sign(source, key, tenant)


def _make_key(path: Path, *, as_json: bool) -> None:
    signing = _signing()
    try:
        key_id = signing.new_key(path)
    except OSError as error:
        raise Failure.of("unwritable_file", f"{error.filename}: {error.strerror}.", USAGE) from error
    public = signing.public_path(path)
    if as_json:
        say_json({"key_id": key_id, "key": str(path), "public_key": str(public)})
    else:
        line(f"{path} is key {key_id}: keep it secret. {public} is its public half: give it to everyone who verifies.")


def _sign(source: str, key_file: str, tenant: str) -> None:
    from tasks.record.chain import check

    signing = _signing()
    private = _key(key_file, signing.read_private)
    with _opened(source, tenant) as log:
        found = check(log.lines, log.own)
    if found.fault or found.head is None:
        why = found.fault.why if found.fault else ""
        raise Failure.of("tampered", f"This log was tampered with, so that it is not signed. {why}")
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    say_json(signing.sign(private, found.head, found.lines, now, log.plan_id))


def _anchor(head: str | None, signature: str | None, key: str | None) -> tuple[Anchor | None, str | None]:
    """Return the anchor that the options name, and its origin; None and None without such options. Raises Failure."""
    from tasks.record.chain import HEAD_PATTERN, Anchor

    if (signature is None) != (key is None) or (head and signature):
        raise Failure.of("wrong_option", "Give --head, or --signature with --key, or neither.", USAGE)
    if head is not None:
        if not re.fullmatch(HEAD_PATTERN, head):
            raise Failure.of("wrong_head", f"--head {head[:64]!r} is no digest of 32 characters.", USAGE)
        return Anchor(head), HEAD
    if signature is None or key is None:
        return None, None
    signing = _signing()
    public = _key(key, signing.read_public)
    with refused("wrong_signature", f"{signature}: ", ".", FAILED):
        found = signing.read_signature(read_source(signature, MAX_KEY_BYTES), public)
    return Anchor(found.head, found.lines), SIGNATURE


@contextmanager
def _opened(source: str, tenant: str) -> Iterator[_Log]:
    """Yield the log of a file or of a plan. Raises Failure, also if reading fails inside the block."""
    from tasks.record.chain import Anchor
    from worker.record import log_file

    if not log_file.is_file(source):
        with open_planner() as planner:
            view = find(planner, source, tenant)
            own = Anchor(view.log.head, view.log.lines) if view.log else None
            yield _Log(planner.log(view.plan_id), view.plan_id, own)
        return
    with refused("unreadable_file", f"{source}: ", ".", by=OSError):
        yield _Log(log_file.read_lines(source), None, None)


def _signing() -> ModuleType:
    """Import the module for signatures. Raises Failure if its extra is not installed."""
    with needs_extra("sign", "Signing"):
        from worker.record import signing
    return signing


def _key(path: str, read: Callable[[bytes], Any]) -> Any:
    """Read the file of a key; raises Failure."""
    with refused("wrong_key", f"{path}: ", "."):
        return read(read_source(str(Path(path).resolve()), MAX_KEY_BYTES))  # a mounted secret is a link
