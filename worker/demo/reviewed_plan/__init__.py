"""The story of a `reviewed_plan`: designed, reviewed, mended, frozen, and carried out in waves on a real repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.demo.stage import Stage

QUEUES = ("architect", "developer", "technical-writer", "quality-reviewer")
MORAL = "a review found what the design forgot, and no line was written before the plan was frozen."


def play(stage: Stage) -> None:
    """Play all acts; raises DemoFailed at the first that does not come to its end."""
    from worker.demo.reviewed_plan.story import tell  # here, so that the agents of this package start at once

    tell(stage)
