"""Shows a demo: its steps and its plan during the run, for a terminal or a log, and its end."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from schemas.outcome import FailureEvidence, Outcome
from schemas.plan import BudgetLine, PlanView
from tasks.text.fields import one_line
from worker.demo.progress import Event, PlanWatch, Progress
from worker.host.terminal import Terminal

STYLES = {
    "DONE": "green", "COMPLETED": "bold green", "PLANNED": "green", "ACTIVE": "bold yellow", "EXECUTING": "bold yellow",
    "BLOCKED": "dim", "PENDING": "cyan", "FAILED": "bold red", "HALTED": "bold red", "REJECTED": "bold red",
}  # fmt: skip
MARKS = {"DONE": "✓", "ACTIVE": "●", "FAILED": "✗", "HALTED": "✗", "SKIPPED": "-"}
MAX_OUTPUT = 120  # characters of an answer
PYTEST_ASIDE = re.compile(r"E\s+\+")  # how pytest explains where values came from
RECENT_EVENTS = 6
FRAMES_A_SECOND = 8
SVG_WIDTH = 100
FONT_FACES = re.compile(r"\s*@font-face \{[^}]*\}")  # fonts from elsewhere: a README's picture must not fetch any


class Viewer(nullcontext[None]):
    """Receives the progress whenever it may have changed, and shows nothing: for `--json`."""

    def show(self, progress: Progress) -> None:
        """Show the news."""


class LogViewer(Viewer):
    """Prints plain lines as soon as they are known: for pipes and CI."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._printed: set[object] = set()

    def show(self, progress: Progress) -> None:
        """Print the news."""
        if watch := progress.watch:
            for number, event in enumerate(watch.events):
                self._print(("event", watch.plan_id, number), event_line(event))
            for outcome in watch.outcomes:
                self._print((watch.plan_id, outcome.step_id, outcome.attempt), outcome_text(outcome))
        for number, step in enumerate(progress.steps):
            self._print((number, "title"), Text(f"{step.title} ..."), indent="")
            if step.result:
                self._print((number, "result"), Text(step.result))

    def _print(self, key: object, text: Text, indent: str = "    ") -> None:
        if key not in self._printed:
            self._printed.add(key)
            for line in text.split():
                self._console.print(Text(indent) + line, soft_wrap=True)


class ScreenViewer(Viewer):
    """Redraws a picture; the last one remains on the screen."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._live = Live(console=console, refresh_per_second=FRAMES_A_SECOND)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        """Draw the progress."""
        self._live.update(picture(progress))


def viewer(console: Console, *, as_json: bool) -> Viewer:
    """Return a viewer: none for `--json`; the screen only if the terminal can draw it."""
    if as_json:
        return Viewer()
    return ScreenViewer(console) if console.is_terminal and not console.options.ascii_only else LogViewer(console)


def picture(progress: Progress) -> RenderableType:
    """Draw the demo's steps and, once there is one, the plan, with its latest events while it runs."""
    parts: list[RenderableType] = [demo_steps(progress)]
    if progress.watch and progress.watch.view:
        watch, view = progress.watch, progress.watch.view
        state = Text.assemble(view.plan_id, "  ", (str(view.state), STYLES.get(view.state, "")))
        reported = (each for each in watch.outcomes if each.output or not each.success)
        parts += [state, plan_steps(watch, view), Group(*map(outcome_text, reported))]
        if not view.ended_at:
            parts += [Group(*map(event_line, watch.events[-RECENT_EVENTS:]))]
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def show_end(progress: Progress, console: Console) -> None:
    """Print the end of a successful demo; into a pipe without colours and with whole lines."""
    plain = not console.is_terminal
    for title, part in _end_parts(progress):
        console.print(Text(title, "bold"))
        console.print(part if plain else Padding(part, (0, 0, 0, 2)), soft_wrap=plain)
        console.print()
    last = Text.assemble(("COMPLETED", "bold green"), f" in {progress.seconds:.1f} s: {progress.summary}")
    console.print(last, soft_wrap=plain)


def _end_parts(progress: Progress) -> Iterator[tuple[str, RenderableType]]:
    yield from ((title, Text(text)) for title, text in progress.pages)
    yield "The change on the plan's branch", diff(progress.diff)
    if progress.rejected:
        yield "The goal that was rejected", rejection(progress.rejected)
    if progress.completed:
        yield "The budget", budget(progress.completed)
    if progress.watch:
        yield "The event log", Group(*map(event_line, progress.watch.events))


