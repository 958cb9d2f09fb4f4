"""Draws plans, their steps and events for a terminal.

Texts of goals and steps come from outside: they are shown without control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from schemas.base import PlanState, StepState
from schemas.plan import (
    Budget,
    BudgetLine,
    Halt,
    MemoryView,
    PlanSummary,
    PlanView,
    StandingStill,
    StepActivity,
    StepView,
    Waiting,
)
from tasks.memory.alike import describe
from worker.render.delivery import describe_delivery
from worker.render.remarks import Remarks, listed

STEP_LOOKS = {
    StepState.DONE: ("✔", "green"),
    StepState.ACTIVE: ("▶", "bold yellow"),
    StepState.FAILED: ("✘", "red"),
    StepState.HALTED: ("■", "bold red"),
    StepState.SKIPPED: ("↷", "dim"),
    StepState.PENDING: ("○", ""),
    StepState.BLOCKED: ("◌", "dim"),
}
PLAN_STYLES = {
    PlanState.COMPLETED: "green",
    PlanState.EXECUTING: "yellow",
    PlanState.HALTED: "bold red",
    PlanState.REJECTED: "red",
}
EVENT_STYLES = {
    "done": "green",
    "completed": "bold green",
    "failed": "red",
    "halted": "bold red",
    "rejected": "bold red",
    "retried": "yellow",
    "expired": "yellow",
    "started": "bold",
    "unverified": "yellow",
}
NOBODY_HAS = {"queued": "queued", "backoff": "waits"}  # activities of an ACTIVE step without a controller, in words
OPEN_STEPS = frozenset({StepState.PENDING, StepState.BLOCKED, StepState.ACTIVE})
ENDED = frozenset({PlanState.COMPLETED, PlanState.HALTED, PlanState.REJECTED})
SHORT = len("plan_3c-") + 12  # bucket and millisecond: as a rule as good as the whole id
BAR = 20
SILENT_S = 30  # age of the last heartbeat from which it is shown; controllers send one every 20 s
MAX_ANSWER = 300  # characters of an answer
DELIVERED = ("branch", "pull_request", "undelivered")  # fields of a plan
UNVERIFIED = "not verified: nothing proves this success"


def plain(text: object) -> str:
    """Return a text without characters that could control a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def overview(plans: Sequence[PlanSummary], now: datetime | None = None) -> Table:
    """Draw plans, one a line."""
    now = now or datetime.now(UTC)
    short = {each.plan_id[:SHORT] for each in plans}
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in ("plan", "state", "steps", "age"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("steps", "age") else "left")
    table.add_column("goal", no_wrap=True, ratio=1, overflow="ellipsis")
    for each in plans:
        name = each.plan_id[:SHORT] if len(short) == len(plans) else each.plan_id
        total, done = sum(each.counts.values()), each.counts.get(StepState.DONE, 0)
        table.add_row(
            name.removeprefix("plan_"),
            _state(each),
            f"{done}/{total}",
            span(int((now - datetime.fromisoformat(each.created_at)).total_seconds())),
            Text(plain(each.goal)),
        )
    return table


def tally(counts: Mapping[str, int]) -> Text:
    """Return a line with the number of plans in each state."""
    return Text(f"All plans: {', '.join(f'{count:,} {state}' for state, count in counts.items())}", "dim")


def _asked(waiting: Waiting) -> Iterator[RenderableType]:
    """Yield a panel with the questions to a person and, for a conflict, a panel with its two sides."""
    yield Panel(Text(plain("\n".join(waiting.questions))), title=f"waits: {waiting.kind}")
    if waiting.kind == "approval" and waiting.document:
        yield Panel(Text(plain(waiting.document)), title="both sides of the conflict")


