"""The shape of a rule of the classifier, and the words its patterns share.

Every pattern describes one line from its first character, so words inside a test's name or a printed text count for
nothing. Its groups are `test`, `file`, `line` and `code`. Repeats are bounded or cannot overlap, which keeps a pattern
linear in the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from schemas.base import FailureCategory as Category

REGRESSION, TIMEOUT, FLAKY = Category.TEST_REGRESSION, Category.TEST_TIMEOUT, Category.FLAKY_TEST
COMPILE, TYPE = Category.COMPILATION_ERROR, Category.TYPE_ERROR
LINT, IMPORT = Category.LINT_ERROR, Category.IMPORT_ERROR

FILE = r"(?P<file>[^\s:'\"()]{1,300})"
AT = r":(?P<line>\d{1,7})"
AT_COL = AT + r":\d{1,7}"
SYNTAX = r"(?P<code>SyntaxError|IndentationError|TabError)"


@dataclass(frozen=True, slots=True, eq=False)  # a rule is itself: dialects are keys of a cache
class Rule:
    """A line's shape and what it means; without a category it only locates.

    `needs` is the `name` of a rule that must have matched above; a `telling` line is where the trace begins.
    """

    pattern: str
    category: Category | None = None
    needs: str = ""
    name: str = ""
    telling: bool = False
    line: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", re.compile(f"^(?:{self.pattern})", re.MULTILINE))


Dialect = tuple[Rule, ...]

ARROW = Rule(rf" *--> {FILE}{AT_COL}$")  # rustc and ruff point alike
