"""The repository of this demo: a slow search, how it came about, and two branches that found something faster."""

from __future__ import annotations

from worker.demo.evolution.history import Commit

SEARCH, WORDS, TESTS, YARDSTICK = "shop/search.py", "shop/words.py", "tests/test_search.py", "evaluate.py"
ALLOWED = (SEARCH, TESTS)  # never the yardstick
ADA, GRACE, EVOLVER = "Ada <ada@shop.example>", "Grace <grace@shop.example>", "evolver <evolver@shop.example>"
QUERIES = 20  # that differ, of the evaluation
MOST = 40  # answers that the last commit of `remember` keeps

SET_UP = "        self.looked_at = 0\n"
FIND = """\
        return [number for number in range(len(self.titles)) if self._has(number, wanted)]
"""
INDEX = """\
        self._by_word = {}
        for number, title in enumerate(self.titles):
            for word in set(words(title)):
                self._by_word.setdefault(word, []).append(number)
"""
GUESS = """\
        rarest = min((self._by_word[word] for word in wanted), key=len, default=range(len(self.titles)))
        return [number for number in rarest if self._has(number, wanted)]
"""
FIX = GUESS.replace("self._by_word[word]", "self._by_word.get(word, ())")

WORDS_BEFORE = '"""Texts as words."""\n\n\ndef words(text):\n    return text.split()\n'
WORDS_AFTER = WORDS_BEFORE.replace("text.split()", "text.lower().split()  # upper and lower case are one")


def search(set_up: str = "", find: str = FIND) -> str:
    """Write the module that searches."""
    return f'''\
"""Finds products by the words of their titles."""

from shop.words import words


class Search:
    """Searches titles; `looked_at` counts how many it had to look at."""

    def __init__(self, titles):
        self.titles = list(titles)
{SET_UP}{set_up}
    def find(self, query):
        """Return the numbers of the titles that have every word of `query`."""
        wanted = words(query)
{find}
    def _has(self, number, wanted):
        self.looked_at += 1
        return set(wanted) <= set(words(self.titles[number]))
'''


def remembering(most: int, find: str = FIND) -> tuple[str, str]:
    """Write how the last `most` answers are kept: what sets it up, and what finds."""
    kept = find.replace("        return", "            self._known[key] =")
    kept = kept.replace("        rarest", "            rarest")
    return (
        "        self._known = {}\n",
        f"""\
        key = tuple(sorted(wanted))
        if key not in self._known:
            if len(self._known) >= {most}:
                self._known.pop(next(iter(self._known)))
{kept}        return list(self._known[key])
""",
    )


BEFORE = """\
from shop.search import Search

SEARCH = Search(["red shoe", "Blue shoe", "blue suede shoe"])


def test_every_word_has_to_be_there():
    assert SEARCH.find("blue shoe") == [1, 2]


def test_a_word_that_no_title_has_finds_nothing():
    assert SEARCH.find("green shoe") == []


def test_a_query_without_words_finds_everything():
    assert SEARCH.find("") == [0, 1, 2]
"""
MORE = """\


def test_an_answer_can_be_changed_without_changing_the_next_one():
    SEARCH.find("red shoe").clear()

    assert SEARCH.find("red shoe") == [0]


def test_a_query_that_comes_again_looks_at_nothing():
    search = Search(["red shoe", "red hat"])
    search.find("red hat")
    before = search.looked_at

    assert search.find("hat red") == [1]
    assert search.looked_at == before
"""
FILES = {
    "pyproject.toml": """\
[project]
name = "shop"
version = "0.3.0"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""",
    "shop/__init__.py": '"""A small shop."""\n',
    WORDS: WORDS_BEFORE,
    SEARCH: search(),
    YARDSTICK: '''\
"""Prints how many titles a query makes the search look at, on average."""

from shop.search import Search

COLOURS, THINGS = ("red", "green", "blue", "black", "white"), ("shoe", "shirt", "scarf", "hat")
TITLES = [f"{colour} {thing} {size}" for colour in COLOURS for thing in THINGS for size in range(20)]
QUERIES = [f"{colour} {thing}" for _ in range(5) for thing in THINGS for colour in COLOURS]

search = Search(TITLES)
for query in QUERIES:
    search.find(query)
print(search.looked_at / len(QUERIES))
''',
    TESTS: BEFORE.replace("Blue", "blue"),
}


def _kept(most: int) -> str:
    if most < QUERIES:
        return "No change: every query comes again too late."
    return "One title in five is looked at." if most == QUERIES else "Looks at as many titles as before."


def _day(number: int) -> str:
    return f"2026-04-{number:02}" if number <= 30 else f"2026-05-{number - 30:02}"


HISTORY = (
    Commit("main", ADA, "2026-03-02", "Search titles one by one", FILES),
    Commit("main", GRACE, "2026-03-09", "Upper and lower case are one", {WORDS: WORDS_AFTER, TESTS: BEFORE}),
    Commit("index", GRACE, "2026-03-16", "Number titles by word", {SEARCH: search(INDEX)}, "Nothing uses it yet."),
    Commit(
        "index",
        GRACE,
        "2026-03-17",
        "Look only at titles with the rarest word",
        {SEARCH: search(INDEX, GUESS)},
        "One title in five is looked at.",
    ),
    *(
        Commit(
            "remember",
            EVOLVER,
            _day(number),
            f"Keep the answers to {number} queries",
            {SEARCH: search(*remembering(number))},
            f"{number} answers. {_kept(number)}",
        )
        for number in range(1, MOST + 1)
    ),
    Commit("main", ADA, "2026-05-20", "Say what it is for", {"README.md": "# Shop\n\nFinds products by words.\n"}),
)
