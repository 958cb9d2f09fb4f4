"""Words of pages: what was counted before a plan ended, code between backticks, and lists that are cut."""

from __future__ import annotations

from typing import Any

import pytest

from worker.gateway.page.documents.blocks import MOST_ROWS, MOST_TEXT, listing, text
from worker.gateway.page.rendering import coded
from worker.render.explanation import counted


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"value": 2000, "limit": 2000, "limit_name": "tokens"}, "2,000 tokens, the limit is 2,000"),
        ({"value": 61, "limit": 60, "limit_name": "wall_clock_s"}, "61 seconds, the limit is 60"),
        ({"value": 2, "limit": 1, "limit_name": "retry_limit"}, "2 failures of the step, the limit is 1"),
        ({"value": "SECURITY", "limit": None, "limit_name": "category"}, ""),
        ({"value": 7, "limit": None}, "7"),
        ({"value": 1, "limit": 0, "limit_name": "commands"}, ""),
        ({}, ""),
    ],
)
def test_what_was_counted_is_told_with_its_name(evidence: dict[str, Any], said: str) -> None:
    assert counted(evidence) == said


def test_words_between_backticks_are_code_and_all_is_escaped() -> None:
    assert coded("nobody reads `<b>default</b>`, & `x") == (
        "nobody reads <code>&lt;b&gt;default&lt;/b&gt;</code>, &amp; `x"
    )
    assert coded(None) == ""
    assert coded("`a\u202eb`") == "<code>a\N{REPLACEMENT CHARACTER}b</code>"


def test_a_long_list_says_how_many_it_leaves_out() -> None:
    found, whole = (listing([str(number) for number in range(count)]) for count in (MOST_ROWS + 1200, MOST_ROWS))

    assert found is not None
    assert (len(found.items), found.items[-1]) == (MOST_ROWS + 1, "and 1,200 more")
    assert whole is not None
    assert len(whole.items) == MOST_ROWS


def test_a_long_text_says_how_many_letters_it_leaves_out() -> None:
    assert text("x" * (MOST_TEXT + 5)).endswith("x… (cut: 5 letters more)")
