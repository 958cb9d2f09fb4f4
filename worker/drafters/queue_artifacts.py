"""Stores the questions for drafts that controllers answer, next to the questions that a worker asks itself.

This worker remembers a question from the commit that sends it until its answer. It stores no answer to a question that
another worker sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from schemas import codec
from tasks.plan.changeset import Dispatch
from tasks.plan.report import Report
from tasks.rules.strategy import Consult, Drafted
from worker.drafters.artifacts import Artifacts
from worker.drafters.base import secrets_of
from worker.settings.settings import Settings

MOST_OPEN = 100  # questions that are remembered; the oldest are dropped first
MARK = b'"type":"DRAFT"'


class QueueArtifacts:
    """Stores the drafts of one engine for the operator."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked: OrderedDict[tuple[str, str], tuple[int, Consult]] = OrderedDict()

    def note(self, plan_id: str, messages: Iterable[Any], dispatches: Iterable[Dispatch]) -> None:
        """Store the answers among `messages` with their questions, and remember the questions among `dispatches`."""
        for message in messages:
            if isinstance(message, Report) and (known := self._asked.pop((plan_id, message.outcome.step_id), None)):
                self._keep(plan_id, *known, message)
        for step_id, attempt, raw in dispatches:
            if MARK in raw:
                given = codec.loads(raw).get("input") or {}
                question = Consult(given.get("prompt") or "", given.get("schema"), given.get("validation_mode"))
                self._asked[plan_id, step_id] = attempt.attempt, question
                if len(self._asked) > MOST_OPEN:
                    self._asked.popitem(last=False)

    def _keep(self, plan_id: str, attempt: int, question: Consult, report: Report) -> None:
        here, outcome = self._settings, report.outcome
        if here.planning_debug_dir is None:
            return
        metrics, evidence = outcome.metrics, outcome.failure_evidence
        error = None if outcome.success else (evidence and evidence.suggestion) or outcome.error_message or "it failed"
        answer = Drafted(
            outcome.output,
            error,
            (metrics.tokens_used or 0) if metrics else 0,
            (metrics.duration_ms or 0) if metrics else 0,
            stderr=(evidence.stack_trace_head or "") if evidence else "",
        )
        validation = question.validation_mode or here.planning_validation_mode
        modes = {"drafter": "queue", "validation": validation, "schema": "native" if question.schema else "none"}
        Artifacts(here.planning_debug_dir, modes, secrets_of(here)).keep(plan_id, attempt, question, answer)
