"""The strategy of the kind `gap_report`: gaps and history become the plan of one iteration (seed 000)."""

from __future__ import annotations

from tasks.strategies.gap_report.briefing import input_for
from tasks.strategies.gap_report.drafting import draft
from tasks.strategies.gap_report.unfolding import advance, answer, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
