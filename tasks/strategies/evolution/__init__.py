"""The strategy of the kind `evolution`: an agent drafts a plan, and its steps are governed (seed 004).

With the drafter `queue` the draft is a step like any other, whose input is the prompt; any other drafter is asked by
the worker before there is a plan. Either way what comes back is judged as the validation mode says, and only then
becomes steps.
"""

from __future__ import annotations

from tasks.strategies.evolution.drafting import draft
from tasks.strategies.evolution.unfolding import advance, answer, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
