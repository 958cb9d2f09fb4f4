"""What share of known attacks the sanitizer lets through, and what share of ordinary text it touches."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tasks.text.fields import as_written, fit
from tasks.text.sanitize import sanitize

TEXTS = Path(__file__).parents[1] / "fixtures" / "texts"
PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("capacity.md", "security.md")]
MAX_TOUCHED = 0.005  # of the benign texts


def texts(name: str) -> list[dict[str, str]]:
    with (TEXTS / name).open() as lines:
        return [json.loads(line) for line in lines]


def test_as_many_attacks_reach_a_prompt_as_the_docs_say() -> None:
    attacks = texts("attacks.jsonl")

    reaching = Counter(each["form"] for each in attacks if not sanitize(each["text"]).findings)

    assert len({each["text"] for each in attacks}) == 200
    figures = f"of 200 attacks {reaching.total()} reach a prompt, and {reaching['reworded']} of these"
    for page in PAGES:
        assert figures in " ".join(page.read_text().split()).replace("Of 200", "of 200"), (page, reaching)
    assert not reaching["plain"]
    assert any(each["form"] == "plain" for each in attacks)


def test_what_is_only_reworded_reaches_since_a_list_of_phrases_cannot_know_it() -> None:
    reworded = [each for each in texts("attacks.jsonl") if each["form"] == "reworded"]

    assert len(reworded) >= 10
    assert not any(sanitize(each["text"]).findings for each in reworded)


def test_benign_texts_are_left_alone() -> None:
    benign = texts("benign.jsonl")

    touched = [each["source"] for each in benign if sanitize(each["text"]).findings]

    assert len({each["text"] for each in benign}) == 500
    assert len(touched) / len(benign) < MAX_TOUCHED, touched


def test_nothing_is_found_in_an_attack_that_was_made_fit() -> None:
    for each in texts("attacks.jsonl"):
        for made in (fit(each["text"], 100), fit(f"Log: {each['text']}", 60, as_written)):
            assert sanitize(made).findings == (), made