def portrait(plan: PlanView, most_steps: int | None = None, result: RenderableType | None = None) -> RenderableType:
    """Draw a plan: goal, state, `result` if given, the reason of its end, budgets, and a tree of its steps."""
    head = Text.assemble((plan.plan_id, "bold"), "  ", _state(plan), f"  revision {plan.revision}")
    remarks = Remarks.of(plan)
    about = f"goal {plan.goal_id}  {plan.kind}  {plan.created_at[:19].replace('T', ' ')} UTC"
    parts: list[RenderableType] = [head, Text(plain(plan.goal)), Text(plain(about), "dim")]
    parts += [*(Text(plain(each), "dim") for each in _origin(plan)), "", *([result, ""] if result else [])]
    if plan.doubt:
        parts += [Text(plain(plan.doubt), "bold yellow"), ""]
    if plan.halt:
        parts += [_halt(plan.halt), ""]
    if stops := _stops(plan, remarks):
        parts += [*(Text(plain(each), "yellow") for each in stops), ""]
    if plan.waiting:
        parts += [*_asked(plan.waiting), ""]
    if delivered := [(name, told) for name in DELIVERED if (told := getattr(plan, name))]:
        parts += [
            Text(plain(f"{name.replace('_', ' ')}: {told}"), "yellow" * (name == "undelivered"))
            for name, told in delivered
        ]
        parts += [
            Text(plain(f"change: {each}")) for each in (describe_delivery(plan.delivery) if plan.delivery else ())
        ]
        parts.append("")
    if needed := remarks.needed:
        parts += [*(Text(plain(each), "yellow") for each in needed), ""]
    if overlapped := remarks.overlapped:
        parts += [*(Text(plain(each), "yellow") for each in overlapped), ""]
    if plan.outside:
        parts += [Text(plain(plan.outside), "yellow"), ""]
    if plan.steps:
        parts += [_budget(plan.budget), "", _steps(plan, most_steps)]
    return Group(*parts)


def _stops(plan: PlanView, remarks: Remarks) -> list[str]:
    """Return the causes that stop a plan; its question to a person has a separate panel."""
    if plan.paused_by:
        return [f"paused: {each}" for each in remarks.pauses]
    still = plan.standing_still
    return [standing_line(still)] if still and still.reason != "person" else []


def standing_line(still: StandingStill) -> str:
    """Return why no step of a plan runs, and since when if that is known."""
    since = f" (since {still.since})" if still.since else ""
    return f"Nothing moves: {still.detail}{since}"


def _origin(plan: PlanView) -> list[str]:
    """Return lines with the plans that a plan comes from or learned from, and the plans that retried its goal."""
    told = {
        "retry of {}": plan.retry_of,
        "retried by {}": ", ".join(plan.retried_by),
        "draft of {}, from the plan cache": plan.drafted_from,
        "told of tests that were flaky in earlier plans: {}": listed(plan.flaky_tests),
    }
    return [*(text.format(named) for text, named in told.items() if named), *memory_lines(plan.memory)]


def memory_lines(memory: MemoryView | None) -> list[str]:
    """Return the lessons of earlier plans of the repository for a plan, one a line."""
    if memory is None:
        return []
    similar = [f"similar before: {describe(each.model_dump())}" for each in memory.similar]
    order = memory.order
    checks = [
        f"check by memory: {each.tool} for {each.step_id}, since steps like it often fail by {each.category}"
        if each.step_id
        else f"check by memory: {each.tool} goes last, since it never found anything"
        for each in memory.checks
    ]
    return [*similar, *([f"order by memory, {order.by} first: {', '.join(order.steps)}"] if order else []), *checks]


def _state(plan: PlanSummary) -> Text:
    paused = " (paused)" if plan.paused else ""
    change = f", {plan.delivery.state}" if plan.delivery else ""
    return Text(plan.state + change + paused, PLAN_STYLES.get(plan.state, ""))


