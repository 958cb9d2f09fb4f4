"""The sanitizer against text made to get past it or to hurt it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text import sanitize as sanitize_module
from tasks.text import unicode
from tasks.text.sanitize import Treatment, is_plain, sanitize
from tasks.text.unicode import clean
from tests.support.attacks import CLASSIC, TEXTS

HOSTILE = (
    "a",
    " ",
    "\n",
    "%69",
    "&#105;",
    "<!--",
    "<a",
    "](",
    "![",
    "a\u0301\u0316",
    "\u0301\u0316",
    "\ufdfa",
    "ignore all ",
    "ignore\n",
    "curl ",
    "curl|",
    "send token to ",
    "env | ",
    "rm -rf ",
    "aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0cnVjdGlvbnM",
    "aWdub3JlIGFsbC \n",
    "69",
    CLASSIC + " ",
)


@given(TEXTS, st.sampled_from(Treatment))
def test_sanitizing_twice_changes_nothing_more(text: str, mode: Treatment) -> None:
    once = sanitize(text, mode)

    assert sanitize(once.text, mode).text == once.text


@given(TEXTS, st.sampled_from([Treatment.STRIP, Treatment.ESCAPE]))
def test_nothing_is_found_in_what_was_sanitized(text: str, mode: Treatment) -> None:
    assert sanitize(sanitize(text, mode).text).findings == ()


@given(TEXTS)
def test_what_is_known_at_a_glance_to_be_plain_has_nothing_in_it(text: str) -> None:
    if is_plain(text):
        assert clean(text) == text
        assert not list(sanitize_module.find_spans(text))


@given(TEXTS)
def test_a_view_without_its_places_has_the_same_text(text: str) -> None:
    assert unicode.words_of(text) == unicode.words(unicode.TextView(text)).text
    assert unicode.code_of(text) == unicode.code(unicode.TextView(text)).text


@given(st.text())
def test_the_answer_can_be_encoded(text: str) -> None:
    assert sanitize(text).text.encode("utf-8") is not None


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    began = time.process_time()

    sanitize(text)

    assert time.process_time() - began < 8  # what is quadratic takes minutes
