"""The classifier against text made to hurt it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import FailureCategory
from tasks.toolchain.classify import (
    MAX_CODES,
    MAX_FILES,
    MAX_TESTS,
    MAX_TEXT,
    MAX_TRACE,
    category_of,
    classify,
    signature,
)

OUTPUTS = Path(__file__).parents[1] / "fixtures" / "outputs"
LINES = sorted({line for path in OUTPUTS.glob("*.txt") for line in path.read_text("utf-8").splitlines()})
TEXTS = st.one_of(
    st.text(),
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), max_size=30).map("\n".join),
)
HOSTILE = ("a", "a:", "\n", " ", "/", "_", "a.py:1:1: error: [", "E   ", "FAILED a.py::", "  a.py:1:1 - error: x\n    ")


@given(TEXTS, st.none() | st.sampled_from(["pytest", "go-vet", "npm-test", "cargo-clippy", "never-heard-of"]))
def test_any_text_gets_one_bounded_answer(text: str, tool: str | None) -> None:
    found = classify(text, tool=tool)

    assert found == classify(text, tool=tool)
    assert found.category is not FailureCategory.LEASE_EXPIRED
    assert len(found.trace) <= MAX_TRACE
    assert len(found.failing_tests) <= MAX_TESTS
    assert len(found.files) <= MAX_FILES
    assert len(found.codes) <= MAX_CODES


@given(st.none() | st.text(), TEXTS)
def test_no_word_and_no_text_makes_it_raise(word: str | None, text: str) -> None:
    assert category_of(word, text) is not FailureCategory.LEASE_EXPIRED


@given(st.sampled_from(FailureCategory), st.lists(st.text()), TEXTS)
def test_a_signature_is_short_hex_or_empty(category: FailureCategory, tests: list[str], trace: str) -> None:
    name = signature(category, tests, trace)

    assert name == "" or (len(name) == 16 and int(name, 16) >= 0)


@pytest.mark.parametrize("unit", [*HOSTILE, *(one + other for one in HOSTILE for other in ("\n", "[", " - ", "0x1"))])
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    text = unit * (2 * MAX_TEXT // len(unit))
    began = time.process_time()

    classify(text)
    signature(FailureCategory.UNKNOWN, (), text)

    assert time.process_time() - began < 5  # about 0.5 s here; what is quadratic takes minutes
