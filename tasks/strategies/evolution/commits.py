"""A commit in a prompt: everything that is known of it, in parts that can be shortened (seed 004 "helpers")."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.evolution import CommitMetric, CommitPlanningContext
from tasks.text.fields import fit

MAX_TEXT = 2000  # characters of a text that has no limit of its own
MAX_CHANGE = 512
MAX_FILES = 20
MAX_HIGHLIGHTS = 8
MAX_METRICS = 10
MAX_MEASURES = 4
MAX_MEASURE = 48  # characters
MAX_LINE = 1000
CUT = "... (truncated)"

Parts = list[list[str]]


def commit_parts(commit: CommitPlanningContext) -> Parts:
    """Put a commit into words: a part for each thing that is known of it, a line for each of its lines."""
    return [
        [f"Hash: {fit(commit.commit_hash, 64)}", f"Subject: {fit(commit.subject, 72)}"],
        [f"Change summary: {fit(commit.change_summary, MAX_CHANGE)}"],
        ["Trajectory (unique vs base):", *([fit(each, MAX_TEXT) for each in commit.trajectory] or ["- None"])],
        ["Key files:", *bullets(commit.key_files[:MAX_FILES])],
        [f"Evaluation summary: {fit(commit.evaluation_summary or '', MAX_TEXT) or 'N/A'}"],
        ["Highlights:", *bullets(commit.highlights[:MAX_HIGHLIGHTS])],
        ["Metrics:", *_metrics(commit.metrics)],
        *_place(commit),
    ]


def squeezed(parts: Parts, size: int) -> list[str]:
    """Take lines from the end of the longest part until all is at most `size` bytes; a mark stands where they were."""
    kept = [list(part) for part in parts]
    weights = [weight(part) for part in kept]
    while sum(weights) > size:
        longest = max(range(len(kept)), key=weights.__getitem__)
        kept[longest] = _shorter(kept[longest])
        weights[longest] = weight(kept[longest])
    return [line for part in kept for line in part]


def _shorter(part: list[str]) -> list[str]:
    lines = part[:-1] if part[-1] == CUT else part
    return [*lines[:-1], CUT] if len(lines) > 1 else []  # a single line that is longer than all there is room for


def weight(lines: Sequence[str]) -> int:
    """Say how many bytes `lines` take up in a prompt, with the mark of data and the line's end."""
    return sum(len(line.encode()) + 3 for line in lines)


def bullets(lines: Sequence[str]) -> list[str]:
    """List outside words, one a line."""
    return [f"- {line}" for line in (fit(each, MAX_LINE) for each in lines) if line] or ["- None"]


def _metrics(metrics: Sequence[CommitMetric]) -> list[str]:
    shown = [f"- {_metric(each)}" for each in metrics[:MAX_METRICS]]
    return [*shown, CUT] if len(metrics) > MAX_METRICS else shown or ["- None"]


def _metric(metric: CommitMetric) -> str:
    better = {True: " (higher is better)", False: " (lower is better)", None: ""}[metric.higher_is_better]
    value = f"{metric.value:.10g} {fit(metric.unit or '', 32)}".strip()
    summary = fit(metric.summary or "", 120)
    return f"{fit(metric.name, 128)}: {value}{better}{f' — {summary}' if summary else ''}"


def _place(commit: CommitPlanningContext) -> Parts:
    """Say where in the archive a commit stands, if it is known."""
    if commit.cell_index is None:
        return []
    objective = "N/A" if commit.objective is None else f"{commit.objective:.4f}"
    measures = ", ".join(f"{each:.4f}"[:MAX_MEASURE] for each in commit.measures[:MAX_MEASURES]) or "N/A"
    return [[f"MAP-Elites: cell_index={commit.cell_index}, objective={objective}, measures=[{measures}]"]]