def span(seconds: int) -> str:
    """Return seconds in their largest unit, such as `3 min`; never below `0 s`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{max(0, seconds)} s"


def _halt(halt: Halt) -> Panel:
    errors = (
        f"{each['pointer'] or '/'}  {each['message']} ({each['code']})" for each in halt.evidence.get("errors", ())
    )
    lines = [Text(plain(halt.reason)), *(Text(plain(each), "dim") for each in errors)]
    return Panel(Group(*lines), title=halt.rule, title_align="left", border_style="red")


def _budget(budget: Budget) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    for name, line in budget:
        unit = " s" if name.endswith("_s") else ""
        limit = "no limit" if line.limit is None else f"of {line.limit:,}{unit}"
        held = f", {line.reserved:,} held" if line.reserved else ""
        figures = f"{line.spent:,} {limit}{held}"
        table.add_row(name.removesuffix("_s").replace("_", " "), _bar(line), figures)
    return table


def _bar(line: BudgetLine) -> Text:
    limit = line.limit or 0
    spent = min(BAR, round(BAR * line.spent / limit)) if limit else 0
    held = min(BAR - spent, round(BAR * line.reserved / limit)) if limit else 0
    style = "red" if limit and line.spent >= limit else "green"
    return Text.assemble(("█" * spent, style), ("▒" * held, "yellow"), ("░" * (BAR - spent - held), "dim"))


def _steps(plan: PlanView, most: int | None) -> Group:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step", overflow="fold", max_width=36)
    table.add_column("state", no_wrap=True)
    table.add_column("try", justify="right", no_wrap=True)
    table.add_column("work", overflow="fold")
    shown = plan.steps[:most]
    for branch, step in arrange(shown):
        told = shown_state(plan.state, step.state, was_tried=step.attempt > 0, doing=step.activity)
        mark, style = look_of(step.state, told)
        name = Text.assemble((branch, "dim"), (f"{mark} ", style), step.step_id)
        state = Text(told, style if told == step.state else "dim")
        table.add_row(name, state, str(step.attempt or ""), Group(*_work(step)))
    left = len(plan.steps) - len(shown)
    return Group(table, *([Text(f"... and {left:,} more steps (--all)", "dim")] if left else []))


def shown_state(of_plan: str, state: str, *, was_tried: bool, doing: StepActivity | None = None) -> str:
    """Return the state of a step for people.

    A step is ACTIVE as soon as its attempt is handed out. Until a controller has it, it is queued, and between two
    attempts it waits. A plan that ends keeps the states of waiting steps, which will not run any more.
    """
    if of_plan not in ENDED or state not in OPEN_STEPS:
        return NOBODY_HAS.get(doing.kind, state) if doing and state == StepState.ACTIVE else state
    return "not run again" if was_tried else "not run"


def look_of(state: str, told: str) -> tuple[str, str]:
    """Return the mark and the style of a step in `state`; `told` is the state that people see."""
    return STEP_LOOKS[StepState.PENDING if told in NOBODY_HAS.values() else StepState(state)]


def blueprint(steps: Sequence[StepView], most: int) -> Group:
    """Draw the steps of a plan that is not made yet, with queue and risk."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step", overflow="fold", max_width=36)
    for column in ("type", "risk", "queue"):
        table.add_column(column, no_wrap=True)
    table.add_column("work", overflow="fold")
    for branch, step in arrange(steps[:most]):
        name = Text.assemble((branch, "dim"), step.step_id)
        table.add_row(name, step.type, step.risk_level, Text(plain(step.queue)), Group(*_work(step)))
    left = len(steps) - most
    return Group(table, *([Text(f"... and {left:,} more steps", "dim")] if left > 0 else []))


def _work(step: StepView) -> Iterator[Text]:
    yield Text(plain(step.title))
    if step.activity:
        yield Text(plain(_activity(step.activity)), "yellow")
    if step.verified is False:
        yield Text(UNVERIFIED, "yellow")
    if step.allowed_files:
        yield Text(plain(listed(step.allowed_files)), "cyan")
    if step.verify:
        yield Text(plain(f"$ {step.verify}"), "dim")
    if len(step.depends_on) > 1:
        yield Text(f"after {listed(step.depends_on)}", "dim")
    if step.answer:
        yield Text(plain(f"answered: {step.answer[:MAX_ANSWER]}{'…' * (len(step.answer) > MAX_ANSWER)}"), "dim")


