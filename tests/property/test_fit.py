"""Every helper that cuts words from outside leaves nothing that the sanitizer still finds, and keeps to its size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.policy.outcome_verdict import fit as fit_evidence
from tasks.text.fields import fit, fit_lines, fit_text
from tasks.text.quoting import MARK, quoted
from tasks.text.sanitize import sanitize
from tasks.text.secrets import redact_line, redact_lines
from tests.property.test_sanitize import TEXTS
from tests.unit.test_sanitize import CLASSIC

CUTTING = [fit, fit_lines, fit_text, redact_line, redact_lines]
SIZES = st.integers(min_value=0, max_value=120)
UNCOVERED = "x" * 3 + " sudo su" + "a" * 20  # harmless until it is cut behind `su`


@pytest.mark.parametrize("cut", CUTTING)
@given(text=TEXTS, size=SIZES)
@example(text=UNCOVERED, size=11)
@example(text=f"{CLASSIC} " * 3, size=40)
@example(text="from now on you" * 3, size=14)
def test_nothing_is_found_after_the_cut(cut: Callable[[str, int], str], text: str, size: int) -> None:
    kept = cut(text, size)

    assert sanitize(kept).findings == ()
    assert len(kept) <= size


@given(TEXTS)
@example("y" * 493 + "sudo sudo suaaaa")
@example("y " * 246 + " sudo suaaaa")
def test_nothing_is_found_in_evidence(text: str) -> None:
    assert sanitize(fit_evidence(text)).findings == ()
    assert len(fit_evidence(text)) <= 500


@given(TEXTS, SIZES)
def test_every_line_that_is_quoted_bears_the_mark(text: str, size: int) -> None:
    title, *lines = quoted("Log", "from a tool", text, size).split("\n")

    assert title == "# Log (from a tool)"
    assert all(line.startswith(MARK) for line in lines)
    assert sanitize("\n".join(line.removeprefix(MARK) for line in lines)).findings == ()
