"""Properties that every run tries with few examples, and the outages with many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

Test = Callable[..., None]


def few_and_many(few: int, many: int, *strategies: Any, **more: Any) -> Callable[[Test], tuple[Test, Test]]:
    """Make two tests of a property: one for every run, and one that `-m outages` asks for."""

    def tests(holds: Test) -> tuple[Test, Test]:
        examples: Callable[[Test], Test] = given(*strategies)
        short, long = (settings(max_examples=count, deadline=None, **more)(examples(holds)) for count in (few, many))
        return short, pytest.mark.outages(pytest.mark.long(long))

    return tests
