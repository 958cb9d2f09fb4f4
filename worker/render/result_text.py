"""Draws the result of a plan in lines of text for a terminal; texts may come from outside."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from schemas.result import FailureResult, FileResult, PlanResult, Spent, VerifiedBy, Way
from worker.render.plan import plain, span
from worker.render.remarks import Remarks
from worker.render.result import counted

MOST_FILES = 20
MAX_ANSWER = 300  # characters
COMMAND = "    "  # before a command on a line of its own, which is never wrapped: people copy it
SIGNS = {"created": "new", "changed": "changed", "deleted": "deleted"}


def draw(result: PlanResult) -> RenderableType:
    """Draw a result: its sentence first, then the details."""
    return Group(Text(plain(result.sentence), "bold"), *map(_line, details_of(result)))


def _line(line: str) -> Text:
    if line.startswith(COMMAND):
        return Text(plain(line), no_wrap=True, overflow="ignore")
    return Text(plain(line))


def details_of(result: PlanResult) -> list[str]:
    """Return the lines below the sentence; the delivery is shown with the plan."""
    diff = [f"diff: planner show {result.plan_id} --diff"] if any(step.diff_bytes for step in result.steps) else []
    take = [f"take it, in {result.take_in}:", f"{COMMAND}{result.take}"] if result.take else []
    return [
        *filter(None, [result.unread]),
        *_failure(result.plan_id, result.failure),
        *_files(result),
        *diff,
        *(f"verified by {each.command or each.tool}: {verdict_of(each)}" for each in result.verified_by),
        *filter(None, [result.unverified]),
        *integrity_of(result),
        *_answers(result),
        *take,
        spent_of(result.spent),
    ]


def _failure(plan_id: str, failure: FailureResult | None) -> Iterator[str]:
    if failure is None:
        return
    yield from (f"fails: {test}" for test in failure.tests)
    if failure.more_tests:
        yield f"and {counted(failure.more_tests, 'more test')}"
    yield from (f"    {line}" for line in failure.output.splitlines())
    yield from (f"{way.text}: {command_of(plan_id, way)}" for way in failure.ways)


def command_of(plan_id: str, way: Way) -> str:
    """Return the `planner` command that continues the plan in this way."""
    said, words = way.values, list[str]()
    if "limit" in said:
        words += ["--limit", f"{said['limit']}={said['limit_value']}"]
    for file in said.get("allow", "").splitlines():
        words += ["--allow", file]
    if "from_step" in said:
        words += ["--from", said["from_step"]]
    return shlex.join(["planner", way.act, plan_id, *words])


def _files(result: PlanResult) -> Iterator[str]:
    shown = result.files[:MOST_FILES]
    yield from (f"{SIGNS[file.kind]} {file.path}{lines_of(file)}" for file in shown)
    if left := len(result.files) - len(shown) + result.more_files:
        yield f"and {counted(left, 'more file')}"


def _answers(result: PlanResult) -> Iterator[str]:
    for answer in result.answers:
        cut = "…" * (answer.is_cut or len(answer.text) > MAX_ANSWER)
        yield f"{answer.step_id} answered: {answer.text[:MAX_ANSWER]}{cut}"


def lines_of(file: FileResult) -> str:
    """Return the numbers of added and removed lines of a file, if they are known."""
    return "" if file.added is None else f"  +{file.added:,} -{file.removed or 0:,}"


def verdict_of(each: VerifiedBy) -> str:
    """Return the result of a verification with its test counts, after the result before if that is known."""
    found = f"{each.before} before, {each.now} now" if each.before else each.now
    counts = [(each.passed, "passed"), (each.failed, "failed"), (each.skipped, "skipped")]
    told = ", ".join(f"{number:,} {what}" for number, what in counts if number)
    return f"{found} ({told})" if told else found


def integrity_of(result: PlanResult) -> list[str]:
    """Return the findings of the integrity check."""
    found = result.integrity
    if found.looked_at and not found.places:
        return [f"integrity: {counted(found.looked_at, 'change')} checked, nothing found"]
    return Remarks(integrity=found.places).altered


def spent_of(spent: Spent) -> str:
    """Return the consumption of a plan."""
    cost = "" if spent.cost_usd is None else f", {spent.cost_usd:,.4f} USD"
    failed = f" ({spent.failed_attempts:,} failed)" if spent.failed_attempts else ""
    return f"{spent.tokens:,} tokens{cost}, {span(spent.seconds)}, {counted(spent.attempts, 'attempt')}{failed}"
