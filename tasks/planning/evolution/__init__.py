"""The strategy of the kind `evolution`: an agent drafts a plan, and its steps are governed (seed 004).

The planner itself asks nobody: the draft is a step like any other, whose input is the prompt (`queue` drafter). What
comes back is parsed as the validation mode says, and only then unfolds into steps.
"""

from __future__ import annotations

from tasks.planning.evolution.drafting import draft
from tasks.planning.evolution.unfolding import advance, answer, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
