"""No text that the author of a change may write takes a pattern of the table long."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import fields

import pytest

from tasks.toolchain.integrity import marked_tests, sources, special_cases, suppressions
from tasks.toolchain.integrity.change import find_in_file
from tasks.toolchain.integrity.languages import TABLE, Signs

LENGTH, SECONDS = 15_000, 0.5
REPEATED = (
    *(
        "impl PartialEq<",
        "/* ",
        "\\'",
        '\\"',
        "\n",
        "a",
        " ",
        "assert.",
        "assert_eq",
        "assert[a]",
        "#[test]\n",
        "#[test]//",
    ),
    *("#[cfg_attr(", "#[cfg_attr(allow(", "#[allow(", "process.argv", "current_exe()", "os.Args[0]", "CHECK(", "fn f("),
)
BEGUN = ("expect", "(a", "s.Equal", "EXPECT_EQ", "equals(){return true", "#[test]")
HOSTILE = [
    *((each * LENGTH)[:LENGTH] for each in REPEATED),
    *(each + (more * LENGTH)[:LENGTH] for each in BEGUN for more in (" ", "Equal")),
]


def patterns_of(signs: Signs) -> Iterator[re.Pattern[str]]:
    for each in signs.suppressions:
        yield from filter(None, (each.pattern, each.wide))
    yield from signs.evading.values()
    yield from filter(None, (signs.surroundings, signs.overriding))
    values = (getattr(signs.tests, each.name) for each in fields(signs.tests)) if signs.tests else ()
    yield from (each for each in values if isinstance(each, re.Pattern))


PATTERNS = {
    **{each.suffixes[0]: [*patterns_of(each)] for each in TABLE},
    **{
        module.__name__.rpartition(".")[2]: [each for each in vars(module).values() if isinstance(each, re.Pattern)]
        for module in (marked_tests, sources, special_cases, suppressions)
    },
}


@pytest.mark.parametrize("row", PATTERNS)
def test_no_pattern_takes_long(row: str) -> None:
    for pattern in PATTERNS[row]:
        for text in HOSTILE:
            begun = time.process_time()
            for _ in pattern.finditer(text):
                pass
            assert time.process_time() - begun < SECONDS, (pattern.pattern, text[:40])


@pytest.mark.parametrize("text", ["x.stack;", 'x.stack;"', "x.stack=='test';", "/* ", "process.exit();"])
def test_no_source_takes_long(text: str) -> None:
    begun = time.process_time()

    find_in_file("src/a.js", "", text * (LENGTH // len(text)))

    assert time.process_time() - begun < SECONDS
