"""The strategy of the kind `reviewed_plan`: planning and execution through quality gates."""

from __future__ import annotations

from tasks.strategies.reviewed_plan.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
