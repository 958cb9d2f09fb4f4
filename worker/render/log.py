"""Draws lines of a plan's log for people, one line each: the time, the messages, the moves and the revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schemas import codec
from schemas.times import rfc3339
from tasks.record.chain import Finding

SHOWN = 8  # moves of a line that are named
WIDTH = 120  # characters of one message
NO_LINE = "no line that a worker has written"


def tell_line(number: int, raw: bytes) -> str:
    """Return a line of a log as text; an unreadable one is reported as such."""
    try:
        line = codec.loads(raw)
        told = [*map(came_in, line["in"]), *moved(line["moves"]), *map(revised, line.get("revisions", ()))]
        begin = f"{rfc3339(line['now'])}  v{line['version']:<5}"
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        begin, told = NO_LINE, []
    return f"{number:>5}  {begin}  {'; '.join(' '.join(each.split()) for each in told)}".rstrip()


def came_in(said: Sequence[Any]) -> str:
    """Return one message as text."""
    what, *about = said
    if what == "outcome":
        body = about[2]
        evidence = body.get("failure_evidence") or {}
        how = "success" if body["success"] else " ".join(["failure", evidence.get("category") or ""])
        return f"outcome of {body['step_id']}: {how}"[:WIDTH]
    if what == "command":
        body, *refusal = about
        told = " ".join(str(body[name]) for name in ("command", "step_id", "actor", "reason") if name in body)
        return (f"{told}; refused: {refusal[0]}" if refusal else told)[:WIDTH]
    return " ".join([str(what), *(each if isinstance(each, str) else codec.dumps(each).decode() for each in about)])[
        :WIDTH
    ]


def moved(moves: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the states of the plan and of each step in order; a line may contain several moves."""
    ways: dict[str, list[str]] = {}
    for name, before, after in moves:
        ways.setdefault(name, [before]).append(after)
    for name, states in list(ways.items())[:SHOWN]:
        yield f"{name or 'plan'} {' > '.join(states)}"
    if len(ways) > SHOWN:
        yield f"and {len(ways) - SHOWN} more"


def revised(revision: dict[str, Any]) -> str:
    """Return a revision as text."""
    return f"revision {revision['revision']}: {revision.get('rule', '')} {revision.get('step_id', '')}"[:WIDTH]


def tell_finding(found: Finding, *, is_vouched: bool) -> str:
    """Return the result of a verification as text; `is_vouched` if the anchor comes from outside of the planner."""
    if found.fault:
        return f"TAMPERED, line {found.fault.line}: {found.fault.what}. {found.fault.why}"
    count = f"{found.lines:,} line{'s' if found.lines > 1 else ''}"
    if is_vouched and found.result == "unchanged":
        return f"Unchanged: {count}, the last with the digest {found.head}."
    told = [f"Consistent: {count}, the last with the digest {found.head}."]
    if is_vouched and found.tied:
        told.append(f"The given head proves that lines 1 to {found.tied} are unchanged.")
    else:
        told.append("Only a head from outside shows whether all of them were rewritten: --head, or --signature.")
    return "\n".join(told)
