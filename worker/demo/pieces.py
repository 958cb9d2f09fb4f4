"""The parts of the picture, for the live screen and for the end: what is known -> something that rich can draw."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from schemas.outcome import Outcome
from schemas.plan import BudgetLine, PlanView, StepView
from worker.demo.scene import Act, Scene
from worker.demo.watch import Event, Watch

STYLES = {
    "DONE": "green", "COMPLETED": "bold green", "PLANNED": "green", "ACTIVE": "bold yellow", "EXECUTING": "bold yellow",
    "BLOCKED": "dim", "PENDING": "cyan", "FAILED": "bold red", "HALTED": "bold red", "REJECTED": "bold red",
}  # fmt: skip
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


def failure(outcome: Outcome) -> RenderableType:
    """What a verification that failed has shown."""
    evidence = outcome.failure_evidence
    title = Text.assemble(
        ("✗ ", "red"),
        f"{outcome.step_id}, attempt {outcome.attempt}: the verification failed, ",
        (str(evidence and evidence.category), "bold red"),
    )
    tests = "\n".join(evidence.top_failing_tests) if evidence else ""
    trace = (evidence and evidence.stack_trace_head) or ""
    return Group(title, Padding(Text(f"{tests}\n{trace}".strip(), "dim"), (0, 0, 0, 3)))


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
    """When, what, which step, and why."""
    data = event.data
    moved = f"{data['from']} -> {data['to']}" if data.get("from") and data.get("to") else ""
    attempt = f"attempt {data['attempt']}" if data.get("attempt") else ""
    words = (data.get("step_id"), attempt, moved, data.get("reason"))
    style = "red" if data.get("reason") else ""
    return Text.assemble(
        (f"+{event.after_ms / 1000:6.2f} s  ", "dim"), (f"{event.what:<16}", style), " ".join(filter(None, words)),
        no_wrap=True, overflow="ellipsis",
    )  # fmt: skip


def rejection(view: PlanView) -> RenderableType:
    """Why the planner would not plan."""
    table = Table.grid(padding=(0, 2))
    for error in (view.halt.evidence.get("errors", ()) if view.halt else ()):
        table.add_row(Text(error["code"], "bold red"), error["pointer"], error["message"])
    return table
