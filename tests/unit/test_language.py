"""The language of everything that people read keeps to docs/contributing.md, "Language"."""

from __future__ import annotations

import pytest

from tests.language.counting import allowed, by_area, check
from tests.language.style import PATTERNS, findings
from tests.language.texts import Text, read_all


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        ("What is done stays.", ["what is"]),
        ("It is told once more, whoever asks.", ["whoever", "tell", "once more"]),
        ("A step of which nobody says anything.", ["of which", "nobody", "say"]),
        ("One " + "word " * 25 + "more.", ["long"]),
        ("The planner returns the plan. The worker stores it.", []),
        ("What happens if Redis stops?", []),
    ],
)
def test_a_sentence_breaks_the_rules_that_it_breaks(words: str, rules: list[str]) -> None:
    assert sorted(each.rule for each in findings(words)) == sorted(rules)


def test_a_cliche_is_found_in_the_text_that_has_it() -> None:
    texts = [Text("docs", "a.md", 1, "The plan ends."), Text("docs", "b.md", 2, "At the end of the day it works.")]

    assert [(text.path, finding.rule.split()[0]) for text, finding in check(texts)] == [("b.md", "proselint")]


def test_texts_of_every_area_are_read_and_none_breaks_more_rules_than_it_may() -> None:
    texts = read_all()
    counts = by_area(check(texts))

    assert {text.area for text in texts} >= {"docs", "help", "errors", "reasons", "advice", "page", "docstrings"}
    worse = {area: (count, allowed().get(area, 0)) for area, count in counts.items() if count > allowed().get(area, 0)}
    assert worse == {}, "`python -m tests.language --since main` lists what to rewrite in the files that you changed"


def test_every_pattern_names_what_to_write_instead() -> None:
    assert all(instead for _, _, instead in PATTERNS)
