"""What the demo knows at a moment, and who may look at it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from schemas.plan import PlanView
from worker.demo.watch import Watch


@dataclass
class Act:
    """One thing that the demo does; `result` says what came of it."""

    title: str
    result: str | None = None


@dataclass
class Scene:
    """All that there is to see; it grows while the demo goes on."""

    home: Path
    kind: str
    moral: str
    started: float = field(default_factory=time.monotonic)
    acts: list[Act] = field(default_factory=list)
    watch: Watch | None = None
    rejected: PlanView | None = None
    diff: str = ""
    tests_passed: bool = False
    pages: list[tuple[str, str]] = field(default_factory=list)  # title and text of what the end shows beside

    @property
    def seconds(self) -> float:
        """How long the demo has been going on."""
        return time.monotonic() - self.started

    @property
    def completed(self) -> PlanView | None:
        """The plan that is to be completed."""
        return self.watch.view if self.watch else None
