"""Patterns mean what a slow reading of the rules says, whichever way they are matched."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tasks.text.patterns import literal_folder, matches

DEEP = "d/" * 130  # longer patterns are matched in another way
PARTS = st.one_of(st.just("**"), st.text("ab*?[.", min_size=1, max_size=5).filter(lambda part: part != "."))
PATTERNS = st.lists(PARTS, min_size=1, max_size=5).map("/".join)
PATHS = st.lists(st.text("ab[.", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join)


def means(pattern: list[str], path: list[str]) -> bool:
    if not pattern or not path:
        return not pattern and not path
    if pattern == ["**"]:
        return True
    if pattern[0] == "**":
        return means(pattern[1:], path) or means(pattern, path[1:])
    return is_named(pattern[0], path[0]) and means(pattern[1:], path[1:])


def is_named(part: str, name: str) -> bool:
    if not part:
        return not name
    if part[0] == "*":
        return is_named(part[1:], name) or (bool(name) and is_named(part, name[1:]))
    return bool(name) and part[0] in ("?", name[0]) and is_named(part[1:], name[1:])


@given(PATTERNS, PATHS)
@example("**/a/**/*b*/**", "a/a/bb/b/c")
@example("a/**/**", "a/b")
@example("a/**", "a")
def test_both_ways_to_match_mean_what_the_rules_say(pattern: str, path: str) -> None:
    expected = means(pattern.split("/"), path.split("/"))

    assert matches(pattern, path) is expected
    assert matches(DEEP + pattern, DEEP + path) is expected


@given(PATTERNS, PATHS)
def test_what_a_pattern_means_lies_in_its_literal_folder(pattern: str, path: str) -> None:
    folder = literal_folder(pattern)

    assert not matches(pattern, path) or not folder or path.startswith(f"{folder}/")
