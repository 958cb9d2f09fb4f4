"""The story of an `evolution`: a plan drafted from a git history, refused and mended, and measured in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.demo.stage import Stage

MORAL = "a plan that would have moved its own yardstick was refused, the mended one took the best of two branches."


def play(stage: Stage) -> None:
    """Play all acts; raises DemoFailed at the first that does not come to its end."""
    from worker.demo.evolution.story import tell  # here, so that the agent of this package starts at once

    tell(stage)
