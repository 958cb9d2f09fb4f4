"""Draws one attempt of a step for a terminal: its result, and the ends of its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from worker.render.explanation import draw_instructions
from worker.render.plan import plain

SHOWN = {  # file -> the option that prints all of it
    "changes.diff": "--diff",
    "verification.txt": "--verification",
    "denied.txt": "--json",
    "transcript": "--transcript",
}
MOST_LINES = 40  # of each


def draw(shown: dict[str, Any]) -> RenderableType:
    """Draw the output of `planner attempt --json`."""
    return Group(*_head(shown), *_files(shown["files"]))


def place(shown: dict[str, Any]) -> str:
    """Return the place of an attempt's files."""
    if shown["folder"]:
        return f"It is kept in {shown['folder']}"
    if kept := shown["transcript"]:
        return f"It is kept on {kept['host'] or 'the host of its controller'}, in {Path(kept['path']).parent}"
    return "Its controller reported no transcript"


def _head(shown: dict[str, Any]) -> Iterator[Text]:
    outcome = shown["outcome"] or {}
    came = shown["result"] or ("success" if outcome.get("success") else "failure" if outcome else "no outcome")
    yield Text(plain(f"{shown['plan_id']}  {shown['step_id']}  attempt {shown['attempt']}  {came}"), "bold")
    evidence = outcome.get("failure_evidence") or {}
    why = [shown["category"] or evidence.get("category"), shown["reason"] or outcome.get("error_message")]
    if any(why):
        yield Text(plain(": ".join(map(str, filter(None, why)))))
    if outcome:
        metrics = outcome.get("metrics") or {}
        tokens = metrics.get("tokens_used")
        used = "tokens not told" if tokens is None else f"{tokens:,} tokens"
        yield Text(plain(f"{outcome.get('controller')}  {metrics.get('duration_ms', 0) / 1000:.1f} s  {used}"), "dim")
    yield Text(plain(place(shown)), "dim")
    if shown["is_sent"]:
        yield Text("Its controller sent this output of the agent; longer output is cut.", "dim")
    if reported := outcome.get("instructions"):
        yield Text(plain(draw_instructions(reported)), "dim")
    if shown["is_unaltered"] is False:
        yield Text(
            "The transcript has another digest than its outcome reports: it was altered, or is of another attempt.",
            "red",
        )


def _files(files: dict[str, bytes]) -> Iterator[Text]:
    for name, option in SHOWN.items():
        if not files.get(name):
            continue
        lines = files[name].decode(errors="replace").expandtabs().splitlines()
        left = len(lines) - MOST_LINES
        yield Text(f"\n{name}" + (f" ({option} prints {left:,} lines more)" if left > 0 else ""), "bold")
        part = lines[:MOST_LINES] if name == "changes.diff" else lines[-MOST_LINES:]
        yield from (Text(f"  {plain(each)}") for each in part)