def draw_svg(progress: Progress, path: Path) -> None:
    """Draw the last picture and the end into an SVG file."""
    command = "planner demo" if progress.kind == "task" else f"planner demo --kind {progress.kind}"
    console = Terminal(record=True, file=io.StringIO(), force_terminal=True, width=SVG_WIDTH, color_system="truecolor")
    console.print(Text(f"$ {command}\n", "bold"))
    console.print(picture(progress))
    show_end(progress, console)
    path.write_text(FONT_FACES.sub("", console.export_svg(title=command)))


def demo_steps(progress: Progress) -> Table:
    """Return the demo's steps; the last one may still run. A result has the colour of the state at its start."""
    table = Table.grid(padding=(0, 1))
    for step in progress.steps:
        result = step.result or ""
        style = STYLES.get(result.partition(":")[0], "dim")
        mark = Text("✓", "green") if result else Spinner("dots", style="yellow")
        table.add_row(mark, step.title, Text(result, style, overflow="ellipsis", no_wrap=True))
    return table


def plan_steps(watch: PlanWatch, view: PlanView) -> Table:
    """Return the plan's steps with their states, attempts and controllers."""
    last = {outcome.step_id: outcome.controller for outcome in watch.outcomes}
    table = Table.grid(padding=(0, 2))
    for step in view.steps:
        style = STYLES.get(step.state, "")
        who = watch.holders.get(step.step_id) or last.get(step.step_id) or ""
        table.add_row(
            Text(MARKS.get(step.state, "·"), style),
            step.step_id,
            Text(step.type, "dim"),
            Text(step.state, style),
            Text(f"attempt {step.attempt}" if step.attempt else "", "dim" if step.attempt < 2 else "yellow"),
            Text(who, "dim", no_wrap=True, overflow="ellipsis"),
        )
    return table


def outcome_text(outcome: Outcome) -> Text:
    """Return a controller's report on an attempt: its answer, or the result of the verification."""
    text = Text.assemble((str(outcome.controller), "cyan"), f", {outcome.step_id}: ")
    if outcome.success:
        return text.append(one_line(str(outcome.output or "the verification passed"), MAX_OUTPUT), "dim")
    evidence = outcome.failure_evidence or FailureEvidence()
    trace = (evidence.stack_trace_head or "").partition("\n=====")[0]  # what follows repeats it
    lines = (line for line in trace.splitlines() if line and not PYTEST_ASIDE.match(line))
    shown = [("\n  " + line, "dim") for line in (*evidence.top_failing_tests, *lines)]
    return text + Text.assemble("the verification failed, ", (str(evidence.category), "bold red"), *shown)


def budget(view: PlanView) -> Table:
    """Return the spent amounts and the limits."""
    table = Table.grid(padding=(0, 2))
    for name in type(view.budget).model_fields:
        line: BudgetLine = getattr(view.budget, name)
        limit = "no limit" if line.limit is None else f"of {line.limit}"
        table.add_row(name, Text(str(line.spent), justify="right"), Text(limit, "dim"))
    return table


def event_line(event: Event) -> Text:
    """Return the time of an event, its name, the step, the attempt, and the change of state or the reason."""
    data = event.data
    before, after = data.get("from"), data.get("to")
    change = f"{before} -> {after}" if before != after else data.get("reason", "")
    change = f"{data['phase']}: {data['status']}" if event.what == "plan.phase" else change
    attempt = f"attempt {data['attempt']}" if data.get("attempt") else ""
    text = Text(f"+{event.after_ms / 1000:6.2f} s  ", "dim", no_wrap=True)
    text.append(f"{event.what:<16}", "not dim red" if data.get("reason") else "not dim")
    text.append(f"{data.get('step_id', ''):<17} {attempt:<11}" if attempt else "", "not dim")
    text.append(change, "not dim")
    text.rstrip()
    return text


def diff(text: str) -> RenderableType:
    """Return a diff with coloured lines, without the header for git."""
    lines = []
    for line in text.rstrip().splitlines():
        if not line.startswith("index "):
            names = line.startswith(("diff ", "--- ", "+++ "))
            lines.append(Text(line, "dim" if names else {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")))
    return Group(*lines)


def rejection(view: PlanView) -> Table:
    """Return the planner's reasons for a rejection."""
    table = Table.grid(padding=(0, 2))
    for error in view.halt.evidence.get("errors", ()) if view.halt else ():
        table.add_row(Text(error["code"], "bold red"), error["pointer"], error["message"])
    return table
