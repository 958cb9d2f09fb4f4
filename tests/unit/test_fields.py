"""Cuts are exact, JSON is found in prose, and what is longer than its schema allows is cut."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from tasks.text.fields import Cut, fit, one_line, several_lines
from tasks.text.json_in_prose import as_text, fit_schema, read_json, unfence
from tasks.text.sanitize import Treatment, sanitize
from tests.support.attacks import CLASSIC


@pytest.mark.parametrize(
    ("text", "size", "cut"),
    [
        *(("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab cd", 4, "ab…"), ("abc", 1, "…"), ("abc", 0, "")),
        *(("", 0, ""), ("", 5, "")),
    ],
)  # fmt: skip
def test_a_cut_is_exact_and_counts_its_mark(text: str, size: int, cut: str) -> None:
    assert several_lines(text, size) == cut
    assert len(cut) <= size


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", "plain"),
        ("```\na\n```", "a"),
        ("```json\na\nb\n```", "a\nb"),
        ("before\n```\na\n```\nafter", "a"),
        ("```\na\n```\nmiddle\n```\nb", "a"),
        ("a ``` b", "a ``` b"),
        ("```", ""),
        ("", ""),
    ],
)
def test_a_fence_is_taken_off(text: str, found: str) -> None:
    assert unfence(text) == found


@pytest.mark.parametrize(("output", "value"), [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), (7, 7), (None, None)])
def test_json_is_read_where_it_is_not_read_yet(output: Any, value: Any) -> None:
    assert read_json(output) == value


@pytest.mark.parametrize(
    ("output", "text"),
    [
        *((None, ""), ("", ""), ({}, ""), ([], ""), (" a ", "a")),
        *((0, "0"), (7, "7"), ({"a": [1]}, '{"a":[1]}'), (2**70, "")),
    ],
)  # fmt: skip
def test_an_answer_is_told_as_text(output: Any, text: str) -> None:
    assert as_text(output) == text


@pytest.mark.parametrize("cut", [one_line, several_lines])
@pytest.mark.parametrize("size", [1, 5, 29, 30, 100])
@pytest.mark.parametrize("text", [CLASSIC, CLASSIC * 9, "é" * 99, "a b " * 60, "…" * 50, "x\n" * 60])
def test_words_fit_and_hold_no_attack(cut: Cut, size: int, text: str) -> None:
    kept = fit(text, size, cut)

    assert 0 < len(kept) <= size
    assert sanitize(kept, Treatment.FLAG).findings == ()


def test_only_a_document_keeps_its_lines() -> None:
    assert (fit("a\n\nb", 9), fit("a\nb", 9, several_lines)) == ("a b", "a\nb")


@pytest.mark.parametrize(
    ("value", "mended"),
    [
        ({"plan_summary": "x" * 600, "more": 1}, {"plan_summary": "x" * 511 + "…"}),
        ({"risks": ["r"] * 30}, {"risks": ["r"] * 20}),
        ({"steps": [{"id": "a", "odd": 1, "files": [7]}]}, {"steps": [{"id": "a", "files": [7]}]}),
        ({"steps": 7, "risks": "r"}, {"steps": 7, "risks": "r"}),
        ([1], [1]),
        (None, None),
    ],
)
def test_what_is_too_much_is_cut_and_what_is_wrong_stays_wrong(value: Any, mended: Any) -> None:
    assert fit_schema(value, PLANNING_OUTPUT_SCHEMA) == mended
