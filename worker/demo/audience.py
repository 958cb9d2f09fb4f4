"""Who looks at the demo while it goes on: a person at a terminal, a log, or nobody."""

from __future__ import annotations

from contextlib import nullcontext
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from worker.demo import pieces
from worker.demo.scene import Scene

RECENT_EVENTS = 6
FRAMES_A_SECOND = 8


class Audience(Protocol):
    """Is shown the scene whenever something may have changed; a context, since a screen has to be given back."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def see(self, scene: Scene) -> None:
        """Show what is new."""


class Nobody(nullcontext[None]):
    """Looks away: for `--json`."""

    def see(self, scene: Scene) -> None:
        """Show nothing."""


class Log(nullcontext[None]):
    """Plain lines, each as soon as it is known: for pipes and CI."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._told: set[object] = set()

    def see(self, scene: Scene) -> None:
        """Print what was not printed before."""
        plan = scene.watch and scene.watch.plan_id
        for number, event in enumerate(scene.watch.events if scene.watch else ()):
            self._tell(("event", plan, number), pieces.event_line(event))
        for outcome in scene.watch.outcomes if scene.watch else ():
            self._tell((plan, outcome.step_id, outcome.attempt), pieces.said(outcome))
        for number, act in enumerate(scene.acts):
            self._tell((number, "title"), Text(f"{act.title} ..."), indent="")
            if act.result:
                self._tell((number, "result"), Text(act.result))

    def _tell(self, key: object, text: Text, indent: str = "    ") -> None:
        if key not in self._told:
            self._told.add(key)
            for line in text.split():
                self._console.print(Text(indent) + line, soft_wrap=True)


class Screen:
    """A picture that is drawn anew, and stays as it was last."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=FRAMES_A_SECOND)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def see(self, scene: Scene) -> None:
        """Draw the scene."""
        self._live.update(picture(scene))


def picture(scene: Scene) -> RenderableType:
    """Draw the acts and, once there is one, the plan; its latest events as long as it runs."""
    parts = [pieces.acts(scene)]
    if scene.watch and scene.watch.view:
        watch, view = scene.watch, scene.watch.view
        parts += [pieces.plan_line(view), pieces.steps(watch, view)]
        parts += [Group(*(pieces.said(outcome) for outcome in watch.told))]
        if not view.ended_at:
            parts += [pieces.events(watch.events[-RECENT_EVENTS:])]
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def audience(console: Console, *, as_json: bool) -> Audience:
    """Choose who looks: nobody for `--json`; the screen only where the terminal can draw it."""
    if as_json:
        return Nobody()
    return Screen(console) if console.is_terminal and not console.options.ascii_only else Log(console)
