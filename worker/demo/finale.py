"""How the demo ends: the change, what it cost, what was refused, and all that happened."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from worker.demo import pieces
from worker.demo.audience import picture
from worker.demo.scene import Scene

SVG_WIDTH = 100
FONT_FACES = re.compile(r"\s*@font-face \{[^}]*\}")  # fonts from elsewhere: a README's picture must not fetch any


def finale(scene: Scene) -> RenderableType:
    """Draw the end of a demo that went well."""
    assert scene.completed and scene.rejected and scene.watch  # noqa: PT018, S101 - the story has seen to it
    parts = {
        "The change on the plan's branch": _diff(scene.diff),
        "The goal that was rejected": pieces.rejection(scene.rejected),
        "The budget": pieces.budget(scene.completed),
        "The event log": pieces.events(scene.watch.events),
    }
    drawn = [Group(Text(title, "bold"), Padding(part, (0, 0, 1, 2))) for title, part in parts.items()]
    return Group(*drawn, _verdict(scene))


def _diff(diff: str) -> RenderableType:
    """Without the header that only git needs."""
    return Syntax(diff.rstrip(), "diff", theme="ansi_dark", background_color="default")


def _verdict(scene: Scene) -> RenderableType:
    return Text.assemble(
        ("COMPLETED", "bold green"), f" in {scene.seconds:.1f} s. ",
        "A real bug, a wrong patch stopped by real tests, a right one on a branch of its own.",
    )  # fmt: skip


def draw_svg(scene: Scene, path: Path) -> None:
    """Draw the last picture and the end into an SVG file."""
    console = Console(record=True, file=io.StringIO(), force_terminal=True, width=SVG_WIDTH, color_system="truecolor")
    console.print(picture(scene))
    console.print(finale(scene))
    svg = console.export_svg(title="planner demo")
    path.write_text(FONT_FACES.sub("", svg))
