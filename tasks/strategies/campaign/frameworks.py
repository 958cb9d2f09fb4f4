"""The frameworks that campaigns know, each with its weight in the complexity and its idioms.

If a goal names no framework and there is no exploration, the goal's texts are searched for one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.goal import GoalContext
from schemas.kinds.campaign import Idioms
from tasks.toolchain.files import name_of

NONE = "none"
MAX_SOURCES = 100  # Python files that are searched
BY_README, BY_MOST, BY_SOME, BY_MANIFEST, BY_NOTHING = 0.95, 0.85, 0.75, 0.65, 0.0  # confidence by the kind of evidence


@dataclass(frozen=True, slots=True)
class Framework:
    """The facts about a framework: its `weight` in the complexity of a campaign, and its idioms."""

    weight: int
    idioms: Idioms


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(  # of two frameworks with equal use the first one counts
    {
        "fasthtml": Framework(
            3,
            Idioms(
                required=("routes by @rt", "pages as component trees"),
                forbidden=("raw HTML in f-strings", "a Response that is made of HTML directly"),
            ),
        ),
        "fastapi": Framework(
            2,
            Idioms(
                required=("routes by @app.get, @app.post", "Pydantic models for JSON"),
                forbidden=("blocking calls in async code", "raw dicts without a schema"),
            ),
        ),
        "litestar": Framework(
            2,
            Idioms(
                required=("handlers by @get, @post", "typed responses"), forbidden=("blocking calls in async code",)
            ),
        ),
        "flask": Framework(1, Idioms(required=("routes by @app.route",))),
        "django": Framework(
            2, Idioms(required=("routes in urls.py", "views"), forbidden=("raw SQL that goes around the ORM",))
        ),
    }
)
_UNKNOWN = Framework(0, Idioms())


def framework(name: str) -> Framework:
    """Return a framework by its name in any case; an unknown one has no weight and no idioms."""
    return FRAMEWORKS.get(name.strip().lower(), _UNKNOWN)


def detect_framework(context: GoalContext) -> tuple[str, float]:
    """Return the framework that the goal's documents or manifests name, and the confidence from 0 to 1."""
    readmes = (text for path, text in context.documents.items() if name_of(path).lower().startswith("readme"))
    if found := _first_named(section[1] for text in readmes for section in _IDIOMS.finditer(text)):
        return found, BY_README
    sources = [text for path, text in context.documents.items() if path.endswith(".py")][:MAX_SOURCES]
    if used := Counter(name for text in sources for name in set(_IMPORTS.findall(text))):
        name = max(FRAMEWORKS, key=lambda each: used[each])  # the first of the largest
        return name, BY_MOST if used[name] * 2 > len(sources) else BY_SOME
    manifests = (text for path, text in context.manifests.items() if name_of(path).lower() == "pyproject.toml")
    found = _first_named(manifests)
    return (found, BY_MANIFEST) if found else (NONE, BY_NOTHING)


def _first_named(texts: Iterable[str]) -> str | None:
    """Return the first framework of the table that a text names."""
    named = {name.lower() for text in texts for name in _NAMES.findall(text)}
    return next((name for name in FRAMEWORKS if name in named), None)


_IDIOMS = re.compile(r"^##[ \t]+Framework Idioms[ \t]*$(.*?)(?=^##?[ \t]|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_NAMES = re.compile(rf"\b({'|'.join(FRAMEWORKS)})\b", re.IGNORECASE)
_IMPORTS = re.compile(rf"^[ \t]*(?:from|import)[ \t]+({'|'.join(FRAMEWORKS)})\b", re.MULTILINE)
