"""A goal on the command line: reads its JSON and its sources, or refuses them with a sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.envelope import Problem
from schemas.goal import Limits
from schemas.step import DELIVERIES
from tasks.strategies.gap_report.analysis import RoadmapItem
from worker.cli.console import USAGE, Failure, read_source, refused
from worker.client.planner import Planner
from worker.client.trouble import Trouble
from worker.host.terminal import Terminal, line
from worker.sources import goal, inbox, junit, review_folder, roadmap, sarif
from worker.sources.ci import job_of
from worker.sources.filling import Filling, fill
from worker.sources.proposals import propose
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry

NUMBER = re.compile(r"-?[0-9]{1,18}")
ADDED_TO = ("context", "gap_report", "limits")  # fields that options and sources extend


@dataclass(frozen=True, slots=True)
class Sources:
    """The reports of CI, and the wishes of people."""

    junit: Path | None
    tests: Sequence[str]  # parts of names of the report's tests; all tests if empty
    sarif: Sequence[Path]
    roadmap: Path | None
    inbox: Path | None


def read_report(sources: Sources) -> junit.JUnitReport | None:
    """Return the JUnit report of `sources` with the chosen tests. Raises Failure if it cannot be read."""
    if sources.tests and not sources.junit:
        raise Failure.of("no_report", "--test chooses among the tests of --from-junit.", USAGE)
    if not sources.junit:
        return None
    with refused("invalid_report"):
        report = junit.read(read_source(str(sources.junit)), findings=True)
    if not report.failed or not sources.tests:
        return report
    chosen = report.named(sources.tests)
    if not chosen.failed:
        names = ", ".join(sources.tests)
        raise Failure.of("no_such_test", f"No test that failed in this report is called so: {names}.", USAGE)
    return chosen


def holdout_of(text: str | None) -> str | None:
    """Return the digest of held-out tests: `text` if it is a digest, else that of the files at this path.

    Raises Failure if the files cannot be read.
    """
    from worker.controller.holdout import digest_of

    if not text or text.startswith("sha256:"):
        return text
    with refused("no_holdout", f"--holdout {text}: ", by=OSError):
        return digest_of(Path(text))


def guessed_by(report: junit.JUnitReport | None, said: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields that only the report gives to a goal; values from the checkout are better and replace them."""
    named = said.keys() | (said.get("context") or {}).keys()
    return frozenset({"goal", "language"} - named) if report else frozenset()


def with_sources(
    body: dict[str, Any],
    sources: Sources,
    report: junit.JUnitReport | None,
    kind: str | None,
    allowed: Sequence[Any] | None,
) -> dict[str, Any] | goal.Nothing:
    """Return a goal with the content of the sources; Nothing if they have no failures."""
    folder, may_change = Path.cwd(), allowed or body.get("allowed_files") or []
    said = _read_sources(sources, report, folder, may_change)
    try:
        return goal.with_sources(body, said, kind, may_change, folder)
    except goal.WrongKind as error:
        told = "The JUnit report of a linter makes" if said.linted else "--from-sarif, --roadmap and --inbox make"
        raise Failure.of("wrong_kind", f"{told} a gap report, no {error.kind}.", USAGE) from error


def _read_sources(
    sources: Sources, report: junit.JUnitReport | None, folder: Path, allowed: Sequence[Any]
) -> goal.GapSources:
    linted = report.findings if report else ()
    findings = [replace(found, path=sarif.relative(found.path, folder)) for found in linted]
    for path, log in [(path, read_source(str(path))) for path in sources.sarif]:
        with refused("invalid_sarif", f"{path.name}: "):
            findings += sarif.read(log, folder)
    items: tuple[RoadmapItem, ...] = ()
    if sources.roadmap:
        with refused("invalid_roadmap", f"{sources.roadmap.name}: "):
            text = read_source(str(sources.roadmap), roadmap.MAX_BYTES)
            try:
                items = roadmap.read(text.decode())
            except UnicodeDecodeError as error:
                raise Failure.of("invalid_roadmap", f"{sources.roadmap.name} is not UTF-8.", USAGE) from error
    with refused("invalid_inbox"):
        wishes = inbox.read(sources.inbox) if sources.inbox else ()
    first = tuple(each for each in allowed if isinstance(each, str)) if isinstance(allowed, list) else ()
    has_gaps = bool(sources.sarif or sources.roadmap or sources.inbox)
    return goal.GapSources(tuple(findings), report, items, wishes, first, has_gaps)


