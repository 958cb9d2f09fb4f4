"""The result of a goal as a page of Markdown: for the summary of a CI job, and on later request.

Texts of goals, steps and outcomes come from outside. On the page each is code, without links, pictures, mentions or
HTML, and each is truncated, so that a page stays below MAX_BYTES.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from schemas.base import PlanState
from schemas.plan import Budget, GoalAnswer, PlanView
from schemas.result import PlanResult
from worker.render.delivery import describe_delivery
from worker.render.explanation import lines_of
from worker.render.mermaid import MAX_NODES, flowchart
from worker.render.plan import STEP_LOOKS, plain, shown_state, span
from worker.render.remarks import Remarks
from worker.render.result_text import details_of

MAX_BYTES = 1_000_000  # of a page; GitHub takes 1 MiB for each step of a job
MAX_ROWS = 100  # of the table of steps
MAX_CELL = 120  # characters of a text in a table
MAX_FILES = 3  # of a step in the table
MAX_TEXT = 1000  # characters of a goal, a reason or a question
MAX_EXPLANATION = 60_000
MAX_LISTED = 20  # questions, errors
MOST_TOLD = 60  # lines of the result
MARKS = {PlanState.COMPLETED: "✅", PlanState.HALTED: "❌", PlanState.REJECTED: "❌"}
UNTROUBLED = re.compile(r"[^`|\\]+")  # characters that a code span in a table needs no escape for
ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+(?::\d{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


def page_of_plan(plan: PlanView, explained: dict[str, Any], result: PlanResult) -> str:
    """Return the page of a plan: its state, result, steps, graph, budget and explanation.

    `explained` is the explanation in the form of `planner explain --json`.
    """
    remarks, told = Remarks.of(plan), details_of(result)
    ended = datetime.fromisoformat(plan.ended_at) if plan.ended_at else None
    took = f" after {span(int((ended - datetime.fromisoformat(plan.created_at)).total_seconds()))}" if ended else ""
    return _page(
        _head(plan.state, took),
        *_doubted(plan.doubt),
        f"Goal: {code(plan.goal, MAX_TEXT)}",
        code(result.sentence, MAX_TEXT),
        _bullets(map(code, told), MOST_TOLD),
        _bullets([f"plan {code(plan.plan_id)}, goal {code(plan.goal_id)}, kind {plan.kind}, revision {plan.revision}"]),
        *_ending(plan.halt.rule if plan.halt else None, plan.halt.reason if plan.halt else None),
        *(f"Paused: {code(each)}" for each in remarks.pauses),
        *(["It waits for an answer:", _bullets(map(code, plan.waiting.questions))] if plan.waiting else []),
        *_delivered(plan),
        *(_steps(plan) if plan.steps else ()),
        *_budget(plan.budget),
        *(f"⚠️ {code(each, MAX_TEXT)}" for each in remarks.warnings if each not in told),
        *_explanation(explained),
    )


def page_of_goal(record: GoalAnswer) -> str:
    """Return the page of a goal from its record alone, which is all that a producer may read."""
    about = [f"goal {code(record.goal_id)}", *([f"plan {code(record.plan_id)}"] if record.plan_id else [])]
    ended = [f"ended at {code(record.ended_at)}"] if record.ended_at else []
    errors = [f"{code(each.get('pointer') or '/')} {code(each.get('message', ''))}" for each in record.errors]
    criteria = [f"{code(each.text)}: checked by {code(each.checked_by or 'nothing')}" for each in record.criteria]
    return _page(
        _head(record.state or record.verdict),
        *_doubted(record.doubt),
        _bullets([*about, *ended]),
        *_ending(record.halt_rule, record.halt_reason or record.reason or None),
        *([_bullets(errors)] if errors else []),
        *([_bullets(criteria)] if criteria else []),
        *_delivered(record),
    )


def _doubted(doubt: str | None) -> Iterator[str]:
    if doubt:
        yield f"⚠️ {code(doubt, MAX_TEXT)}"


def nothing_page(why: str) -> str:
    """Return the page of a goal that was not sent, because there is nothing to do."""
    return _page(_head("NOTHING_TO_DO"), why)


def code(text: object, most: int = MAX_CELL) -> str:
    """Return a text from outside as inert code, on one line, truncated."""
    line = " ".join(plain(str(text)[: 2 * most]).split())
    line = line[: most - 1] + "…" if len(line) > most else line
    if not line:
        return ""
    if UNTROUBLED.fullmatch(line):
        return f"`{line}`"
    letters = (f"&#{ord(char)};" if char.isascii() and not char.isalnum() and char != " " else char for char in line)
    return f"<code>{''.join(letters)}</code>"


def _page(*parts: str) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


def _head(state: str, took: str = "") -> str:
    mark = MARKS.get(PlanState(state), "⏳") if state in set(PlanState) else "⏳"
    return f"## {mark} Planner: {state}{took}"


def _ending(rule: str | None, reason: str | None) -> Iterator[str]:
    if rule or reason:
        yield ": ".join(filter(None, (f"rule {code(rule)}" if rule else "", code(reason or "", MAX_TEXT))))


def _delivered(of: PlanView | GoalAnswer) -> Iterator[str]:
    """Yield the branch and the address; an address of a controller is a link only if it is plain."""
    address = of.pull_request or ""
    link = f"<{address}>" if len(address) <= MAX_TEXT and ADDRESS.fullmatch(address) else code(address, MAX_TEXT)
    if of.branch:
        yield f"Branch: {code(of.branch)}"
    if link:
        yield f"Pull request: {link}"
    if isinstance(of, PlanView) and of.delivery:
        yield f"Change: {'; '.join(code(each, MAX_TEXT) for each in describe_delivery(of.delivery))}"
    if of.undelivered:
        yield f"Not delivered: {code(of.undelivered, MAX_TEXT)}"


def _steps(plan: PlanView) -> Iterator[str]:
    steps = plan.steps
    marks = {str(state): mark for state, (mark, _) in STEP_LOOKS.items()}
    told = {step.step_id: shown_state(plan.state, step.state, was_tried=step.attempt > 0) for step in steps}
    rows = [
        (
            code(step.step_id),
            f"{marks.get(state, '')} {state}{' (not verified)' if step.verified is False else ''}".lstrip(),
            str(step.attempt or ""),
            step.risk_level,
            code(step.title),
            _listed(step.allowed_files),
            code(step.verify),
        )
        for step in steps[:MAX_ROWS]
        for state in (told[step.step_id],)
    ]
    yield "### Steps"
    yield _table(("step", "state", "attempts", "risk", "work", "files", "verification"), rows)
    if len(steps) > MAX_ROWS:
        yield f"... and {len(steps) - MAX_ROWS:,} more steps."
    yield f"```mermaid\n{flowchart((step.step_id, told[step.step_id], step.depends_on) for step in steps)}\n```"
    if len(steps) > MAX_NODES:
        yield f"The graph shows the first {MAX_NODES} steps."


def _listed(files: Sequence[str]) -> str:
    more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
    return ", ".join(map(code, files[:MAX_FILES])) + more


def _budget(budget: Budget) -> Iterator[str]:
    rows = [
        (
            name.removesuffix("_s").replace("_", " ") + (" (s)" if name.endswith("_s") else ""),
            *(("" if figure is None else f"{figure:,}") for figure in (line.spent, line.limit)),
        )
        for name, line in budget
    ]
    yield "### Budget"
    yield _table(("budget", "spent", "limit"), rows)


def _explanation(explained: dict[str, Any]) -> Iterator[str]:
    lines, room = [], MAX_EXPLANATION
    for line in lines_of(explained):
        lines.append(plain(line[:room]))
        room -= len(lines[-1]) + 1
        if room <= 0:
            lines.append("...")
            break
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    yield "<details><summary>Explanation</summary>"
    yield "\n".join((f"{fence}text", *lines, fence))
    yield "</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bullets(lines: Iterable[str], most: int = MAX_LISTED) -> str:
    return "\n".join(f"- {line}" for line in list(lines)[:most])