def _activity(doing: StepActivity) -> str:
    """Return the activity of a step, such as `queued 12 min: no controller reads gpu` or `running 3 min on ctl-7`."""
    now = datetime.now(UTC)

    def ago(moment: str | None) -> int:
        return int((now - datetime.fromisoformat(moment)).total_seconds()) if moment else 0

    if doing.kind == "backoff":
        return f"next attempt in {span(-ago(doing.until))}" + (f": {doing.reason}" if doing.reason else "")
    heard = ago(doing.heartbeat_at)
    words = [doing.kind, f" {span(ago(doing.since))}" if doing.since else ""]
    words += [f" on {doing.controller}" if doing.controller else "", f": {doing.reason}" if doing.reason else ""]
    return "".join(words) + (f", last heartbeat {span(heard)} ago" if heard > SILENT_S else "")


def arrange(steps: Sequence[StepView]) -> Iterator[tuple[str, StepView]]:
    """Yield each step with the characters of its branch in the tree.

    A step is below its deepest dependency: sequences are flat, and branches are indented.
    """
    children = _children(steps)
    waiting = _branches(children[""], "")
    while waiting:
        step, branch, below = waiting.pop()
        yield branch, step
        waiting += _branches(children[step.step_id], below)


def _branches(siblings: Sequence[StepView], before: str) -> list[tuple[StepView, str, str]]:
    """Return each sibling with its branch and its children's branch, the last sibling first.

    A single child continues its parent's line.
    """
    if len(siblings) < 2:
        return [(step, before, before) for step in siblings]
    rest = [(step, before + "├ ", before + "│ ") for step in siblings[:-1]]
    return [(siblings[-1], before + "└ ", before + "  "), *reversed(rest)]


def _children(steps: Sequence[StepView]) -> dict[str, list[StepView]]:
    deep = depths({step.step_id: step.depends_on for step in steps})
    children: dict[str, list[StepView]] = {"": [], **{step.step_id: [] for step in steps}}
    for step in steps:
        known = [each for each in step.depends_on if each in deep]
        parent = max(known, key=lambda each: deep[each], default="")
        children[parent].append(step)
    return children


def depths(depends_on: dict[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest path to each step; without recursion, because a plan may be a long chain."""
    found: dict[str, int] = {}
    for first in depends_on:
        stack = [first]
        while stack:
            before = depends_on[stack[-1]]
            if missing := [each for each in before if each not in found and each in depends_on]:
                stack += missing
            else:
                found[stack.pop()] = 1 + max([found[each] for each in before if each in found], default=0)
    return found


def event_line(what: str, data: dict[str, Any]) -> Text:
    """Draw an event of the type `what`: its time, step, move and reason."""
    style = EVENT_STYLES.get(what.rpartition(".")[2], "")
    attempt = f" #{data['attempt']}" if (data.get("attempt") or 0) > 1 else ""
    moved = f"{data['from']} → {data['to']}" if data.get("from") != data.get("to") else ""
    phase = f"{data['phase']}: {data['status']}" if data.get("phase") else ""
    pairs = zip(data.get("pointers", ()), data.get("nearest", ()), strict=False)
    unknown = ", ".join(f"{pointer} (is it {near}?)" if near else pointer for pointer, near in pairs)
    return Text.assemble(
        (data["at"][11:23], "dim"),
        "  ",
        (f"{what:<17}", style),
        f"  {data.get('step_id', '')}{attempt}".ljust(24),
        "  ",
        (moved, "dim"),
        ("  " if moved else "") + plain(data.get("reason") or phase or unknown),
    )