def with_folder(body: dict[str, Any], folder: Path, kind: str | None) -> dict[str, Any]:
    """Return a goal that continues the reviewed plan of a folder; fields of the goal have priority. Raises Failure."""
    if (kind or body.get("kind") or review_folder.KIND) != review_folder.KIND:
        raise Failure.of("wrong_kind", "--dir takes up a reviewed plan: say --kind reviewed_plan.", USAGE)
    with refused("invalid_folder", f"{folder}: "):
        found = review_folder.read(folder)
    sentence = {"goal": title} if (title := review_folder.sentence_of(found)) else {}
    given = {**found, **(body.get(review_folder.KIND) or {})}
    return {"kind": review_folder.KIND, **sentence, **body, review_folder.KIND: given}


def limits_of(said: Sequence[str]) -> dict[str, int]:
    """Return limits such as `tokens=50000` as numbers. Raises Failure with the valid names."""
    found = {}
    for each in said:
        name, _, number = each.partition("=")
        if name not in Limits.model_fields or not NUMBER.fullmatch(number):
            known = ", ".join(Limits.model_fields)
            raise Failure.of("wrong_limit", f"--limit {each}: say NAME=NUMBER, NAME being one of {known}.", USAGE)
        found[name] = int(number)
    return found


def fill_in(body: Mapping[str, Any], guessed: Collection[str], *, quiet: bool, always: bool) -> Filling:
    """Add the facts of the current folder and of the CI job to a goal, and return these facts.

    Unless `quiet`, a CI job's log or a person at a terminal gets a line about them. With `always`, the line is printed
    to standard error in any case. Facts of the checkout replace the `guessed` fields.
    """
    job = job_of(os.environ)
    filling = fill(body, Path(), job, guessed)
    if not quiet and (always or job or Terminal(stderr=True).is_terminal):
        parts = [f"{name} {_shown(value)}" for name, value in filling.summary.items()]
        said = [f"Filled in: {', '.join(parts)} (--no-fill leaves that out)."] if parts else []
        for each in (*said, *filling.notes):
            line(each, err=True)
    return filling


def propose_commands(body: Mapping[str, Any], *, quiet: bool) -> tuple[str, ...]:
    """Return the options that the repository's instructions suggest for a goal. Unless `quiet`, print them too."""
    notes = tuple(propose(body, Path()))
    for note in () if quiet else notes:
        line(note, err=True)
    return notes


def note_delivery(planner: Planner, body: Mapping[str, Any], *, quiet: bool) -> str:
    """Return a note if a goal asks for a delivery and no controller delivers; else return an empty text.

    Unless `quiet`, the note is printed too.
    """
    delivery = body.get("delivery")
    if not (isinstance(delivery, dict) and delivery.get("push")):
        return ""
    try:
        queues = planner.queues()
    except Trouble:  # this user may not read queues
        return ""
    if any(each.queue == DELIVERIES and each.readers for each in queues):
        return ""
    note = (
        f"No controller reads the queue `{DELIVERIES}`: the plan's changes wait there until a controller starts whose "
        "repositories file has [delivery] (planner controller --repos FILE)."
    )
    if not quiet:
        line(note, err=True)
    return note


def note_flaky(report: junit.JUnitReport, *, quiet: bool) -> str:
    """Return a sentence with the tests of a report that failed and then passed; unless `quiet`, it is printed."""
    sentence = f"No failing tests, since they passed when they were run again: {', '.join(report.flaky)}."
    if not quiet:
        line(sentence, err=True)
    return sentence


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def from_text(text: bytes) -> dict[str, Any]:
    """Return the goal that a JSON text contains. Raises Failure if the text is no JSON object with proper parts."""
    try:
        body = codec.loads(text)
    except codec.DecodeError as error:
        raise Failure.of("invalid_json", f"The goal is not JSON: {error}", USAGE) from error
    if not isinstance(body, dict):
        raise Failure.of("invalid_message", "A goal is a JSON object.", USAGE)
    for name in ADDED_TO:
        if not isinstance(body.get(name), dict | None):
            raise Failure.of("invalid_message", f"`{name}` of a goal is a JSON object.", USAGE)
    return body


def named(body: dict[str, Any], sources: Sources) -> tuple[dict[str, Any], bool]:
    """Return a goal, if possible with an id, and whether this function added the id.

    A goal from a report or a CI job gets a digest of its content. A goal that has an id keeps it. A goal without a
    commit gets none, because the same content may be another goal.
    """
    if body.get("goal_id") or not (sources.junit or sources.sarif or job_of(os.environ)):
        return body, False
    name = goal.content_id(body)
    return (body | {"goal_id": name}, True) if name else (body, False)


def encode(body: Mapping[str, Any], max_bytes: int) -> tuple[bytes, str]:
    """Return a goal as JSON that the worker can read, and its digest. Raises Failure with every error."""
    data = codec.dumps(body)
    answer = read_goal(StreamEntry("", b"", {b"data": data}), max_bytes)
    if isinstance(answer, Problem):
        raise Failure(answer, USAGE)
    return data, answer[1]
