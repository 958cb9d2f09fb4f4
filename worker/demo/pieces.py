"""The parts of the picture, for the live screen and for the end: what is known -> something that rich can draw."""

from __future__ import annotations

import re

from rich.console import Group, RenderableType
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from schemas.outcome import FailureEvidence, Outcome
from schemas.plan import BudgetLine, PlanView, StepView
from tasks.text.fields import one_line
from worker.demo.scene import Act, Scene
from worker.demo.watch import Event, Watch

STYLES = {
    "DONE": "green", "COMPLETED": "bold green", "PLANNED": "green", "ACTIVE": "bold yellow", "EXECUTING": "bold yellow",
    "BLOCKED": "dim", "PENDING": "cyan", "FAILED": "bold red", "HALTED": "bold red", "REJECTED": "bold red",
}  # fmt: skip
MAX_SAID = 120  # characters of an answer
ASIDE = re.compile(r"E\s+\+")  # how pytest explains where values came from
MARKS = {"DONE": "✓", "ACTIVE": "●", "FAILED": "✗", "HALTED": "✗", "SKIPPED": "-"}


def acts(scene: Scene) -> RenderableType:
    """The acts so far; the last one may still go on."""
    table = Table.grid(padding=(0, 1))
    for act in scene.acts:
        table.add_row(_act_mark(act), act.title, _stateful(act.result or ""))
    return table


def _act_mark(act: Act) -> RenderableType:
    return Text("✓", "green") if act.result else Spinner("dots", style="yellow")


def _stateful(text: str) -> Text:
    """Colour a text by the state with which it begins."""
    state = text.partition(":")[0]
    return Text(text, STYLES.get(state, "dim"), overflow="ellipsis", no_wrap=True)


def steps(watch: Watch, view: PlanView) -> RenderableType:
    """The steps with their states, their attempts and who works or worked on them."""
    table = Table.grid(padding=(0, 2))
    for step in view.steps:
        style = STYLES.get(step.state, "")
        table.add_row(
            Text(MARKS.get(step.state, "·"), style),
            step.step_id,
            Text(step.type, "dim"),
            Text(step.state, style),
            Text(f"attempt {step.attempt}" if step.attempt else "", "dim" if step.attempt < 2 else "yellow"),
            Text(_worked_on(watch, step), "dim", no_wrap=True, overflow="ellipsis"),
        )
    return table


def _worked_on(watch: Watch, step: StepView) -> str:
    done = [outcome.controller for outcome in watch.outcomes if outcome.step_id == step.step_id]
    return watch.holders.get(step.step_id) or (done[-1] if done else None) or ""


def said(outcome: Outcome) -> Text:
    """What a controller reports of an attempt: its answer, or what the verification has shown."""
    text = Text.assemble((str(outcome.controller), "cyan"), f", {outcome.step_id}: ")
    if not outcome.success:
        return text + _failure(outcome.failure_evidence or FailureEvidence())
    return text.append(one_line(str(outcome.output or "the verification passed"), MAX_SAID), "dim")


def _failure(evidence: FailureEvidence) -> Text:
    trace = (evidence.stack_trace_head or "").partition("\n=====")[0]  # what follows repeats it
    shown = [*evidence.top_failing_tests, *(line for line in trace.splitlines() if line and not ASIDE.match(line))]
    lines = [("\n  " + line, "dim") for line in shown]
    return Text.assemble("the verification failed, ", (str(evidence.category), "bold red"), *lines)


def plan_line(view: PlanView) -> RenderableType:
    """The plan's state and what it has used up."""
    return Text.assemble(view.plan_id, "  ", (str(view.state), STYLES.get(view.state, "")))


def budget(view: PlanView) -> RenderableType:
    """What was spent of what was allowed."""
    table = Table.grid(padding=(0, 2))
    for name in type(view.budget).model_fields:
        line: BudgetLine = getattr(view.budget, name)
        limit = "no limit" if line.limit is None else f"of {line.limit}"
        table.add_row(name, Text(str(line.spent), justify="right"), Text(limit, "dim"))
    return table


def events(found: list[Event]) -> RenderableType:
    """Events, one a line."""
    return Group(*(event_line(event) for event in found))


def event_line(event: Event) -> Text:
    """When, what, which step, which attempt, and from where to where, or why."""
    data = event.data
    before, after = data.get("from"), data.get("to")
    moved = f"{before} -> {after}" if before != after else data.get("reason", "")
    moved = f"{data['phase']}: {data['status']}" if event.what == "plan.phase" else moved
    attempt = f"attempt {data['attempt']}" if data.get("attempt") else ""
    text = Text(f"+{event.after_ms / 1000:6.2f} s  ", "dim", no_wrap=True)
    text.append(f"{event.what:<16}", "not dim red" if data.get("reason") else "not dim")
    text.append(f"{data.get('step_id', ''):<17} {attempt:<11}" if attempt else "", "not dim")
    text.append(moved, "not dim")
    text.rstrip()
    return text


def diff(text: str) -> RenderableType:
    """A diff with its lines coloured; without the header that only git reads."""
    lines = [line for line in text.rstrip().splitlines() if not line.startswith("index ")]
    return Group(*(Text(line, _diff_style(line)) for line in lines))


def _diff_style(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ")):
        return "dim"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def rejection(view: PlanView) -> RenderableType:
    """Why the planner would not plan."""
    table = Table.grid(padding=(0, 2))
    for error in view.halt.evidence.get("errors", ()) if view.halt else ():
        table.add_row(Text(error["code"], "bold red"), error["pointer"], error["message"])
    return table
