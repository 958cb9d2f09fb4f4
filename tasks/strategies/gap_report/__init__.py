"""The strategy of the kind `gap_report`: gaps and history become the plan of one iteration (seed 000)."""

from __future__ import annotations

from tasks.strategies.gap_report.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
