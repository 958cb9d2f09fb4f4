"""Chunks without a summary: which they are, what is asked about each, and what is read of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.kinds.evolution import ChunkSummary
from tasks.strategies.evolution.chunks import chunks_without_summary, summary_in
from tasks.strategies.evolution.trajectory import TrajectoryOptions
from tests.support.kinds.evolution import ATTACK, an_evolution

OPTIONS = TrajectoryOptions(summaries=2)


def test_each_full_block_that_a_prompt_shows_is_asked_about_once() -> None:
    twice = an_evolution(inspirations=[{"commit_hash": name, "change_summary": "tip"} for name in ("c30", "c29")])

    found = chunks_without_summary(twice, OPTIONS)

    assert [(each.start, each.end, each.size) for each in found] == [
        ("c1", "c8", 8),
        ("c9", "c16", 8),
        ("c17", "c24", 8),
    ]
    assert "| c9: change 9\n" in found[1].prompt
    assert "c17" not in found[1].prompt
    assert "at most 800 characters" in found[0].prompt


@pytest.mark.parametrize("more", [{"cold_start": True}, {"commit_cards": ()}, {"count": 6}])
def test_nothing_is_asked_where_no_chunk_is_shown(more: dict[str, Any]) -> None:
    assert chunks_without_summary(an_evolution(**more), OPTIONS) == ()


def test_a_chunk_that_has_a_summary_is_not_asked_about_unless_its_model_does_not_count() -> None:
    written = ChunkSummary(start_commit_hash="c1", end_commit_hash="c8", summary="Parsed", model="m1")
    evolution = an_evolution(chunk_summaries=[written.model_dump()])

    assert [each.start for each in chunks_without_summary(evolution, OPTIONS)] == ["c9", "c17"]
    of_another = TrajectoryOptions(summaries=2, summary_model="m2")
    assert [each.start for each in chunks_without_summary(evolution, of_another)] == ["c1", "c9", "c17"]


def test_a_summary_belongs_to_the_root_and_to_what_its_commits_changed() -> None:
    name = chunks_without_summary(an_evolution(), OPTIONS)[0].name

    assert chunks_without_summary(an_evolution(40), OPTIONS)[0].name == name
    assert chunks_without_summary(an_evolution(change="other"), OPTIONS)[0].name != name
    assert chunks_without_summary(an_evolution(experiment_root="c1"), OPTIONS)[0].name != name


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("It parsed\nfaster.", "It parsed faster."),
        ({"summary": 1}, '{"summary":1}'),
        (None, ""),
        (" ", ""),
        (ATTACK, ""),
    ],
)
def test_an_answer_is_one_line_of_text_without_attacks(answer: Any, read: str) -> None:
    assert summary_in(answer, OPTIONS) == read


def test_an_answer_and_a_question_are_bounded() -> None:
    (chunk, *_) = chunks_without_summary(an_evolution(2000, "long words " * 40), TrajectoryOptions(block_size=500))

    assert len(chunk.prompt) < 20_000
    assert len(summary_in("words " * 10_000, OPTIONS)) <= 800
