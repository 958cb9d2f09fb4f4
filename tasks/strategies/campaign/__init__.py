"""The strategy of the kind `campaign`: an objective and an exploration become tasks that wait for each other.

Seed 003. A campaign is explored first where nothing is known of its repository, asks where it cannot be planned as it
stands, runs SPEC, BUILD and VERIFY tasks as governed steps, and is planned anew once where it is stuck.
"""

from __future__ import annotations

from tasks.strategies.campaign.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
