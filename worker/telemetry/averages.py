"""Averages and rates of what one worker has counted, as JSON.

Prometheus makes its own of the counters, over any time and all workers; an average that is exported would be neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric as Family

from worker.telemetry.metrics import (
    DECOMPOSE_SECONDS,
    PARALLEL_BATCHES,
    PLANS,
    QA_EVALUATIONS,
    REVISIONS,
    STEP_RUN_SECONDS,
    STEPS,
    Metric,
)


def averages(families: Iterable[Family]) -> dict[str, Any]:
    """Sum up families; rates and averages of nothing are null."""
    samples = [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]

    def by(metric: Metric, label: str) -> dict[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for name, labels, value in samples:
            if name == metric.name:
                found[labels[label].partition(":")[0]] += int(value)
        return dict(sorted(found.items()))

    def total(name: str) -> float:
        return sum(value for each, _, value in samples if each == name)

    plans, steps = by(PLANS, "source"), by(STEPS, "status")
    return {
        "plans": plans,
        "steps": steps,
        "revisions": int(total(REVISIONS.name)),
        "revisions_by_category": by(REVISIONS, "row"),
        "qa_evaluations": by(QA_EVALUATIONS, "status"),
        "parallel_batches": int(total(PARALLEL_BATCHES.name)),
        "cache_hit_rate": _share(plans, "cache"),
        "step_success_rate": _share(steps, "success"),
        "avg_plan_time_ms": _average(total(f"{DECOMPOSE_SECONDS.name}_sum"), total(f"{DECOMPOSE_SECONDS.name}_count")),
        "avg_step_time_ms": _average(total(f"{STEP_RUN_SECONDS.name}_sum"), total(f"{STEP_RUN_SECONDS.name}_count")),
    }


def _share(counts: Mapping[str, int], name: str) -> float | None:
    total = sum(counts.values())
    return counts.get(name, 0) / total if total else None


def _average(seconds: float, count: float) -> float | None:
    return 1000 * seconds / count if count else None
