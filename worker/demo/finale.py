"""How the demo ends: the change, what it cost, what was refused, and all that happened."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from worker.demo import pieces
from worker.demo.audience import picture
from worker.demo.scene import Scene
from worker.host.terminal import Terminal

SVG_WIDTH = 100
FONT_FACES = re.compile(r"\s*@font-face \{[^}]*\}")  # fonts from elsewhere: a README's picture must not fetch any


def show_end(scene: Scene, console: Console) -> None:
    """Print the end of a demo that went well; into a pipe without any colours, and every line whole."""
    plain = not console.is_terminal
    for title, part in _parts(scene):
        console.print(Text(title, "bold"))
        console.print(part if plain else Padding(part, (0, 0, 0, 2)), soft_wrap=plain)
        console.print()
    console.print(
        Text.assemble(("COMPLETED", "bold green"), f" in {scene.seconds:.1f} s: {scene.moral}"), soft_wrap=plain
    )


def _parts(scene: Scene) -> Iterator[tuple[str, RenderableType]]:
    yield from ((title, Text(text)) for title, text in scene.pages)
    yield "The change on the plan's branch", pieces.diff(scene.diff)
    if scene.rejected:
        yield "The goal that was rejected", pieces.rejection(scene.rejected)
    if scene.completed:
        yield "The budget", pieces.budget(scene.completed)
    if scene.watch:
        yield "The event log", pieces.events(scene.watch.events)


def draw_svg(scene: Scene, path: Path) -> None:
    """Draw the last picture and the end into an SVG file."""
    console = Terminal(record=True, file=io.StringIO(), force_terminal=True, width=SVG_WIDTH, color_system="truecolor")
    console.print(Text(f"$ {command_of(scene)}\n", "bold"))
    console.print(picture(scene))
    show_end(scene, console)
    svg = console.export_svg(title=command_of(scene))
    path.write_text(FONT_FACES.sub("", svg))


def command_of(scene: Scene) -> str:
    """Say how this demo was started."""
    return "planner demo" if scene.kind == "task" else f"planner demo --kind {scene.kind}"
